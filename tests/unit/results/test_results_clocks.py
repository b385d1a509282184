"""Hosts whose wall clocks differ or jump: no job that lives loses its board or its place, and a dead one gives both back."""

from __future__ import annotations

import datetime as dt
import random

import pytest
from attrs import define, field
from support.atlength import either
from support.jobbook import ORDER, START, Steady, Wall, started

from lab.errors import ConfigurationError
from lab.jobs import listing
from lab.jobs.queue import JobQueue
from lab.jobs.records import HEARTBEAT_S, LEASE_S, Order, Silence
from lab.jobs.waiting import BusyBoardError, JobWaiter
from lab.places.janitor import Janitor
from lab.places.records import MissingResource
from lab.results import Store

APART_S = 600.0
RUNS = either(15, 50)
BOARDS = ("b1", "b2", "b3")
POLL_S = 2
KILLS = either(4, 15)
STEP_S = 5
SEED = 31


def silent_queue(store: Store, wall: Wall, steady: Steady, holder: str = "two") -> JobQueue:
    """Of another host, whose wall clock and monotonic clock the test turns."""
    return JobQueue(store, holder, lambda _who: None, wall, silence=Silence(steady), pause=steady.pause)


@pytest.mark.parametrize("ahead_s", [LEASE_S + 1, APART_S, -APART_S])
def test_a_host_whose_clock_is_off_takes_no_living_job(store: Store, wall: Wall, ahead_s: float) -> None:
    one = JobQueue(store, "one", lambda _who: None, wall)
    job = started(one)
    off, steady = Wall(wall() + dt.timedelta(seconds=ahead_s)), Steady()
    other = silent_queue(store, off, steady)
    waiting = other.enqueue(ORDER)
    for _ in range(20):
        wall.later(HEARTBEAT_S)
        off.later(HEARTBEAT_S)
        steady.pause(HEARTBEAT_S)
        one.beat(job.id)
        assert other.start(waiting.id) is None
        assert other.has_board(job.id)
    assert [each.id for each in listing.running(other)] == [job.id]


@pytest.mark.parametrize("jump_s", [APART_S, -APART_S])
def test_a_clock_that_jumps_makes_no_job_dead_and_keeps_no_dead_one(
    store: Store, wall: Wall, steady: Steady, jump_s: float
) -> None:
    job = started(JobQueue(store, "one", lambda _who: None, wall))
    wall.later(jump_s)
    other = silent_queue(store, wall, steady)
    waiting = other.enqueue(ORDER)
    assert other.start(waiting.id) is None
    while other.start(waiting.id) is None:
        assert steady.now_s <= LEASE_S + POLL_S, "it gave no sign of life for a lease"
        steady.pause(POLL_S)
    assert steady.now_s > LEASE_S
    assert other.job(job.id).state == "interrupted"


def test_a_job_that_beats_after_the_clock_jumped_is_left_alone_by_a_command_that_does_not_wait(
    store: Store, wall: Wall, steady: Steady
) -> None:
    one = JobQueue(store, "one", lambda _who: None, wall)
    job = started(one)
    wall.later(APART_S)
    other = silent_queue(store, wall, steady)
    steady.at[5.0] = lambda: one.beat(job.id)
    with pytest.raises(BusyBoardError):
        JobWaiter(other, print).wait(other.enqueue(ORDER), 0.0)
    assert steady.now_s < HEARTBEAT_S
    wall.later(APART_S)
    later = silent_queue(store, wall, Steady({5.0: lambda: one.beat(job.id)}))
    with pytest.raises(ConfigurationError, match="j1 is running"):
        later.take_up(job.id)
    wall.later(APART_S)
    latest = silent_queue(store, wall, Steady({5.0: lambda: one.beat(job.id)}))
    assert latest.cancel(job.id, "ann").state == "running", "its holder lives, and switches the board off first"


def test_a_clock_that_stays_off_keeps_no_command_watching(store: Store, wall: Wall) -> None:
    one = JobQueue(store, "one", lambda _who: None, wall)
    job = started(one)
    steady = Steady(dict.fromkeys((5.0, 15.0, 25.0), lambda: one.beat(job.id)))
    other = silent_queue(store, Wall(wall() + dt.timedelta(seconds=APART_S)), steady)
    wall.later(1)
    with pytest.raises(BusyBoardError):
        JobWaiter(other, print).wait(other.enqueue(ORDER), 0.0)
    assert steady.now_s < HEARTBEAT_S


def test_a_dead_job_of_another_host_is_gone_on_with_after_a_lease(store: Store, wall: Wall, steady: Steady) -> None:
    job = started(JobQueue(store, "one", lambda _who: None, wall))
    wall.later(APART_S)
    other = silent_queue(store, wall, steady)
    found = other.unfinished(ORDER)
    assert found is not None
    assert LEASE_S < steady.now_s <= LEASE_S + 2 * POLL_S
    assert other.take_up(found.id).id == job.id


def test_a_process_that_could_not_look_has_seen_no_silence(store: Store, wall: Wall, steady: Steady) -> None:
    one = JobQueue(store, "one", lambda _who: None, wall)
    job = started(one)
    other = silent_queue(store, wall, steady)
    waiting = other.enqueue(ORDER)
    assert other.start(waiting.id) is None
    steady.pause(10 * LEASE_S)  # the database was away, for the job as well
    wall.later(10 * LEASE_S)
    assert other.start(waiting.id) is None
    one.beat(job.id)


