"""A timer's job gives its board to who wants it, and goes on; nobody waits for ever."""

from __future__ import annotations

import datetime as dt

from hypothesis import given
from hypothesis import strategies as st
from support.facts import missing_facts
from support.jobbook import ORDER, START, Wall, started

from lab.health.reservations import ReservationBook
from lab.jobs import listing
from lab.jobs.queue import PERSONS, POINT_S, TIMERS, JobQueue, ask, claimant, give_way, turn
from lab.jobs.records import Job
from lab.results import Store


def book(store: Store, wall: Wall, name: str, priority: int) -> JobQueue:
    return JobQueue(store, name, lambda _who: False, wall, person=name, priority=priority)


def run_of(store: Store, job: Job) -> int:
    return store.begin_run("boot", "am62xx_sk", "b1", "11.01", plan={}, provenance={"host": "h"}, job_id=job.id).id


def test_a_timers_job_is_wanted_by_a_reservation_and_a_persons_is_not(store: Store, wall: Wall) -> None:
    timer = book(store, wall, "timer", TIMERS)
    job = started(timer)
    assert claimant(store, job.id, wall()) == ""
    reservations = ReservationBook(store, wall)
    reservations.reserve("b1", "lena", "a new PMIC", 1)
    said = claimant(store, job.id, wall())
    assert not missing_facts(said, "b1", "lena", "2026-03-02 03:00 UTC")
    timer.finish(job.id, "completed")
    reservations.end("b1", "reserved", "lena")
    persons = started(book(store, wall, "max", PERSONS))
    reservations.reserve("b1", "lena", "a new PMIC", 1)
    assert claimant(store, persons.id, wall()) == ""


def test_a_job_that_gave_way_waits_until_the_reservation_ends_and_goes_on_with_its_run(
    store: Store, wall: Wall
) -> None:
    timer = book(store, wall, "timer", TIMERS)
    job = started(timer)
    run = run_of(store, job)
    ReservationBook(store, wall).reserve("b1", "lena", "a new PMIC", 1)
    waiting = give_way(timer, job.id)
    assert (waiting.state, waiting.queued_at) == ("queued", job.queued_at)
    assert waiting.yields_to.startswith("b1 is reserved by lena")
    assert timer.start(job.id) is None
    wall.later(3600)
    again = timer.start(job.id)
    assert again is not None
    assert (again.yields_to, timer.unfinished_run(again, "boot")) == ("", run)


def test_what_a_runner_found_out_is_kept_for_a_timers_job_and_taken_back(store: Store, wall: Wall) -> None:
    timer = book(store, wall, "timer", TIMERS)
    job = started(timer)
    ask(timer, job.id, "lena has reserved place b1")
    assert not missing_facts(claimant(store, job.id, wall()), "lena", "place b1")
    ask(timer, job.id, "")
    assert claimant(store, job.id, wall()) == ""
    timer.finish(job.id, "completed")
    max_ = book(store, wall, "max", PERSONS)
    mine = started(max_)
    ask(max_, mine.id, "lena has reserved place b1")
    assert claimant(store, mine.id, wall()) == ""


def test_a_job_killed_while_it_waits_again_is_what_continue_takes_up(store: Store, wall: Wall) -> None:
    timer = book(store, wall, "timer", TIMERS)
    job = started(timer)
    run_of(store, job)
    give_way(timer, job.id)
    assert timer.start(job.id) is not None
    give_way(timer, job.id)
    after = JobQueue(store, "next", lambda who: who == "timer", wall, person="timer", priority=TIMERS)
    found = after.unfinished(ORDER)
    assert found is not None
    assert found.id == job.id


def test_a_person_comes_before_a_timer_for_as_long_as_a_priority_is_worth(store: Store, wall: Wall) -> None:
    running = book(store, wall, "first", PERSONS)
    board = started(running)
    timer = book(store, wall, "timer", TIMERS)
    waiting = timer.enqueue(ORDER)
    wall.later(PERSONS * POINT_S - 1)
    soon = book(store, wall, "soon", PERSONS)
    sooner = soon.enqueue(ORDER)
    wall.later(2)
    late = book(store, wall, "late", PERSONS)
    later = late.enqueue(ORDER)
    running.finish(board.id, "completed")
    assert timer.start(waiting.id) is None
    assert late.start(later.id) is None
    assert soon.start(sooner.id) is not None
    soon.finish(sooner.id, "completed")
    assert late.start(later.id) is None
    assert timer.start(waiting.id) is not None


def test_why_a_run_rested_and_until_when_is_in_its_provenance(store: Store, wall: Wall) -> None:
    run = run_of(store, started(book(store, wall, "timer", TIMERS)))
    listing.pause(store, run, "gave way: lena")
    store.finish_run(run, "interrupted")
    listing.end_pause(store, run)
    store.reopen_run(run)
    listing.end_pause(store, run)  # it was killed, and noted nothing
    gave_way, killed = store.run(run).provenance["interruptions"]
    assert gave_way["why"] == "gave way: lena"
    assert gave_way["from"] <= gave_way["to"] <= killed["to"]
    assert (killed["from"], killed["why"]) == (None, "killed")
    assert store.run(run).provenance["host"] == "h"


def rank(priority: int, waited_s: float) -> float:
    """How urgent a waiting job is, as lab/jobs/queue.py defines it."""
    return priority + waited_s / POINT_S


JOBS = st.lists(st.tuples(st.integers(0, 20), st.floats(0, 200_000)), min_size=2, max_size=8)


@given(JOBS, st.floats(0, 100_000))
def test_the_order_of_turns_is_that_of_ranks_at_every_time(jobs: list[tuple[int, float]], later_s: float) -> None:
    now_s = 200_000 + later_s
    for one in jobs:
        for other in jobs:
            ranks = [rank(priority, now_s - queued_s) for priority, queued_s in (one, other)]
            if abs(ranks[0] - ranks[1]) < 1e-6:
                continue
            turns = [turn(priority, START + dt.timedelta(seconds=queued_s)) for priority, queued_s in (one, other)]
            assert (ranks[0] > ranks[1]) == (turns[0] < turns[1])


@given(
    st.lists(st.tuples(st.floats(0, 3_000), st.integers(0, PERSONS), st.floats(1, 600)), max_size=60),
    st.integers(0, PERSONS),
)
def test_a_job_starts_in_bounded_time_however_many_urgent_ones_come(
    others: list[tuple[float, int, float]], priority: int
) -> None:
    """One board; jobs come at any time, and each has it for its seconds. Only what came within a priority's worth is before."""
    at = 0.0
    arrivals, clock = [], 0.0
    for gap, p, length in others:
        clock += gap
        arrivals.append((clock, p, length))
    queue: list[tuple[float, float, bool]] = [(-priority * POINT_S, 1.0, True)]
    worth_s = (PERSONS - priority) * POINT_S
    before_s = sum(length for arrived_s, _p, length in arrivals if arrived_s <= worth_s)
    while True:
        while arrivals and arrivals[0][0] <= at:
            arrived_s, p, length = arrivals.pop(0)
            key = (turn(p, START + dt.timedelta(seconds=arrived_s)) - START).total_seconds()
            queue.append((key, length, False))
        queue.sort()
        _key, length, ours = queue.pop(0)
        if ours:
            break
        at += length
    assert at <= before_s + 1e-3
