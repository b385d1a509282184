"""Whoever has a board's labgrid place by hand can have the board: a job that waits for the place keeps nobody from it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from attrs import define, evolve, field
from support.facts import missing_facts

from lab.cli import provision
from lab.errors import ConfigurationError, LabTransientError
from lab.farm.runner import BUSY, INTERRUPTED, Runner, RunnerPaths
from lab.host import process
from lab.jobs import waiting
from lab.jobs.lease import hold_board
from lab.jobs.queue import JobQueue
from lab.jobs.records import Job, Order, Silence
from lab.jobs.waiting import BusyBoardError, JobWaiter
from lab.places import job_place
from lab.places.records import job_user, stock_user, store_name
from lab.results import Store, open_store

ENV = "targets: {main: {resources: [{RemotePlace: {name: p1}}]}}\n"
LENA = str(stock_user("lena"))


@define
class Played:
    """A coordinator with one place; `taken` is called when a job has looked at its exporters, of which one is away so many looks.

    Attributes:
        late: its answer to the next acquisition does not come in time.
    """

    acquired: str = ""
    reserved: str = ""
    taken: Callable[[], None] = lambda: None
    away: int = 0
    said: list[str] = field(factory=list)
    deaf: bool = False
    late: bool = False

    def holder(self, _name: str) -> str:
        return self.acquired

    def reserver(self, _name: str) -> str:
        return self.reserved

    def find_unmatched(self, _name: str) -> tuple[str, ...]:
        self.taken()
        self.away -= 1
        return ("labhost/p1/NetworkSerialPort",) if self.away >= 0 else ()

    def release(self, _name: str, holder: str) -> None:
        assert self.acquired == holder
        self.acquired = ""
        self.said.append("release")

    def acquire(self, name: str, user: str, _allowed: str = "") -> None:
        assert self.acquired == ""
        if self.deaf:
            self.deaf = False
            raise ConfigurationError(f"labgrid's coordinator at x: Failed to acquire resources for place {name}")
        self.acquired = user
        self.said.append("acquire")
        if self.late:
            raise LabTransientError("no answer in time", failure="coordinator_unreachable")


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Played:
    played = Played()
    monkeypatch.setattr("lab.places.coordinator.Coordinator", lambda _address: played)
    monkeypatch.setattr(waiting, "POLL_S", 0.0)
    monkeypatch.setattr(job_place, "POLL_S", 0.0)
    return played


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(str(tmp_path / "results.db")) as store:
        yield store


@pytest.fixture
def heeded_sigterm() -> Iterator[None]:
    """The test fails, and does not end all others, where nobody heeds it."""
    unheeded: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _frame: unheeded.append(number))
    yield
    signal.signal(signal.SIGTERM, before)
    assert not unheeded


def queue(store: Store, person: str) -> JobQueue:
    return JobQueue(store, process.identity(), process.has_died, person=person)


def enqueued(book: JobQueue, tmp_path: Path) -> Job:
    (tmp_path / "b1.yaml").write_text(ENV)
    return book.enqueue(Order("am62xx_sk", "b1", ("boot",), str(tmp_path / "b1.yaml"), "", 1))


@pytest.mark.parametrize("kept", [{"acquired": LENA}, {"reserved": f"{LENA} (reservation 7F3K)"}])
def test_who_has_the_place_by_hand_gets_the_board_before_the_job_that_waits_for_it(
    tmp_path: Path, store: Store, played: Played, kept: dict[str, str]
) -> None:
    for name, value in kept.items():
        setattr(played, name, value)
    anns, lenas = queue(store, "ann"), queue(store, "lena")
    job, own = enqueued(anns, tmp_path), enqueued(lenas, tmp_path)
    said: list[str] = []

    def look() -> bool:
        if lenas.job(own.id).state == "queued" and anns.job(job.id).yields_to:
            started = JobWaiter(lenas, said.append, job_place.other_user).wait(own, 0)
            assert started is not None, said
        elif lenas.holder_of("b1") is not None:
            lenas.finish(own.id, "completed")
            played.acquired = played.reserved = ""
        return False

    started = JobWaiter(anns, said.append, job_place.other_user, look).wait(job, 600)
    assert started is not None
    assert started.yields_to == ""
    assert lenas.job(own.id).state == "completed"
    assert LENA in said[0]


def test_a_place_that_is_acquired_while_the_board_is_taken_gives_the_board_back(
    tmp_path: Path, store: Store, played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Runner, "_measure", lambda *_args: 0)
    book = queue(store, "ann")
    job, said = enqueued(book, tmp_path), list[str]()

    def lena() -> None:
        if not said:
            played.acquired = LENA

    def say(line: str) -> None:
        said.append(line)
        if "waits" in line:
            assert book.holder_of("b1") is None
            played.acquired = ""

    played.taken = lena
    assert Runner(book, RunnerPaths(tmp_path, tmp_path, None), say).run(job, 600) == 0
    assert f"held by {LENA}" in said[0]
    assert book.job(job.id).state == "completed"


def test_without_patience_it_is_refused_and_who_has_it_is_said(tmp_path: Path, store: Store, played: Played) -> None:
    played.acquired = LENA
    book = queue(store, "ann")
    job, said = enqueued(book, tmp_path), list[str]()
    assert Runner(book, RunnerPaths(tmp_path, tmp_path, None), said.append).run(job, 0) == BUSY
    assert not missing_facts(said[0], "place p1", f"{LENA}")
    assert "--wait SECONDS" in said[0]
    assert book.job(job.id).state == "refused"


def test_an_exporter_that_is_started_again_is_waited_for(
    tmp_path: Path, store: Store, played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Runner, "_measure", lambda *_args: 0)
    played.away = 3
    book = queue(store, "ann")
    job, said = enqueued(book, tmp_path), list[str]()
    assert Runner(book, RunnerPaths(tmp_path, tmp_path, None), said.append).run(job, 600) == 0
    assert not missing_facts(said[0], f"{job.called}", "place p1", "labhost/p1")
    assert (len(said), played.away, book.job(job.id).state) == (1, -1, "completed")


@pytest.mark.parametrize(("wait_s", "limit_s"), [(0.0, 300.0), (600.0, 0.0)])
def test_one_that_stays_away_ends_the_job_which_can_be_resumed(
    tmp_path: Path, store: Store, played: Played, monkeypatch: pytest.MonkeyPatch, wait_s: float, limit_s: float
) -> None:
    monkeypatch.setattr(job_place, "AWAY_S", limit_s)
    played.away = 1000
    book = queue(store, "ann")
    job = enqueued(book, tmp_path)
    with pytest.raises(LabTransientError, match="no exporter offers"):
        Runner(book, RunnerPaths(tmp_path, tmp_path, None), lambda _: None).run(job, wait_s)
    assert (played.away, book.job(job.id).state) == (999, "interrupted")


def test_who_cancels_a_job_that_waits_for_an_exporter_is_said_and_it_is_not_begun_again(
    tmp_path: Path, store: Store, played: Played
) -> None:
    played.away = 1000
    book = queue(store, "ann")
    job, said = enqueued(book, tmp_path), list[str]()
    played.taken = lambda: book.cancel(job.id, "lena") and None
    assert Runner(book, RunnerPaths(tmp_path, tmp_path, None), said.append).run(job, 600) == INTERRUPTED
    assert not missing_facts("\n".join(said), f"{job.called}", "cancelled", "lena", "kept")
    assert book.job(job.id).state == "cancelled"


def test_a_place_that_a_dead_process_of_the_same_job_left_is_acquired_anew(
    tmp_path: Path, store: Store, played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A janitor that saw the job dead may release it in this very moment."""
    monkeypatch.setattr(Runner, "_measure", lambda *_args: 0)
    book = queue(store, "ann")
    job = enqueued(book, tmp_path)
    played.acquired = str(job_user("ann", job.called, store_name(store)))
    assert Runner(book, RunnerPaths(tmp_path, tmp_path, None), lambda _: None).run(job, 0) == 0
    assert played.said == ["release", "acquire", "release"]


