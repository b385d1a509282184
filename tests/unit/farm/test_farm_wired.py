"""`lab farm check` compares the boards' places with a real coordinator's and a real exporter's: a typo is found before the night."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import coordinator
from support.facts import missing_facts
from support.prometheus_server import until
from typer.testing import CliRunner

from lab.cli import farm as commands
from lab.farm import config
from lab.farm.checks import files
from lab.places.coordinator import Coordinator
from lab.virtual.ports import free_port

ENV = """\
targets: {{main: {{resources: [{{RemotePlace: {{name: {place}}}}}], drivers: [{{BoardStrategy: {{board: {board}, board_type: am62xx_sk}}}}]}}}}
options: {{coordinator_address: '{address}'}}
"""


def farm(folder: Path, address: str, **places: str) -> Path:
    """A farm.yaml with a board for each place. places: board -> place."""
    (folder / "envs").mkdir(exist_ok=True)
    for board, place in places.items():
        text = ENV.format(place=place, board=board, address=address)
        (folder / "envs" / f"{board}.yaml").write_text(text)
    boards = ", ".join(f"{{name: {board}, env: {board}.yaml}}" for board in places)
    path = folder / "farm.yaml"
    path.write_text(f"directory: {folder}\ncoordinator: {address}\nboards: [{boards}]\n")
    return path


def test_a_place_that_is_not_there_and_one_that_nobody_exports_are_found(tmp_path: Path) -> None:
    resources = tmp_path / "exports.yaml"
    resources.write_text("sk-1:\n  NetworkService: {address: 127.0.0.1, username: root}\n")
    with coordinator.running_coordinator(tmp_path) as address:
        for place, group in (("sk-1", "sk-1"), ("sk-2", "sk2")):
            coordinator.client(address, "-p", place, "create")
            coordinator.client(address, "-p", place, "add-match", f"labhost/{group}/*")
        path = farm(tmp_path, address, one="sk-1", two="sk-2", three="sk-01", plus="'+'")
        words = ("-c", address, "-n", "labhost", "--hostname", "127.0.0.1", str(resources))
        with coordinator.running("labgrid-exporter", *words, folder=tmp_path):
            until(lambda: Coordinator(address).find_unmatched("sk-1") == (), "the exporter is seen")
            found = [str(each) for each in files.places(config.load(path))]
            done = CliRunner().invoke(commands.app, ["check", str(path)])
    two, three = found
    assert not missing_facts(two, f"boards: two: {tmp_path}/envs/two.yaml: ", "'sk-2'", "labhost/sk2/*", "no exporter")
    assert not missing_facts(three, f"boards: three: {tmp_path}/envs/three.yaml: ", "'sk-01'", address, "'sk-1'")
    assert done.exit_code == 2
    assert two in done.output
    assert three in done.output


@pytest.mark.parametrize("places", [{"one": "sk-1"}, {}])
def test_a_coordinator_that_does_not_answer_is_wrong(tmp_path: Path, places: dict[str, str]) -> None:
    address = f"127.0.0.1:{free_port()}"
    path = farm(tmp_path, address, **places)
    done = CliRunner().invoke(commands.app, ["check", str(path)])
    assert done.exit_code == 2, done.output
    (said,) = [line for line in done.output.splitlines() if line.startswith(f"{path}: coordinator: ")]
    assert address in said
    assert "systemctl start boardlab-coordinator" in said
    assert "nothing wrong" not in done.output


@pytest.mark.parametrize(
    ("database", "says"),
    [
        ("postgresql://lab@127.0.0.1:{port}/lab", "127.0.0.1:{port}"),
        ("sqlite:///{folder}/damaged.db", "{folder}/damaged.db"),
        ("sqlite:///{folder}/no/such.db", "mkdir -p {folder}/no"),
    ],
)
def test_results_that_do_not_answer_are_wrong(tmp_path: Path, database: str, says: str) -> None:
    known = {"folder": tmp_path, "port": free_port()}
    (tmp_path / "damaged.db").write_bytes(b"no database, and more than a hundred bytes of it " * 3)
    path = tmp_path / "farm.yaml"
    path.write_text(f"database: '{database.format(**known)}'\n")
    done = CliRunner().invoke(commands.app, ["check", str(path)])
    assert done.exit_code == 2, done.output
    assert any(
        says.format(**known) in line for line in done.output.splitlines() if line.startswith(f"{path}: store: ")
    )
    path.write_text("database: sqlite:///none-yet.db\n")
    assert CliRunner().invoke(commands.app, ["check", str(path)]).exit_code == 0, "the first run makes them"


def test_an_environment_with_another_coordinator_is_a_mistake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Coordinator, "holders", lambda _self, _timeout_s: {"sk-1": ""})
    path = farm(tmp_path, "10.0.0.7:20408", one="sk-1")
    path.write_text(path.read_text().replace("10.0.0.7", "10.0.0.1"))
    (finding,) = files.places(config.load(path))
    assert not missing_facts(finding.said, "10.0.0.7:20408", "farm.yaml", "10.0.0.1:20408")


def test_a_farm_without_coordinator_asks_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Coordinator, "holders", lambda *_: pytest.fail("it was asked"))
    path = tmp_path / "farm.yaml"
    path.write_text("user: me\n")
    assert list(files.places(config.load(path))) == []
