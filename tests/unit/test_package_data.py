"""What comes with boardlab beside its programs is found, here and in a wheel."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

import pytest

from lab import package_data

ROOT = Path(__file__).parents[2]


def test_a_checkout_has_them_at_its_top() -> None:
    assert package_data.checkout() == ROOT
    for name in (package_data.ENVS, package_data.STRATEGIES, package_data.TESTS, package_data.FARM, package_data.DOCS):
        assert package_data.folder(name) == ROOT / name
        assert package_data.folder(name).is_dir()


def test_a_wheel_has_them_in_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package_data, "_IN_WHEEL", tmp_path)
    assert package_data.checkout() is None
    assert package_data.folder(package_data.ENVS) == tmp_path / "envs"


def test_the_wheel_is_filled_as_they_are_looked_for() -> None:
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]["targets"][
        "wheel"
    ]
    names = {package_data.ENVS, package_data.STRATEGIES, package_data.TESTS, package_data.FARM}
    names |= {package_data.DOCS, package_data.SITE}
    assert wheel["sources"] == {name: f"lab/lab_folder/{name}" for name in names}
    assert set(wheel["only-include"]) == names | set(wheel["packages"])


def test_the_suite_is_a_labs_own_or_ours(tmp_path: Path) -> None:
    assert package_data.tests(tmp_path) == ROOT / "tests_perf"
    (tmp_path / "tests_perf").mkdir()
    assert package_data.tests(tmp_path) == tmp_path / "tests_perf"


def test_a_program_has_its_path_where_its_name_means_none_or_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = Path(sys.executable).with_name("pytest")
    monkeypatch.setenv("PATH", str(ours.parent))
    assert package_data.program("pytest") == "pytest"
    (tmp_path / "pytest").write_text("#!/bin/sh\n")
    (tmp_path / "pytest").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{ours.parent}")
    assert package_data.program("pytest") == str(ours)
    monkeypatch.setenv("PATH", "/nowhere")
    assert package_data.program("pytest") == str(ours)


@pytest.mark.parametrize("program", ["pdudaemon", "buildbot"])
def test_pip_installs_what_uv_locked_and_nothing_that_must_be_built(program: str) -> None:
    folder = ROOT / "farm" / program
    locked = {
        (package["name"], package["version"]): {
            file["hash"] for file in [*package.get("wheels", []), *([package["sdist"]] if "sdist" in package else [])]
        }
        for package in tomllib.loads((folder / "uv.lock").read_text(encoding="utf-8"))["package"]
        if package["name"] not in {"systemd-python", f"boardlab-{program}"}
    }
    text = re.sub(r"^#.*\n", "", (folder / "requirements.txt").read_text(encoding="utf-8"), flags=re.MULTILINE)
    required = {
        (name, version): set(re.findall(r"--hash=(\S+)", rest))
        for name, version, rest in re.findall(r"^([\w-]+)==([\w.]+)((?:.*\\\n)*.*)", text, re.MULTILINE)
    }
    assert required == locked, "make requirements.txt anew; its head has the command"


def test_the_page_on_licences_has_each_dependency_and_each_file_of_others() -> None:
    rows = re.findall(r"^\| (`.*?) \| (.+?) \|", (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8"), re.M)
    listed = {name for cell, _ in rows for name in re.findall("`(.+?)`", cell)}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    packages = {re.split(r"[<>=\[]", dependency)[0] for dependency in project["dependencies"]}
    minified = {path.name for path in (ROOT / "lab").rglob("*.min.*")}
    assert listed == packages | minified
    assert not [path for path in (ROOT / "lab").rglob("*") if path.suffix in {".woff", ".woff2", ".ttf", ".otf"}]
