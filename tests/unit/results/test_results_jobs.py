"""Jobs in the store: whose runs are whose, when a job will have ended, and what an upgrade makes of jobs of before."""

from __future__ import annotations

import datetime as dt

import pytest
from support.facts import missing_facts
from support.jobbook import Steady, Wall, started

from exporters.farm.schedules import ScheduledRun, Schedules
from lab.errors import ConfigurationError
from lab.host.clock import utc_now
from lab.jobs import listing
from lab.jobs.queue import JobQueue
from lab.jobs.records import BY_PYTEST, LEASE_S, Job, Order, Silence, call, number
from lab.results import AttemptRecord, SampleRecord, Store
from lab.results.listing import RunFilter
from lab.results.snapshot import watch

BOOTS = Order("am62xx_sk", "b1", ("boot",), "am62x.yaml", "11.01", 20)


def queue(store: Store, wall: Wall, holder: str = "lab-2/boot/17/1", program: str = "lab run") -> JobQueue:
    return JobQueue(store, holder, lambda _who: None, wall, person="lena", program=program)


def run(store: Store, job: Job | None, kind: str = "boot", cycles: int = 4, good: int = 0) -> int:
    """A run of two media, with so many good boots."""
    plan = {"cycles": cycles, "media": ["sd", "emmc"]}
    job_id = job.id if job else None
    its = store.begin_run(kind, "am62xx_sk", "b1", "11.01", plan=plan, provenance={}, job_id=job_id).id
    for cycle in range(1, good + 1):
        samples = (SampleRecord("boot.time", {"medium": "sd"}, 2.0, 0.001),)
        attempt = AttemptRecord(cycle, 1, {"medium": "sd"}, "ok", None, None, "", utc_now(), 30.0, samples)
        store.record_attempt(its, attempt)
    return its


@pytest.mark.parametrize(("text", "job_id"), [("j12", 12), ("J7", 7), (" 3 ", 3)])
def test_a_job_is_named_with_its_letter_or_by_its_bare_number(text: str, job_id: int) -> None:
    assert number(text) == job_id
    assert number(call(job_id)) == job_id


@pytest.mark.parametrize("text", ["", "j", "j0", "12j", "-1", "j²", "99999999999999999999", "run 3"])
def test_what_is_no_job_is_refused_with_the_command_that_lists_them(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"no job: `lab jobs list`"):
        number(text)


def test_a_run_knows_its_job_whoever_had_the_board_then(store: Store) -> None:
    wall = Wall()
    first = started(queue(store, wall), BOOTS)
    own = run(store, first)
    queue(store, wall).finish(first.id, "interrupted")
    session = queue(store, wall, "lab-3/boot/9/1", BY_PYTEST)
    another = run(store, started(session, BOOTS))
    assert listing.job_of_run(store, own) == listing.job(store, first.id)
    found = listing.job_of_run(store, another)
    assert found is not None
    assert (found.called, found.who) == ("j2", "lena on lab-3")
    assert listing.job_of_run(store, 99) is None
    assert [each.id for each in listing.view(store, first, wall()).runs] == [own]


def test_a_job_goes_on_with_its_own_run_not_with_one_that_a_person_began_meanwhile(store: Store) -> None:
    wall = Wall()
    book = queue(store, wall)
    job = started(book, BOOTS)
    own = run(store, job)
    book.finish(job.id, "interrupted")
    session = queue(store, wall, "lab-2/boot/9/1", BY_PYTEST)
    run(store, started(session, BOOTS))
    assert book.unfinished_run(job, "boot") == own
    other = JobQueue(store, "x", lambda _who: True, wall)
    assert other.unfinished_run(started(other, BOOTS), "boot") is None


def test_continue_goes_on_with_the_same_options_and_never_with_a_session_of_pytest(store: Store) -> None:
    wall = Wall()
    plain, sections = BOOTS, Order(*_parts(BOOTS), {"medium": ["sd"], "retries": 0})
    for order in (plain, sections):
        book = queue(store, wall)
        book.finish(started(book, order).id, "interrupted")
    session = queue(store, wall, program=BY_PYTEST)
    session.finish(started(session, sections).id, "interrupted")
    book = queue(store, wall)
    found = [book.unfinished(order) for order in (plain, sections, Order(*_parts(BOOTS), {"medium": ["emmc"]}))]
    assert [job and job.called for job in found] == ["j1", "j2", None]
    assert found[1] is not None
    assert dict(found[1].options) == {"medium": ["sd"], "retries": 0}
    with pytest.raises(ConfigurationError, match=r"j3 was .*of pytest"):
        book.take_up(3)


def _parts(order: Order) -> tuple[str, str, tuple[str, ...], str, str, int | None]:
    return order.board_type, order.board, order.suites, order.env, order.release, order.cycles


def test_a_job_that_is_cancelled_is_told_at_its_next_sign_of_life_and_ends_cancelled(store: Store) -> None:
    wall = Wall()
    book, other = queue(store, wall), queue(store, wall, "lab-9/boot/1/1")
    job = started(book, BOOTS)
    waiting = other.enqueue(BOOTS)
    assert book.beat(job.id) is False
    assert other.cancel(job.id, "ann").state == "running", "its holder switches the board off first"
    assert book.beat(job.id) is True
    book.finish(job.id, "interrupted")
    ended = book.job(job.id)
    assert (ended.state, ended.cancelled_by) == ("cancelled", "ann")
    assert book.unfinished(BOOTS) is None, "a timer does not go on with what a person ended"
    other.cancel(waiting.id, "ann")
    assert other.start(waiting.id) is None, "the board is free, and the job is not wanted"
    other.finish(waiting.id, "refused")
    assert other.job(waiting.id).state == "cancelled"
    with pytest.raises(ConfigurationError, match=r"j1 is cancelled"):
        other.cancel(job.id, "ann")
    again = book.take_up(job.id)
    assert (again.state, again.cancelled_by) == ("queued", ""), "a person may change their mind"


