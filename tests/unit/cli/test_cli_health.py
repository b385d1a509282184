"""`lab health --check` where the check cannot be made: a coordinator that is away is waited for, and what stays wrong is kept."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from support.facts import missing_facts

from lab import package_data
from lab.cli.main import main
from lab.errors import BoardlabError, LabStableError, LabTransientError
from lab.farm.runner import BUSY
from lab.health.store import HealthBook
from lab.jobs import waiting
from lab.places import job_place
from lab.places.records import stock_user
from lab.results import open_store

FAILED = 1
AWAY = LabTransientError("labgrid's coordinator does not answer", failure="coordinator_unreachable")
ENV = """imports: [STRATEGY]
targets:
  main:
    resources: [{RemotePlace: {name: p1}}]
    drivers: [{BoardStrategy: {board: b1, board_type: am62xx_sk}}]
""".replace("STRATEGY", str(package_data.strategy_file()))


class Coordinator:
    """One that fails so, one after the other; `held_by`: who has the place."""

    def __init__(self, *faults: BoardlabError, held_by: str = "") -> None:
        self.faults, self.held_by = list(faults), held_by

    def find_unmatched(self, _name: str) -> tuple[str, ...]:
        if self.faults:
            raise self.faults.pop(0)
        return ()

    def holder(self, _name: str) -> str:
        return self.held_by

    def reserver(self, _name: str) -> str:
        return ""


@pytest.fixture
def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    (tmp_path / "b1.yaml").write_text(ENV)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(job_place, "POLL_S", 0.0)
    monkeypatch.setattr(waiting, "POLL_S", 0.01)

    def checked(coordinator: Coordinator, wait: str) -> int:
        monkeypatch.setattr("lab.places.coordinator.Coordinator", lambda _address: coordinator)
        words = ("health", "b1", "--check", "--env", str(tmp_path / "b1.yaml"), "--wait", wait)
        return main([*words, "--db", str(tmp_path / "results.db")])

    return checked


def kept(tmp_path: Path) -> list[tuple[str, str]]:
    with open_store(str(tmp_path / "results.db")) as store:
        return [(part.failure, part.message) for each in HealthBook(store).checks("b1", 9) for part in each.failed]


def test_a_board_that_nobody_knows_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "envs").mkdir()
    (tmp_path / "envs" / "b1.yaml").write_text(ENV)
    monkeypatch.chdir(tmp_path)
    with open_store("results.db") as store:
        store.begin_run("boot", "am62xx_sk", "b2", "11.01", plan={}, provenance={})
    assert main(["health", "b9", "--db", "results.db"]) == 2
    error = capsys.readouterr().err
    assert not missing_facts(error, "error: ", "'b9'", "`lab health`")
    assert error.count("\n") == 1
    for known in ("b1", "b2"):
        assert main(["health", known, "--db", "results.db"]) == 0
        assert "never checked" in capsys.readouterr().out


def test_a_coordinator_that_is_away_is_waited_for(
    tmp_path: Path, check: Callable[..., int], capfd: pytest.CaptureFixture[str]
) -> None:
    coordinator = Coordinator(AWAY, AWAY, LabStableError("another answer"))
    assert check(coordinator, "60") == FAILED
    assert not missing_facts(capfd.readouterr().err, "waits: ", str(AWAY))
    assert kept(tmp_path) == [("lab", "another answer")]


def test_a_check_that_cannot_be_made_is_one_that_failed(tmp_path: Path, check: Callable[..., int]) -> None:
    assert check(Coordinator(AWAY), "0") == FAILED
    assert kept(tmp_path) == [("coordinator_unreachable", str(AWAY))]


def test_the_host_that_looked_is_not_blamed_for_a_board_behind_a_place(
    tmp_path: Path, check: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    """Where the board is plugged in is known when its exporter has told it."""
    assert check(Coordinator(AWAY), "0") == FAILED
    with open_store(str(tmp_path / "results.db")) as store:
        assert [each.host for each in HealthBook(store).checks("b1", 9)] == [""]
    capsys.readouterr()
    assert main(["health", "b1", "--db", str(tmp_path / "results.db")]) == 0
    assert re.search(r"^1 +[-0-9]{10} [:0-9]{5}  \? ", capsys.readouterr().out, re.MULTILINE)


def test_a_place_that_a_person_has_is_no_fault_of_the_lab(
    tmp_path: Path, check: Callable[..., int], capfd: pytest.CaptureFixture[str]
) -> None:
    assert check(Coordinator(held_by=str(stock_user("lena"))), "3") == BUSY
    assert not missing_facts(capfd.readouterr().err, "waits: ", "place p1", "lena")
    assert not kept(tmp_path)
