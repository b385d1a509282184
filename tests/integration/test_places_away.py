"""A labgrid place whose exporter is away is no reservation's, until the exporter is back."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import frozen
from support.coordinator import DEADLINE_S, PROGRAMS, client, running_coordinator
from support.exported import running_exporter
from support.prometheus_server import until

from exporters.farm.places import PlaceCollector
from lab.cli.main import main
from lab.farm import status
from lab.places.coordinator import Coordinator
from lab.web import wall

FARM = """
directory: {folder}
database: sqlite:///{folder}/results.db
coordinator: {address}
boards:
  - {{name: dead, env: dead.yaml}}
"""
ENV = "targets: {main: {resources: [{RemotePlace: {name: dead}}]}}\n"
RESOURCE = "{place}:\n  NetworkService: {{address: 127.0.0.1, username: root}}\n"
KEPT = "exporter-away/lab-2"


@frozen
class Lab:
    """A farm of two places with one tag, of exporters `labhost` and `lab-2`, of which the latter does not run."""

    folder: Path
    address: str

    @property
    def coordinator(self) -> Coordinator:
        return Coordinator(self.address)

    def reserve(self, *words: str) -> str:
        """The token of a reservation of whichever of the places."""
        done = subprocess.run(
            [PROGRAMS / "labgrid-client", "reserve", "--shell", *words, "board=am62x"],
            env={**os.environ, "LG_COORDINATOR": self.address, "LG_USERNAME": "alice", "LG_HOSTNAME": "ci1"},
            check=True,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
        )
        token = re.search(r"LG_TOKEN=(\w+)", done.stdout)
        assert token is not None, done.stdout
        return token[1]

    def janitor(self, capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
        """What `lab farm janitor` says."""
        capsys.readouterr()
        assert main(["farm", "janitor", str(self.folder / "farm.yaml"), *words]) == 0
        return capsys.readouterr().out.splitlines()


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with running_coordinator(tmp_path) as address:
        for name, exporter in (("live", "labhost"), ("dead", "lab-2")):
            client(address, "-p", name, "create")
            client(address, "-p", name, "add-match", f"{exporter}/{name}/*")
            client(address, "-p", name, "set-tags", "board=am62x")
        (tmp_path / "farm.yaml").write_text(FARM.format(folder=tmp_path, address=address))
        (tmp_path / "dead.yaml").write_text(ENV)
        with running_exporter(address, tmp_path, tmp_path / "run", RESOURCE.format(place="live")):
            yield Lab(tmp_path, address)


def test_a_reservation_gets_the_living_place_and_waits_for_the_dead_one_until_its_exporter_is_back(
    lab: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    action = f"place dead: acquired for {KEPT}: exporter of lab-2 is away; start boardlab-export there"
    assert lab.janitor(capsys, "--dry-run") == [f"would be: {action}"]
    assert lab.janitor(capsys, "--once") == [action]
    assert lab.coordinator.holders() == {"live": "", "dead": KEPT}
    assert lab.coordinator.poll(lab.reserve("--wait")) == ("allocated", ("live",))
    later = lab.reserve()
    assert lab.janitor(capsys, "--once") == ["No place is left behind."]
    assert lab.coordinator.poll(later) == ("waiting", ())

    shown = {sample.labels["place"]: sample.labels for sample in _samples(lab, "boardlab_place_away")}
    assert shown == {"dead": {"place": "dead", "exporter": "lab-2", "away": "exporter"}}
    assert {each.labels["place"]: each.value for each in _samples(lab, "boardlab_place_acquired")}["dead"] == 0
    found = status.look(None, lab.folder / "farm.yaml", lab.folder / "run", lab.folder)
    assert [line for line in status.lines(found) if "exporter of lab-2 is away; start boardlab-export there" in line]
    (tile,) = [tile for tile in wall.tiles(found) if tile.board == "dead"]
    assert tile.state == "away"

    other = lab.folder / "lab-2"
    other.mkdir()
    with running_exporter(lab.address, other, lab.folder / "run", RESOURCE.format(place="dead"), "--name", "lab-2"):
        until(lambda: lab.coordinator.poll(later) and "dead" not in lab.coordinator.lacking(), "its exporter is back")
        assert lab.janitor(capsys, "--once") == [f"place dead: released from {KEPT}: all that it has is there again"]
        assert lab.coordinator.poll(later) == ("allocated", ("dead",))
        client(lab.address, "-p", "dead", "acquire")
        assert lab.coordinator.holder("dead") == "ci1/alice"


def test_a_place_that_lacks_something_takes_nothing_from_one_that_has_all_it_wants(
    lab: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a board with two places, one of them with a camera whose exporter is away."""
    client(lab.address, "-p", "dead", "add-match", "labhost/live/*")
    until(lambda: lab.coordinator.lacking()["dead"].shared_with == "live", "its exporter is seen")
    assert lab.janitor(capsys, "--once") == ["No place is left behind."]
    client(lab.address, "-p", "live", "acquire")
    assert lab.coordinator.holders() == {"live": "ci1/alice", "dead": ""}


def _samples(lab: Lab, name: str) -> list[object]:
    families = PlaceCollector(lab.coordinator.state).read()
    return [sample for family in families for sample in family.samples if sample.name == name]