@define
class Places:
    """labgrid's coordinator, played: place -> holder."""

    held: dict[str, str] = field(factory=lambda: dict.fromkeys(BOARDS, ""))

    def holders(self) -> dict[str, str]:
        return dict(self.held)

    def lacking(self) -> dict[str, MissingResource]:
        return {}

    def release(self, name: str, holder: str) -> None:
        assert self.held[name] == holder
        self.held[name] = ""


@define
class Process:
    """A `lab run`: it waits for its board and its place, measures, and gives them back; all of it by its host's clocks."""

    book: JobQueue
    board: str
    job_id: int
    seconds: int
    beats_at: int = 0
    measures_until: int | None = None
    done: bool = False

    @property
    def user(self) -> str:
        """As labgrid has it."""
        return f"{self.book.holder.partition('/')[0]}/lena-{self.book.store.location.tag}-j{self.job_id}"

    def step(self, now: int, places: Places) -> None:
        """What it does at an instant."""
        if now < self.beats_at:
            return
        job = self.book.job(self.job_id)
        if job.state == "queued":
            if self.book.start(self.job_id) is None:
                self.beats_at = now + STEP_S
                return
        else:
            self.book.beat(self.job_id)
        if self.measures_until is None:
            if places.held[self.board]:
                self.beats_at = now + STEP_S
                return
            places.held[self.board] = self.user
            self.measures_until = now + self.seconds
        assert places.held[self.board] == self.user, "its place was released while it measured"
        if now >= self.measures_until:
            self.book.finish(self.job_id, "completed")
            places.release(self.board, self.user)
            self.done = True
        self.beats_at = min(now + int(HEARTBEAT_S), self.measures_until)


@define
class Farm:
    """Two hosts whose clocks are 20 minutes apart, with a process for each board, and a janitor on a third one."""

    store: Store
    seconds: int = 0
    places: Places = field(factory=Places)
    killed: set[str] = field(factory=set)
    begun: int = 0

    def book(self, host: str, ahead_s: float) -> JobQueue:
        """A new process's."""
        self.begun += 1

        def has_died(who: str) -> bool | None:
            return who in self.killed if who.startswith(f"{host}/") else None

        def wall() -> dt.datetime:
            return START + dt.timedelta(seconds=self.seconds + ahead_s)

        silence = Silence(lambda: self.seconds + 1e4 * ahead_s)
        return JobQueue(self.store, f"{host}/boot/{self.begun}/1", has_died, wall, person="lena", silence=silence)

    def process(self, board: str, chance: random.Random) -> Process:
        """A new one on one of the hosts."""
        book = self.book(*chance.choice((("hosta", APART_S), ("hostb", -APART_S))))
        job = book.enqueue(Order("am62xx_sk", board, ("boot",), "", "", None))
        return Process(book, board, job.id, chance.randrange(10, 50, STEP_S))

    def janitor(self) -> Janitor:
        """Of the third host, 3 minutes ahead."""
        boards = dict(zip(BOARDS, BOARDS, strict=True))
        return Janitor(self.places, self.store, self.book("hostc", 180.0), lambda: boards, lambda *_: False)  # type: ignore[arg-type]


@pytest.mark.longer
def test_runs_on_hosts_with_other_clocks_lose_no_board_and_no_place_under_kills(store: Store) -> None:
    farm, chance = Farm(store), random.Random(SEED)
    janitor, left, kills, done = farm.janitor(), RUNS, KILLS, 0
    living: list[Process] = []
    died_at: dict[str, int] = {}
    next_kill = 30
    while done < RUNS:
        assert farm.seconds < RUNS * 2 * LEASE_S, "the farm stands still"
        for board in BOARDS:
            while left and sum(each.board == board for each in living) < 2:
                living.append(farm.process(board, chance))
                left -= 1
        for process in living:
            process.step(farm.seconds, farm.places)
        done += sum(process.done for process in living)
        living = [process for process in living if not process.done]
        measuring = [process for process in living if process.measures_until is not None]
        if kills and measuring and farm.seconds >= next_kill:
            victim = chance.choice(measuring)
            farm.killed.add(victim.book.holder)
            died_at[victim.user] = farm.seconds
            living.remove(victim)
            left, kills, next_kill = left + 1, kills - 1, farm.seconds + chance.randrange(5, 60)
        for action in janitor.tidy():
            assert action.verb == "release"
            assert action.holder in died_at, f"{action.described}, which measures"
        assert all(
            farm.seconds - died_at[who] <= LEASE_S + 2 * HEARTBEAT_S
            for who in farm.places.held.values()
            if who in died_at
        ), "a dead job keeps its place"
        farm.seconds += STEP_S
    assert kills == 0
    assert [view.job.state for view in listing.jobs(store, 0, START) if not view.job.ended] == []
    states = [view.job.state for view in listing.jobs(store, RUNS + KILLS, START)]
    assert (states.count("completed"), states.count("interrupted")) == (RUNS, KILLS)
