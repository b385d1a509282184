"""The rules of the house that no linter knows: who prints, and that the documents name what exists."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest

from lab.virtual.images import tools

REPOSITORY = Path(__file__).resolve().parents[2]
PYPROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
WHEEL = PYPROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
MODULES = sorted(path for package in WHEEL for path in (REPOSITORY / package).rglob("*.py"))
ESSENTIAL = {"apt", "coreutils", "dpkg", "tar", "util-linux"}  # no Debian is without them


def name(path: Path) -> str:
    return str(path.relative_to(REPOSITORY))


def prints(source: str) -> list[int]:
    """Lines with a call of print()."""
    return [
        node.lineno
        for node in (ast.walk(ast.parse(source)) if "print(" in source else ())
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    ]


def run_commands() -> set[str]:
    """What `./run` understands: the labels of the case statement in its main function."""
    main = (REPOSITORY / "run").read_text(encoding="utf-8").partition("\nmain() {")[2].partition("\n}")[0]
    labels = re.findall(r"^\s+([\w| -]+)\)", main, re.MULTILINE)
    return {label.strip() for group in labels for label in group.split("|")}


def test_only_the_command_line_prints() -> None:
    library = [p for p in MODULES if p.name != "commands.py" and "cli" not in p.parts]
    assert prints("def f():\n    print(1)\n") == [2]
    assert {name(p): lines for p in library if (lines := prints(p.read_text(encoding="utf-8")))} == {}


def test_an_option_of_a_program_that_a_text_of_ours_cites_is_one_that_it_has() -> None:
    cited = re.compile(r"((?:bench|tests)/\w+\.py)((?: --[\w-]+)+)")
    texts = [p for room in ("lab", "docs", "bench") for p in (REPOSITORY / room).rglob("*")]
    wrong = [
        f"{name(path)}: {program} {option}"
        for path in texts
        if path.suffix in {".toml", ".py", ".md"}
        for program, options in cited.findall(path.read_text(encoding="utf-8"))
        for option in options.split()
        if f'"{option}"' not in (REPOSITORY / program).read_text(encoding="utf-8")
    ]
    assert wrong == []


@pytest.mark.parametrize("document", ["README.md", *sorted(name(p) for p in (REPOSITORY / "docs").rglob("*.md"))])
def test_a_document_names_only_commands_that_run_has(document: str) -> None:
    text = (REPOSITORY / document).read_text(encoding="utf-8")
    assert set(re.findall(r"(?<![\w.])\./run (\w+)", text)) <= run_commands()


def test_run_installs_the_programs_that_images_and_boards_are_made_with() -> None:
    script = (REPOSITORY / "run").read_text(encoding="utf-8")

    def listed(name: str) -> set[str]:
        (words,) = re.findall(rf"^readonly {name}_PACKAGES=\(\n(.*?)^\)", script, re.MULTILINE | re.DOTALL)
        return set(re.sub(r"#.*", "", words).split())

    assert set(tools.PACKAGES.values()) <= listed("DEMO") | ESSENTIAL
    assert set(tools.PACKAGES_OF_BENCHMARKS.values()) <= listed("DEMO") | listed("TEST") | ESSENTIAL


IMPORTED_AS = {"pylibiio": "iio", "prometheus-client": "prometheus_client"}


@pytest.mark.parametrize("dependency", PYPROJECT["project"]["dependencies"])
def test_what_is_installed_with_boardlab_is_imported_by_it(dependency: str) -> None:
    (distribution,) = re.findall(r"^[\w-]+", dependency)
    module = IMPORTED_AS.get(distribution, distribution)
    importing = re.compile(rf"^\s*(?:import|from) {module}\b", re.MULTILINE)
    assert any(importing.search(path.read_text(encoding="utf-8")) for path in MODULES)


def test_the_lock_file_has_what_the_project_asks_for() -> None:
    lock = tomllib.loads((REPOSITORY / "uv.lock").read_text(encoding="utf-8"))
    locked = next(each for each in lock["package"] if each["name"] == "boardlab")["metadata"]["requires-dev"]
    groups = {
        group: {re.split(r"[\[<>=~ ]", each)[0].lower() for each in each_of if isinstance(each, str)}
        for group, each_of in PYPROJECT["dependency-groups"].items()
    }
    missing = {group: found for group in groups if (found := groups[group] - {each["name"] for each in locked[group]})}
    assert missing == {}, "run `uv lock`"
