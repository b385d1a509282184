"""A host takes no more boards than it can stamp; what is too many is learned, and a waiting run says why it waits."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.facts import missing_facts

from lab.errors import ConfigurationError
from lab.farm.capacity import LEARNED, HostCapacity
from lab.farm.config import Limits, load
from lab.farm.runner import BUSY, Runner, RunnerPaths
from lab.farm.systemd import units
from lab.jobs.queue import TIMERS, JobQueue
from lab.jobs.records import BY_WEB, Order
from lab.results import Store, open_store

START = dt.datetime(2026, 3, 2, 2, 0, tzinfo=dt.UTC)


class Lab:
    """A host `lab1` whose boards and stamps a test sets."""

    def __init__(self, store: Store, folder: Path) -> None:
        self.store, self.folder, self.at = store, folder, START
        self.late_ms: float | None = None
        self.dead: set[str] = set()

    def book(self, holder: str, program: str = "lab run") -> JobQueue:
        return JobQueue(
            self.store, holder, lambda who: who in self.dead, lambda: self.at, program=program, priority=TIMERS
        )

    def measures(self, board: str, *, host: str = "lab1", program: str = "lab run") -> None:
        jobs = self.book(f"{host}/boot/{board}/1", program)
        assert jobs.start(jobs.enqueue(Order("am62xx_sk", board, ("boot",), "e", "", 1)).id) is not None

    def capacity(self, **limits: float) -> HostCapacity:
        return HostCapacity(self.book("lab1/boot/9/1"), Limits(**limits), lambda: self.late_ms, self.folder, "lab1")  # type: ignore[arg-type]


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with open_store(str(tmp_path / "results.db")) as store:
        yield Lab(store, tmp_path)


def test_no_more_boards_than_farm_yaml_allows_of_this_host(lab: Lab) -> None:
    capacity = lab.capacity(max_boards=2)
    lab.measures("a")
    lab.measures("elsewhere", host="lab2")
    lab.measures("switched", program=BY_WEB)
    assert capacity.why_wait() == ""
    lab.measures("b")
    assert not missing_facts(capacity.why_wait(), "lab1", "2 boards", "allows 2", "max_boards")
    lab.dead.add("lab1/boot/b/1")
    assert capacity.why_wait() == "", "whose job was killed measures nothing"


def test_late_stamps_let_no_further_board_begin_and_the_first_one_always(lab: Lab) -> None:
    capacity = lab.capacity(late_ms=2.0)
    lab.late_ms = 3.2
    assert capacity.why_wait() == ""
    for number in range(12):
        lab.measures(f"b{number}")
    assert not missing_facts(capacity.why_wait(), "lab1", "3.2 ms", "12 boards", "13th waits", "late_ms: 2")
    lab.late_ms = 1.9
    assert capacity.why_wait() == ""
    lab.late_ms = None
    assert capacity.why_wait() == ""


def test_how_many_boards_are_too_many_is_learned_for_a_day_once_they_have_settled(lab: Lab) -> None:
    capacity = lab.capacity(late_ms=2.0)
    for number in range(3):
        lab.measures(f"b{number}")
    lab.late_ms = 3.2
    capacity.record()
    lab.late_ms = 0.1
    assert capacity.why_wait() == "", "the percentile was still of fewer boards"
    lab.at += dt.timedelta(seconds=61)
    capacity.record()
    assert capacity.why_wait() == ""
    lab.late_ms = 3.2
    capacity.record()
    lab.late_ms = 0.1
    facts = ("lab1", "3.2 ms", "3 boards", "02:01 UTC", "3 measure", "4th waits")
    assert not missing_facts(capacity.why_wait(), *facts)
    assert lab.capacity(late_ms=0).why_wait() == "", "however late they are"
    lab.dead.add("lab1/boot/b2/1")
    assert not missing_facts(capacity.why_wait(), "2 measure", "3rd waits")
    lab.dead.add("lab1/boot/b1/1")
    assert capacity.why_wait() == ""
    lab.dead.clear()
    lab.at += dt.timedelta(days=1)
    assert capacity.why_wait() == ""


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"boards": "x", "p99_ms": 1, "at": 2}'])
def test_a_damaged_note_says_nothing(lab: Lab, text: str) -> None:
    (lab.folder / LEARNED).write_text(text)
    lab.measures("a")
    assert lab.capacity(late_ms=2.0).why_wait() == ""


def test_a_scheduled_run_that_has_no_room_says_why_and_takes_no_board(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BOARDLAB_RUNTIME", str(tmp_path / "run"))
    lab.measures("a")
    capacity = lab.capacity(max_boards=1)
    said: list[str] = []
    runner = Runner(capacity.queue, RunnerPaths(tmp_path, tmp_path, None), said.append, capacity=capacity)
    job = capacity.queue.enqueue(Order("am62xx_sk", "b", ("boot",), str(tmp_path / "env.yaml"), "", 1))
    assert runner.run(job, 0.0) == BUSY
    (line,) = said
    assert not missing_facts(line, "lab1", "1 board,", "allows 1", "max_boards", "--wait SECONDS")
    assert capacity.queue.job(job.id).state == "refused"


def test_limits_are_keys_of_farm_yaml(tmp_path: Path) -> None:
    path = tmp_path / "farm.yaml"
    path.write_text("limits: {power_on_gap: 0.5, max_boards: 16, late_ms: 2}")
    assert load(path).limits == Limits(0.5, 16, 2.0)
    path.write_text("limits: {power_on_gap: 600}")
    with pytest.raises(ConfigurationError, match="power_on_gap"):
        load(path)


@pytest.mark.parametrize("address", ["203.0.114.5:20408", "0.0.0.0:20408", "[::]:20408", "[2a00:1450::1]:20408"])
def test_a_coordinator_that_everybody_reaches_is_refused(tmp_path: Path, address: str) -> None:
    path = tmp_path / "farm.yaml"
    path.write_text(f"coordinator: '{address}'")
    with pytest.raises(ConfigurationError, match="no authentication"):
        load(path)


@pytest.mark.parametrize(
    "address", ["127.0.0.1:20408", "[::1]:20408", "10.0.0.1:20408", "[fd00::1]:20408", "lab1:20408"]
)
def test_a_coordinator_of_the_labs_own_network_is_taken(tmp_path: Path, address: str) -> None:
    path = tmp_path / "farm.yaml"
    path.write_text(f"coordinator: '{address}'")
    assert load(path).coordinator == address


def test_units_have_the_gap_between_power_ons(tmp_path: Path) -> None:
    path = tmp_path / "farm.yaml"
    path.write_text("limits: {power_on_gap: 0.5}")
    assert "\nEnvironment=BOARDLAB_POWER_ON_GAP=0.5\n" in units(load(path), str(path))["boardlab-web.service"]
    path.write_text("limits: {max_boards: 2}")
    assert "POWER_ON_GAP" not in units(load(path), str(path))["boardlab-web.service"]