def test_a_dead_jobs_place_is_acquired_anew_by_whoever_resumes_the_job(
    tmp_path: Path, store: Store, played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Runner, "_measure", lambda *_args: 0)
    dead = JobQueue(store, "the killed one", lambda _: True, person="ann")
    job = enqueued(dead, tmp_path)
    assert dead.start(job.id) is not None
    played.acquired = str(job_user("ann", job.called, store_name(store)))
    book = JobQueue(store, process.identity(), lambda who: who == dead.holder, person="lena")
    job = book.take_up(job.id)
    assert Runner(book, RunnerPaths(tmp_path, tmp_path, None), lambda _: None).run(job, 0) == 0
    assert played.said == ["release", "acquire", "release"]


def test_a_place_whose_acquisition_was_not_answered_in_time_is_given_back(
    tmp_path: Path, store: Store, played: Played
) -> None:
    """The coordinator has done it all the same, and nobody would give it back."""
    played.late = True
    book = queue(store, "ann")
    job = enqueued(book, tmp_path)
    with pytest.raises(LabTransientError, match="no answer in time"):
        Runner(book, RunnerPaths(tmp_path, tmp_path, None), lambda _: None).run(job, 0)
    assert played.said == ["acquire", "release"]


def test_an_exporter_that_goes_after_a_long_wait_is_waited_for_as_long_as_at_its_beginning(
    tmp_path: Path, store: Store, played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Runner, "_measure", lambda *_args: 0)
    clock = [0.0]
    played.acquired = "lab-7/ann-01234567-j4"  # another store's job
    book = evolve(queue(store, "ann"), silence=Silence(lambda: clock[0]))
    job = enqueued(book, tmp_path)

    def look() -> None:
        clock[0] += job_place.AWAY_S / 3
        if clock[0] > 2 * job_place.AWAY_S and played.acquired:
            played.acquired, played.away = "", 2

    played.taken = look
    assert Runner(book, RunnerPaths(tmp_path, tmp_path, None), lambda _: None).run(job, 3600) == 0