def test_a_job_that_is_done_before_it_is_told_is_completed(store: Store) -> None:
    book = queue(store, Wall())
    job = started(book, BOOTS)
    book.cancel(job.id, "ann")
    book.finish(job.id, "completed")
    assert book.job(job.id).state == "completed"


def test_a_job_whose_host_is_gone_is_cancelled_after_a_lease(store: Store, steady: Steady) -> None:
    wall = Wall()
    job = started(queue(store, wall), BOOTS)
    wall.later(LEASE_S, minutes=1)
    other = JobQueue(store, "another", lambda _who: None, wall, silence=Silence(steady), pause=steady.pause)
    assert other.cancel(job.id, "ann").state == "cancelled"
    assert steady.now_s > LEASE_S


def test_a_job_ends_about_when_the_same_order_would_have(store: Store) -> None:
    wall = Wall()
    book = queue(store, wall)
    for order, minutes in ((BOOTS, 60), (BOOTS, 64), (BOOTS, 500), (Order(*_parts(BOOTS)[:5], 1), 3)):
        job = started(book, order)
        wall.later(minutes=minutes)
        book.finish(job.id, "completed")
    job = started(book, BOOTS)
    wall.later(minutes=10)
    assert listing.view(store, job, wall()).expected_end == wall() + dt.timedelta(minutes=54)
    said = listing.busy(book, job)
    assert not missing_facts(said, "j5", "boot", "lena", "lab-2", "12:27 UTC", "13:31 UTC")


def test_a_job_without_a_history_ends_when_its_run_will_at_its_pace(store: Store) -> None:
    book = JobQueue(store, "lab-2/boot/17/1", lambda _who: None)
    job = started(book, BOOTS)
    assert listing.view(store, job, utc_now()).expected_end is None
    its = run(store, job, good=2)
    (seen,) = listing.view(store, job, utc_now()).runs
    assert (seen.good, seen.planned) == (2, 8)
    now = seen.started_at + dt.timedelta(minutes=5)
    assert listing.view(store, job, now).expected_end == seen.started_at + dt.timedelta(minutes=20)
    store.finish_run(its, "completed")
    assert listing.view(store, job, now).expected_end is None


def test_a_run_that_has_nothing_yet_takes_as_long_as_earlier_ones_say(store: Store) -> None:
    book = JobQueue(store, "lab-2/boot/17/1", lambda _who: None)
    store.finish_run(run(store, None, good=3), "completed")
    job = started(book, Order(*_parts(BOOTS)[:5], 7))
    run(store, job)
    found = listing.view(store, job, utc_now())
    assert found.expected_end == found.runs[0].started_at + dt.timedelta(seconds=8 * 30)


def test_a_run_is_killed_once_no_living_job_measures_it_and_runs_again_when_it_is_resumed(store: Store) -> None:
    wall = Wall(utc_now())
    first = queue(store, wall)
    job = started(first, BOOTS)
    its = run(store, job)
    assert listing.killed_runs(store) == frozenset()
    first.finish(job.id, "interrupted")
    assert listing.killed_runs(store) == {its}
    wall.at = utc_now()
    session = queue(store, wall, "lab-3/boot/9/1", BY_PYTEST)
    another = started(session, BOOTS)
    assert listing.killed_runs(store) == {its}, "that job measures another run"
    assert [each.run.status for each in listing.find_runs(store, RunFilter())] == ["killed"]
    listing.end_pause(store, its)
    assert listing.killed_runs(store) == frozenset(), "the job has resumed it"
    session.finish(another.id, "completed")
    assert [each.status for each in listing.view(store, listing.job(store, job.id), utc_now()).runs] == ["killed"]


def test_those_that_have_not_ended_are_always_listed(store: Store) -> None:
    wall = Wall()
    started(queue(store, wall), BOOTS)
    for _ in range(3):
        book = queue(store, wall, "two")
        book.finish(book.enqueue(BOOTS).id, "refused")
    assert [each.job.called for each in listing.jobs(store, 2, wall())] == ["j4", "j3", "j1"]


def test_a_job_that_a_person_cancelled_is_no_failed_night(store: Store, database: str) -> None:
    wall = Wall()
    book = queue(store, wall)
    due = ScheduledRun("nightly", "b1", ("boot",), ("boot",), "11.01", 86400.0, lambda now: now, 20, {})
    schedules = Schedules(watch(database), [due], wall)

    def failures() -> int:
        families = {family.name: family.samples for family in schedules.read()}
        return len(families["boardlab_schedule_last_failure_timestamp_seconds"])

    cancelled = started(book, BOOTS)
    book.cancel(cancelled.id, "lena")
    book.finish(cancelled.id, "interrupted")
    assert (book.job(cancelled.id).state, failures()) == ("cancelled", 0)
    book.finish(started(book, BOOTS).id, "interrupted")
    assert failures() == 1
