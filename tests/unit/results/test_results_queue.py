"""One job at a time per board; a board comes back from who died."""

from __future__ import annotations

import threading

import pytest
from support.jobbook import ORDER, Steady, Wall, started, watched

from exporters.farm.boards import Jobs
from lab.errors import LabStableError
from lab.health.reservations import ReservationBook
from lab.jobs.queue import JobQueue, Order
from lab.jobs.records import BY_WEB, HEARTBEAT_S, LEASE_S, Silence
from lab.results import Store
from lab.results.snapshot import watch


def book(store: Store, wall: Wall, name: str, *, dead: set[str] | None = None) -> JobQueue:
    """The book as the process `name` has it, on a host that knows who of `dead` has died, or on another (None)."""
    return JobQueue(store, name, lambda who: None if dead is None else who in dead, wall)


def test_a_board_has_one_job_at_a_time_and_the_longest_waiting_one_is_next(store: Store, wall: Wall) -> None:
    first, second, third = (book(store, wall, name) for name in ("one", "two", "three"))
    running = started(first)
    waiting = second.enqueue(ORDER)
    wall.later(1)
    later = third.enqueue(ORDER)
    assert second.start(waiting.id) is None
    first.finish(running.id, "completed")
    assert third.start(later.id) is None
    assert second.start(waiting.id) is not None
    assert third.start(later.id) is None


def test_other_boards_are_not_waited_for(store: Store, wall: Wall) -> None:
    started(book(store, wall, "one"))
    started(book(store, wall, "two"), Order("am62xx_sk", "b2", ("boot",), "e", "", None))


def test_the_database_itself_refuses_a_second_holder(store: Store, wall: Wall) -> None:
    jobs = [book(store, wall, f"process {n}") for n in range(8)]
    ids = [job_book.enqueue(ORDER).id for job_book in jobs]
    gate = threading.Barrier(len(jobs))
    got: list[int] = []

    def take(which: int) -> None:
        gate.wait()
        if jobs[which].start(ids[which]) is not None:
            got.append(ids[which])

    threads = [threading.Thread(target=take, args=(n,)) for n in range(len(jobs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == [ids[0]]


def test_a_job_of_a_process_that_was_killed_gives_its_board_back_at_once(store: Store, wall: Wall) -> None:
    killed = started(book(store, wall, "one"))
    other = book(store, wall, "two", dead={"one"})
    assert other.start(other.enqueue(ORDER).id) is not None
    assert other.take_up(killed.id).state == "queued"


def test_a_silent_job_of_another_host_keeps_its_board_until_the_lease_ends(
    store: Store, wall: Wall, steady: Steady
) -> None:
    one, two = book(store, wall, "one"), JobQueue(store, "two", lambda _who: None, wall, silence=Silence(steady))
    silent = started(one)
    waiting = two.enqueue(ORDER)
    for _ in range(5):
        assert two.start(waiting.id) is None
        steady.pause(HEARTBEAT_S)
    wall.later(1)
    one.beat(silent.id)
    last_s = steady.now_s
    while two.start(waiting.id) is None:
        assert steady.now_s <= last_s + LEASE_S
        steady.pause(HEARTBEAT_S)
    assert steady.now_s > last_s + LEASE_S
    with pytest.raises(LabStableError, match="was taken over"):
        one.beat(silent.id)
    one.finish(silent.id, "completed")
    assert two.holder_of("b1") is not None


def test_a_job_that_died_waiting_holds_up_nobody(store: Store, wall: Wall, steady: Steady) -> None:
    died = book(store, wall, "one").enqueue(ORDER)
    two = JobQueue(store, "two", lambda _who: None, wall, silence=Silence(steady))
    watched(two, steady, died.id)
    started(two)


def test_the_metrics_tell_waiting_running_and_stuck_jobs_apart(store: Store, wall: Wall) -> None:
    running = started(book(store, wall, "one"))
    book(store, wall, "two").enqueue(ORDER)
    stuck = started(book(store, wall, "three"), Order("am62xx_sk", "b2", ("boot",), "e", "", None))
    wall.later(LEASE_S + 1)
    book(store, wall, "one").beat(running.id)
    families = Jobs(watch(store.url), wall).read()
    values = {(s.name, *sorted(s.labels.items())): s.value for family in families for s in family.samples}
    kind = ("board_type", "am62xx_sk")
    assert values["boardlab_jobs", ("board", "b1"), kind, ("state", "running")] == 1
    assert values["boardlab_jobs", ("board", "b1"), kind, ("state", "queued")] == 0, "it died while it waited"
    assert values["boardlab_jobs", ("board", "b2"), kind, ("state", "stuck")] == 1
    assert values["boardlab_job_heartbeat_age_seconds", ("board", "b2"), kind] == LEASE_S + 1
    assert stuck.id != running.id


def test_a_job_that_a_reservation_refuses_keeps_nobody_waiting(store: Store, wall: Wall) -> None:
    timer = JobQueue(store, "timer", lambda _who: False, wall, person="timer")
    lena = JobQueue(store, "lena", lambda _who: False, wall, person="lena", ignores=True)
    waiting = timer.enqueue(ORDER)
    wall.later(1)
    hers = lena.enqueue(ORDER)
    assert lena.start(hers.id) is None, "the timer waits longer"
    ReservationBook(store, wall).reserve("b1", "lena", "a new PMIC", 1)
    assert timer.start(waiting.id) is None
    assert lena.start(hers.id) is not None
    lena.finish(hers.id, "completed")
    assert timer.start(waiting.id) is None, "it is reserved yet"


def test_a_board_that_the_site_failed_to_give_back_is_free_when_the_lease_has_run_out(
    store: Store, wall: Wall, steady: Steady
) -> None:
    site = JobQueue(store, "site", lambda _who: False, wall, program=BY_WEB)
    one = JobQueue(store, "one", lambda _who: False, wall, silence=Silence(steady))
    held, waiting = started(site), one.enqueue(ORDER)
    assert one.start(waiting.id) is None
    watched(one, steady, held.id)
    assert one.start(waiting.id) is not None, "the site lives, but gave no sign of life for this job"
    assert one.job(held.id).state == "interrupted"
    other = JobQueue(store, "two", lambda _who: False, wall, silence=Silence(steady))
    watched(other, steady, waiting.id)
    assert other.start(other.enqueue(ORDER).id) is None, "a run that lives keeps its board"
