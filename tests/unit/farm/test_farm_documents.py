"""Where a lab has its documents: one key of farm.yaml, followed by all that links to them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from lab import package_data
from lab.cli import farm as commands
from lab.cli import main
from lab.errors import ConfigurationError
from lab.farm import systemd
from lab.farm.config import DOCUMENTS, Farm, load

SITE = "https://docs.lab.example/boardlab"
LINK = re.compile(r"https?://[^\s\"]+/(?:runbooks|failures|results)/[^\s\"]*")


def written(tmp_path: Path, text: str) -> dict[str, str]:
    """What `lab farm files` writes for that farm.yaml."""
    file = tmp_path / "farm.yaml"
    file.write_text(text, encoding="utf-8")
    done = CliRunner().invoke(commands.app, ["files", str(file), "--output", str(tmp_path / "made")])
    assert done.exit_code == 0, done.output
    paths = [Path(line) for line in done.output.split()]
    return {str(path.relative_to(tmp_path / "made")): path.read_text(encoding="utf-8") for path in paths}


def test_rules_and_dashboards_lead_to_the_labs_documents(tmp_path: Path) -> None:
    made = written(tmp_path, f"documents: {SITE}\n")
    assert len(made) >= 7
    links = [link for text in made.values() for link in LINK.findall(text)]
    assert len(links) > 30
    assert [link for link in links if not link.startswith(f"{SITE}/")] == []
    assert [name for name, text in made.items() if DOCUMENTS in text] == []
    for name, text in made.items():
        yaml.safe_load(text) if name.endswith(".yml") else json.loads(text)


def test_without_the_key_they_are_as_they_came(tmp_path: Path) -> None:
    for name, text in written(tmp_path, "").items():
        assert text == (package_data.folder(package_data.FARM) / name).read_text(encoding="utf-8")


def test_nothing_else_that_a_host_installs_names_the_address() -> None:
    folder = package_data.folder(package_data.FARM)
    programs = {".py"}
    naming = {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and path.suffix not in programs and DOCUMENTS.encode() in path.read_bytes()
    }
    assert naming - {"prometheus/tests/alerts.yml", "prometheus/tests/nights.yml"} <= set(systemd.files(Farm()))


@pytest.mark.parametrize("site", ["http://docs", "https://10.0.0.1:8443", "http://[::1]:8000/a/b-c"])
def test_an_address_of_documents(site: str) -> None:
    assert Farm(documents=site).documents == site


@pytest.mark.parametrize(
    "site",
    [
        "",
        "docs.lab.example",
        "ftp://docs",
        "https://docs/",
        "https://docs/#x",
        'https://docs"',
        "https://a b",
        "https://u:secret@docs",
    ],
)
def test_what_is_no_address_of_documents_is_refused(tmp_path: Path, site: str) -> None:
    file = tmp_path / "farm.yaml"
    file.write_text(yaml.safe_dump({"documents": site}), encoding="utf-8")
    with pytest.raises(ConfigurationError, match=r"documents: .*http\(s\)") as error:
        load(file)
    assert "secret" not in str(error.value)


def test_one_of_file_and_folder_is_not_enough(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["farm", "files", "--output", str(tmp_path)]) != 0
    assert "FILE and --output DIR" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("keys", "page"),
    [
        ({}, ""),
        ({"web": {"listen": "[::1]:9880"}}, ""),
        ({"web": {"listen": "0.0.0.0:9880", "web_config": "w"}}, ""),
        (
            {"web": {"listen": "0.0.0.0:9880", "web_config": "w", "name": "lab.example"}},
            "https://lab.example:9880/runs/{run}",
        ),
        ({"web": {"listen": "192.0.2.7:443", "web_config": "w"}}, "https://192.0.2.7/runs/{run}"),
        ({"web": {"listen": "127.0.0.1:80", "name": "lab.example"}}, "http://lab.example/runs/{run}"),
        ({"reports": "https://a/{run}.html", "web": {"listen": "192.0.2.7:443"}}, "https://a/{run}.html"),
    ],
)
def test_the_page_of_a_run_in_a_mail_is_reports_else_the_sites_where_others_reach_it(
    tmp_path: Path, keys: dict[str, object], page: str
) -> None:
    path = tmp_path / "farm.yaml"
    path.write_text(yaml.safe_dump(keys))
    assert load(path).run_page == page
