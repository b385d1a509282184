"""One loop waits for a board, for each program: for its job's turn, an environment that can be read, a board of its type."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from attrs import evolve
from support.jobbook import Steady, Wall

from lab.health.reservations import ReservationBook
from lab.host import locks, process
from lab.jobs.lease import hold_board
from lab.jobs.queue import PERSONS, TIMERS, JobQueue, Prospect
from lab.jobs.records import BOARDS, HEARTBEAT_S, LEASE_S, Job, Order, Silence
from lab.jobs.waiting import BEHIND_HEARTBEAT_S, BEHIND_LOOK_S, LOOK_S, BusyBoardError, JobWaiter
from lab.places.job_place import other_user
from lab.results import Store, open_store


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setenv("BOARDLAB_RUNTIME", str(tmp_path / "run"))
    with open_store(str(tmp_path / "results.db")) as store:
        yield store


def timers(store: Store) -> JobQueue:
    return JobQueue(store, process.identity(), process.has_died, person="timer", priority=TIMERS)


def order(folder: Path) -> Order:
    return Order("am62xx_sk", "one", ("boot",), str(folder / "one.yaml"), "", 1, {})


@pytest.mark.parametrize("priority", [PERSONS, TIMERS])
def test_an_environment_that_is_being_saved_keeps_its_job_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: Store, priority: int
) -> None:
    """And where it stays so, the job ends as one that waited for too long."""
    env = tmp_path / "one.yaml"
    env.write_text("targets: {main: {resources: [")
    book = JobQueue(store, process.identity(), process.has_died, person="lena", priority=priority)
    said: list[str] = []
    job = book.enqueue(order(tmp_path))
    with pytest.raises(BusyBoardError, match=r"one\.yaml"):
        JobWaiter(book, said.append, other_user).wait(job, 0)

    def saved(*_args: object) -> None:
        env.write_text("targets: {main: {resources: []}}")

    monkeypatch.setattr(JobWaiter, "_rest", saved)
    taken = JobWaiter(book, said.append, other_user).wait(job, 3600)
    assert taken is not None
    assert (taken.state, taken.yields_to) == ("running", "")


def test_the_time_of_a_reservation_that_a_job_gave_way_to_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: Store
) -> None:
    (tmp_path / "one.yaml").write_text("targets: {main: {resources: []}}")
    reservations, rests = ReservationBook(store), list[int]()
    book = evolve(timers(store), silence=Silence(lambda: 60.0 * len(rests)))
    job = evolve(book.enqueue(order(tmp_path)), yields_to="lena")
    reservations.reserve("one", "lena", "a new PMIC", 1)

    def rest(*_args: object) -> None:
        rests.append(1)
        if len(rests) == 9:
            reservations.end("one", "reserved", "lena")

    monkeypatch.setattr(JobWaiter, "_rest", rest)
    taken = JobWaiter(book, lambda _line: None, other_user).wait(job, 100)
    assert (taken is not None, len(rests)) == (True, 9)


def test_an_environment_that_is_being_saved_keeps_a_command_waiting(tmp_path: Path, store: Store) -> None:
    """As it keeps `lab run`: provision, health, ab and qualify hold their board so."""
    env = tmp_path / "one.yaml"
    env.write_text("targets: {main: {resources: [")
    lines: list[str] = []

    def say(line: str) -> None:
        lines.append(line)
        env.write_text("targets: {main: {resources: []}}")

    queue = JobQueue(store, process.identity(), process.has_died, person="lena")
    with hold_board(queue, order(tmp_path), 3600, say, other_user) as job:
        assert job.state == "running"
    assert f"job {job.called} waits: {env}" in lines[0]


def test_a_coordinator_that_is_slow_to_answer_keeps_no_other_job_waiting(tmp_path: Path, store: Store) -> None:
    def slow(*_args: object) -> str:
        with locks.turn("start", "j2", held):  # which another job takes meanwhile
            return ""

    def held(who: str) -> None:
        pytest.fail(f"{who} has the turn while it asks")

    book = timers(store)
    assert JobWaiter(book, print, slow).wait(book.enqueue(order(tmp_path)), 0) is not None


# --- Looks while it waits ---


def died(killed: JobQueue, _job: Job) -> JobQueue:
    return evolve(timers(killed.store), has_died=lambda holder: holder == killed.holder)


def ended(measuring: JobQueue, job: Job) -> JobQueue:
    measuring.finish(job.id, "completed")
    return timers(measuring.store)


@pytest.mark.parametrize("happens", [died, ended])
def test_a_job_is_kept_waiting_until_its_boards_holder_dies_or_ends(
    tmp_path: Path, store: Store, happens: Callable[[JobQueue, Job], JobQueue]
) -> None:
    measuring, book = JobQueue(store, "here/boot/1", lambda _holder: False), timers(store)
    held = measuring.start(measuring.enqueue(order(tmp_path)).id)
    waiting = book.enqueue(order(tmp_path))
    assert held is not None
    assert book.prospect(waiting, ["one"]) is Prospect.NEXT
    assert book.prospect(waiting, ["one", "two"]) is Prospect.MAY_START, "the other one of its choice is free"
    assert happens(measuring, held).prospect(waiting, ["one"]) is Prospect.MAY_START


def test_a_job_is_kept_waiting_by_another_persons_reservation_until_it_ends(tmp_path: Path, store: Store) -> None:
    reservations, book = ReservationBook(store), timers(store)
    waiting = book.enqueue(order(tmp_path))
    reservations.reserve("one", "lena", "a new PMIC", 1.0)
    assert book.prospect(waiting, ["one"]) is Prospect.NEXT
    assert evolve(book, ignores=True, person="lena").prospect(waiting, ["one"]) is Prospect.MAY_START
    reservations.end("one", "reserved", "lena")
    assert book.prospect(waiting, ["one"]) is Prospect.MAY_START


def test_a_job_that_another_process_has_taken_is_kept_waiting_no_more(tmp_path: Path, store: Store) -> None:
    measuring, book = JobQueue(store, "here/boot/1", lambda _holder: False), timers(store)
    assert measuring.start(measuring.enqueue(order(tmp_path)).id) is not None
    waiting = book.enqueue(order(tmp_path))
    assert evolve(book, holder="elsewhere").prospect(waiting, ["one"]) is Prospect.MAY_START
    book.cancel(waiting.id, "ann")
    assert book.prospect(waiting, ["one"]) is Prospect.MAY_START


@pytest.mark.parametrize(
    ("earlier", "look_s", "heartbeat_s"), [(0, LOOK_S, HEARTBEAT_S), (1, BEHIND_LOOK_S, BEHIND_HEARTBEAT_S)]
)
def test_a_waiting_job_gives_signs_of_life_and_asks_for_its_board_when_it_may_be_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: Store, earlier: int, look_s: float, heartbeat_s: float
) -> None:
    """The longest waiting one at once; one behind it looks more rarely."""
    asked: list[int] = []
    start = JobQueue.start
    monkeypatch.setattr(JobQueue, "start", lambda book, job: asked.append(job) or start(book, job))
    steady, wall = Steady(), Wall()
    with open_store(store.url) as others:
        measuring = JobQueue(others, "here/boot/1", lambda _holder: False, wall)
        in_the_way = [measuring.enqueue(order(tmp_path)) for _ in range(earlier + 1)]
        assert measuring.start(in_the_way[0].id) is not None
        silences: list[float] = []

        def pause(seconds: float) -> None:
            wall.later(seconds)
            steady.pause(seconds)
            silences.append((wall() - measuring.job(waiting.id).heartbeat_at).total_seconds())

        def end() -> None:
            for job in in_the_way:
                measuring.finish(job.id, "interrupted")

        steady.at[95.0] = end
        book = JobQueue(store, "here/boot/2", lambda _holder: False, wall, silence=Silence(steady), pause=pause)
        waiting = book.enqueue(order(tmp_path))
        assert JobWaiter(book, print).wait(waiting, 3600) is not None
    assert 95.0 <= steady.now_s <= 95.0 + look_s
    assert len(asked) <= 5, "of a hundred looks"
    assert max(silences) <= heartbeat_s


def test_a_job_behind_dead_ones_has_the_board_a_lease_after_their_death(tmp_path: Path, store: Store) -> None:
    steady, wall = Steady(), Wall()

    def pause(seconds: float) -> None:
        wall.later(seconds)
        steady.pause(seconds)

    elsewhere = JobQueue(store, "elsewhere/boot/1", lambda _holder: None, wall)
    assert elsewhere.start(elsewhere.enqueue(order(tmp_path)).id) is not None
    elsewhere.enqueue(order(tmp_path))  # it waits, and dies with its host, too
    book = JobQueue(store, "here/boot/1", lambda _holder: None, wall, silence=Silence(steady), pause=pause)
    assert JobWaiter(book, print).wait(book.enqueue(order(tmp_path)), 3600) is not None
    assert steady.now_s <= LEASE_S + BEHIND_HEARTBEAT_S + HEARTBEAT_S


# --- Jobs that take any board of a type ---


def any_of(folder: Path, *boards: str) -> Order:
    return evolve(order(folder), board=boards[0], options={BOARDS: list(boards)})


def choosing(book: JobQueue, folder: Path, said: list[str], *boards: str) -> JobWaiter:
    choice = {board: folder / f"{board}.yaml" for board in boards}
    return JobWaiter(book, said.append, other_user, choice=choice)


def test_jobs_of_a_type_spread_over_its_boards_and_the_last_one_waits(tmp_path: Path, store: Store) -> None:
    book, boards = timers(store), ("one", "two")
    taken = [choosing(book, tmp_path, [], *boards).wait(book.enqueue(any_of(tmp_path, *boards)), 0) for _ in range(2)]
    assert [job and (job.board, Path(job.env).stem) for job in taken] == [("one", "one"), ("two", "two")]
    with pytest.raises(BusyBoardError, match="none of one, two is free"):
        choosing(book, tmp_path, [], *boards).wait(book.enqueue(any_of(tmp_path, *boards)), 0)


def test_the_board_of_a_dead_process_is_free_for_a_job_of_its_type(tmp_path: Path, store: Store) -> None:
    killed = JobQueue(store, "here/boot/1", lambda _holder: False)
    assert killed.start(killed.enqueue(order(tmp_path)).id) is not None
    book = evolve(timers(store), has_died=lambda holder: holder == killed.holder)
    taken = choosing(book, tmp_path, [], "one").wait(book.enqueue(any_of(tmp_path, "one")), 0)
    assert taken is not None
    assert killed.job(1).state == "interrupted"


def test_a_job_of_a_type_waits_no_longer_than_a_younger_one_for_one_of_its_boards(
    tmp_path: Path, store: Store
) -> None:
    """It waits on another board meanwhile, and comes first on each of its own."""
    book = timers(store)
    measuring = [book.enqueue(evolve(order(tmp_path), board=board)) for board in ("one", "two")]
    for job in measuring:
        assert book.start(job.id) is not None
    older = book.enqueue(any_of(tmp_path, "one", "two"))
    younger = book.enqueue(evolve(order(tmp_path), board="two"))
    book.finish(measuring[1].id, "completed")
    assert book.start(younger.id) is None
    taken = choosing(book, tmp_path, [], "one", "two").wait(older, 0)
    assert taken is not None
    assert taken.board == "two"


def test_a_reserved_board_is_none_of_a_types_free_boards(tmp_path: Path, store: Store) -> None:
    ReservationBook(store).reserve("one", "lena", "a new PMIC", 1.0)
    book = timers(store)
    taken = choosing(book, tmp_path, [], "one", "two").wait(book.enqueue(any_of(tmp_path, "one", "two")), 0)
    assert taken is not None
    assert taken.board == "two"