def test_an_exporter_that_does_not_obey_is_away_and_no_wrong_order(
    tmp_path: Path, store: Store, played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Runner, "_measure", lambda *_args: 0)
    played.deaf = True
    book = queue(store, "ann")
    job, said = enqueued(book, tmp_path), list[str]()
    assert Runner(book, RunnerPaths(tmp_path, tmp_path, None), said.append).run(job, 600) == 0
    assert not missing_facts(said[0], "exporter", "not obey")


def order(tmp_path: Path) -> Order:
    (tmp_path / "b1.yaml").write_text(ENV)
    return Order("am62xx_sk", "b1", ("health",), str(tmp_path / "b1.yaml"), "", None)


def test_a_check_waits_for_a_persons_place_without_the_board(tmp_path: Path, store: Store, played: Played) -> None:
    played.acquired, said = LENA, list[str]()
    book = queue(store, "ann")

    def say(line: str) -> None:
        said.append(line)
        assert book.holder_of("b1") is None
        played.acquired = ""

    with hold_board(book, order(tmp_path), 600, say, job_place.other_user) as job, job_place.hold_place(book, job):
        assert book.holder_of("b1") is not None
    assert not missing_facts(said[0], "waits: ", "place p1", f"{LENA}")


def test_a_check_that_waited_long_enough_says_whose_place_it_is(tmp_path: Path, store: Store, played: Played) -> None:
    played.acquired = LENA
    book = queue(store, "ann")
    with (
        pytest.raises(BusyBoardError, match=f"{LENA}.*--wait SECONDS"),
        hold_board(book, order(tmp_path), 0, lambda _: None, job_place.other_user),
    ):
        pytest.fail("it has the board")


def test_who_has_the_place_by_hand_gets_the_board_before_a_check_that_waits_for_it(
    tmp_path: Path, store: Store, played: Played
) -> None:
    played.acquired, said = LENA, list[str]()
    anns, lenas = queue(store, "ann"), queue(store, "lena")

    def say(_line: str) -> None:
        started = JobWaiter(lenas, said.append, job_place.other_user).wait(enqueued(lenas, tmp_path), 0)
        assert started is not None, said
        lenas.finish(started.id, "completed")
        played.acquired = ""

    with hold_board(anns, order(tmp_path), 600, say, job_place.other_user) as job:
        assert job.yields_to == ""


def test_a_check_that_waits_for_a_persons_place_gives_signs_of_life(
    tmp_path: Path, store: Store, played: Played
) -> None:
    """Another host takes it for dead else."""
    played.acquired, heartbeats = LENA, set[object]()
    book = queue(store, "ann")

    def look(queue: JobQueue, job: Job) -> str:
        heartbeats.add(book.job(job.id).heartbeat_at)
        played.acquired = LENA if len(heartbeats) < 3 else ""
        return job_place.other_user(queue, job)

    with hold_board(book, order(tmp_path), 600, lambda _: None, look):
        assert len(heartbeats) == 3


@pytest.mark.usefixtures("heeded_sigterm")
@pytest.mark.parametrize("here", [False, True])
def test_who_cancels_a_check_that_waits_is_said_and_it_is_not_begun_again(
    tmp_path: Path, store: Store, played: Played, *, here: bool
) -> None:
    """From this host by a signal, too."""
    played.acquired, said = LENA, list[str]()
    book = queue(store, "ann")

    def say(line: str) -> None:
        said.append(line)
        if "waits" in line:
            book.cancel(1, "lena")
            if here:
                os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(KeyboardInterrupt), hold_board(book, order(tmp_path), 600, say, job_place.other_user):
        pytest.fail("it has the board")
    (told,) = said[1:]
    assert not missing_facts(told, "j1", "cancelled", "lena")
    assert book.job(1).state == "cancelled"


@pytest.mark.usefixtures("heeded_sigterm")
def test_a_release_that_waits_for_its_place_ends_in_order_when_it_is_cancelled(
    tmp_path: Path, store: Store, played: Played
) -> None:
    """Who gives its signs of life ends it by SIGTERM then."""
    played.taken = lambda: os.kill(os.getpid(), signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), provision.hold(store, order(tmp_path), 0.0, False):
        pytest.fail("it has the place")
    assert queue(store, "ann").job(1).state == "interrupted"
