"""A job that was killed or interrupted is taken up again, with its own run and nothing else's."""

from __future__ import annotations

import pytest
from support.jobbook import ORDER, Wall, started

from lab.cli import main
from lab.errors import ConfigurationError, LabStableError
from lab.jobs.queue import JobQueue, Order
from lab.results import Store


def book(store: Store, wall: Wall, name: str, *, dead: set[str] | None = None) -> JobQueue:
    """The book as the process `name` has it, on a host that knows who of `dead` has died, or on another (None)."""
    return JobQueue(store, name, lambda who: None if dead is None else who in dead, wall)


def test_a_job_goes_on_with_its_suite_and_that_suites_run(store: Store, wall: Wall) -> None:
    store.begin_run("boot", "am62xx_sk", "b1", "11.01", plan={}, provenance={})
    jobs = book(store, wall, "one")
    job = started(jobs)
    assert jobs.unfinished_run(job, "boot") is None, "an older run is none of this job's"
    boot = store.begin_run("boot", "am62xx_sk", "b1", "11.01", plan={}, provenance={}).id
    assert jobs.unfinished_run(job, "boot") == boot
    store.finish_run(boot, "failed")
    assert jobs.unfinished_run(job, "boot") == boot
    store.finish_run(boot, "completed")
    assert jobs.unfinished_run(job, "boot") is None
    job = jobs.next_suite(job.id)
    power = store.begin_run("low_power", "am62xx_sk", "b1", "11.01", plan={}, provenance={}).id
    after = book(store, wall, "two", dead={"one"})
    again = after.take_up(job.id)
    assert again.suites[again.done] == "low_power"
    assert after.unfinished_run(again, "low_power") == power


def test_the_process_of_before_loses_the_job_that_another_took_up(store: Store, wall: Wall) -> None:
    one = book(store, wall, "one")
    job = started(one)
    two = book(store, wall, "two", dead={"one"})
    assert two.start(two.take_up(job.id).id) is not None
    with pytest.raises(LabStableError, match=r"running in two"):
        one.beat(job.id)
    one.finish(job.id, "completed")
    assert two.job(job.id).state == "running"


def test_a_job_that_is_finished_or_alive_is_not_resumed(store: Store, wall: Wall) -> None:
    one = book(store, wall, "one")
    job = started(one)
    other = book(store, wall, "two", dead=set())
    with pytest.raises(ConfigurationError, match=r"running.*jobs cancel j1"):
        other.take_up(job.id)
    one.finish(job.id, "completed")
    with pytest.raises(ConfigurationError, match="nothing to resume"):
        other.take_up(job.id)
    with pytest.raises(ConfigurationError, match=r"no job j99.*j1"):
        other.take_up(99)


def test_continue_takes_up_what_was_interrupted_and_nothing_else(store: Store, wall: Wall) -> None:
    one = book(store, wall, "one")
    job = started(one)
    after = book(store, wall, "two", dead={"one"})
    found = after.unfinished(ORDER)
    assert found is not None
    assert found.id == job.id
    assert after.unfinished(Order("am62xx_sk", "b1", ("boot",), ORDER.env, "11.01", 20)) is None
    assert book(store, wall, "three", dead=set()).unfinished(ORDER) is None
    one.finish(job.id, "failed")
    assert after.unfinished(ORDER) is None, "a board that failed is not measured on; the next timer begins anew"


def run_of(store: Store, kind: str = "boot", release: str = "11.01") -> int:
    return store.begin_run(kind, "am62xx_sk", "b1", release, plan={}, provenance={}).id


@pytest.mark.parametrize(
    "later", ["refused", "interrupted while it waited", "failed before its run", "dead in the queue"]
)
def test_continue_finds_the_killed_job_behind_later_ones_that_measured_nothing(store: Store, later: str) -> None:
    one = JobQueue(store, "one", lambda who: who in {"one", "dead"})
    killed = started(one)
    run = run_of(store)
    two = JobQueue(store, "dead" if later == "dead in the queue" else "two", one.has_died)
    for _ in range(3):
        job = two.enqueue(ORDER)
        if later == "refused":
            two.finish(job.id, "refused")
        elif later == "interrupted while it waited":
            two.finish(job.id, "interrupted")
        elif later == "failed before its run":
            assert two.start(job.id) is not None
            two.finish(job.id, "failed")
    timer = JobQueue(store, "three", one.has_died)
    found = timer.unfinished(ORDER)
    assert found is not None
    assert found.id == killed.id
    again = timer.start(timer.take_up(found.id).id)
    assert again is not None
    assert timer.unfinished_run(again, "boot") == run


def test_a_job_that_measured_can_be_resumed_however_often_its_board_was_busy(store: Store) -> None:
    one = JobQueue(store, "one", lambda who: who == "one")
    job = started(one)
    run = run_of(store)
    one.finish(job.id, "interrupted")
    for _ in range(2):
        one.take_up(job.id)
        one.finish(job.id, "refused")
        assert one.job(job.id).state == "interrupted"
    found = one.unfinished(ORDER)
    assert found is not None
    assert (found.id, one.unfinished_run(one.take_up(job.id), "boot")) == (job.id, run)
    fresh = started(JobQueue(store, "two", lambda _who: False), Order("am62xx_sk", "b2", ("boot",), "e", "", None))
    JobQueue(store, "two", lambda _who: False).finish(fresh.id, "refused")
    assert one.job(fresh.id).state == "refused", "its place was busy, and it has measured nothing"


def test_continue_does_not_go_back_behind_a_job_that_measured(store: Store) -> None:
    one = JobQueue(store, "one", lambda who: who == "one")
    started(one)
    two = JobQueue(store, "two", one.has_died)
    job = started(two)
    store.finish_run(run_of(store), "completed")
    two.finish(job.id, "completed")
    assert JobQueue(store, "three", one.has_died).unfinished(ORDER) is None


def test_a_job_that_is_taken_up_goes_on_with_its_own_run_whoever_measured_since(store: Store) -> None:
    one = JobQueue(store, "one", lambda who: who == "one")
    killed = started(one)
    run = run_of(store)
    two = JobQueue(store, "two", one.has_died)
    waiting = two.enqueue(Order("am62xx_sk", "b1", ("sections",), ORDER.env, "11.02", None))
    other = two.start(waiting.id)
    assert other is not None
    assert two.unfinished_run(other, "sections") is None, (
        "the killed run is none of its own, though it was begun meanwhile"
    )
    store.finish_run(run_of(store, "sections", "11.02"), "failed")
    store.finish_run(run_of(store, "boot", "11.02"), "failed")
    two.finish(other.id, "failed")
    timer = JobQueue(store, "three", one.has_died)
    assert timer.unfinished_run(timer.take_up(killed.id), "boot") == run


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--release", "11.02"), "--release 11.02 (it has 11.01)"),
        (("--cycles", "3"), "--cycles 3 (it has 20)"),
        (("--suite", "sections"), "--suite sections (it has boot,low_power)"),
        (("--resume", "99999999999999999999"), "'99999999999999999999' is no job"),
    ],
)
def test_a_job_that_is_resumed_has_one_order(
    store: Store, options: tuple[str, str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    one = JobQueue(store, "one", lambda _who: True)
    job = started(one)
    one.finish(job.id, "interrupted")
    assert main(["run", "--resume", str(job.id), *options, "--db", store.url]) == 2
    assert says in capsys.readouterr().err
    assert one.job(job.id).state == "interrupted"
