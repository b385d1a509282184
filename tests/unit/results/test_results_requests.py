"""What a queue asked for is measured once, and told as often as it asks."""

from __future__ import annotations

import pytest
from support.facts import missing_facts
from support.jobbook import Wall, started
from support.recorded_run import record

from lab import package_data
from lab.cli import main
from lab.farm.runner import UNCONFIRMED, WORSE, report_again
from lab.jobs import listing
from lab.jobs.queue import JobQueue, Order
from lab.jobs.records import JobState
from lab.judge.records import NewVerdict
from lab.judge.store import write_verdicts
from lab.results import AttemptRecord, SampleRecord, Store


@pytest.mark.parametrize(("state", "code"), [("completed", 0), ("failed", 1), ("cancelled", 130)])
def test_what_a_queue_asked_for_is_measured_once_though_it_asks_again(
    store: Store, wall: Wall, state: JobState, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    env = package_data.folder(package_data.ENVS) / "am62x.yaml"
    first = JobQueue(store, "one", lambda _who: True, wall, request="7-1700000000")
    job = started(first, Order("am62xx_sk", "b1", ("boot",), str(env), "11.01", 20))
    first.finish(job.id, state)
    words = ["run", "--continue", "--request", "7-1700000000", "--env", str(env), "--db", store.url]
    assert main(words) == code
    assert not missing_facts(capsys.readouterr().out, f"{job.called}: {state}", "request", "nothing")
    assert [view.job.id for view in listing.jobs(store, 9, wall())] == [job.id]


def test_an_interrupted_job_is_of_the_request_that_goes_on_with_it(store: Store, wall: Wall) -> None:
    first, second = (JobQueue(store, name, lambda _who: True, wall, request=name) for name in ("one", "two"))
    job = started(first)
    first.finish(job.id, "interrupted")
    assert listing.job_of_request(store, "one") is None
    assert second.take_up(job.id).request == "two"
    assert second.start(job.id) is not None
    second.finish(job.id, "completed")
    assert listing.job_of_request(store, "one") is None
    assert listing.job_of_request(store, "two") == second.job(job.id)


@pytest.mark.parametrize(("judge", "code"), [(True, WORSE), (False, 0)])
def test_the_verdicts_of_a_judged_job_are_told_again(store: Store, wall: Wall, *, judge: bool, code: int) -> None:
    jobs = JobQueue(store, "one", lambda _who: True, wall)
    job = started(jobs, Order("am62xx_sk", "b1", ("boot",), "e", "11.01", 20, {"judge": True} if judge else {}))
    record(store, cycles=1)  # so that the store knows the metric
    run = store.begin_run("boot", "am62xx_sk", "b1", "11.01", plan={}, provenance={}, job_id=job.id).id
    worse = NewVerdict("boot.time", 1, {"medium": "sd"}, "regression", 1, run, 20, 0.03, 0.02, 0.04)
    write_verdicts(store, run, [worse])
    jobs.finish(job.id, "completed")
    said: list[str] = []
    assert report_again(store, jobs.job(job.id), said.append) == code
    assert [missing_facts(line, "verdict: boot.time", "(sd)", "b1: ") for line in said] == [[]] * judge


def test_a_job_whose_numbers_nobody_judged_is_told_again_as_such(store: Store, wall: Wall) -> None:
    """The reference board had failed, say; what confirmed one of its runs has no verdicts of its own, and needs none."""
    jobs = JobQueue(store, "one", lambda _who: True, wall)
    job = started(jobs, Order("am62xx_sk", "b1", ("boot",), "e", "11.01", 20, {"judge": True}))
    runs = [
        store.begin_run("boot", "am62xx_sk", "b1", "11.01", plan={}, provenance=provenance, job_id=job.id).id
        for provenance in ({}, {"confirms": 1})
    ]
    for run in runs:
        store.finish_run(run, "completed")
    jobs.finish(job.id, "completed")
    said: list[str] = []
    assert report_again(store, jobs.job(job.id), said.append) == 0
    (line,) = said
    assert not missing_facts(line, "not judged", f"run {runs[0]}", f"lab judge run {runs[0]}")
    sample = SampleRecord("boot.time", {"medium": "sd"}, 16.0, 0.001)
    run = store.begin_run("boot", "am62xx_sk", "b1", "11.01", plan={}, provenance={}, job_id=job.id).id
    store.record_attempt(run, AttemptRecord(1, 1, {"medium": "sd"}, "ok", None, None, "", wall(), 1.0, (sample,)))
    store.finish_run(run, "completed")
    assert report_again(store, jobs.job(job.id), said.append) == UNCONFIRMED, "its numbers are not known to be good"
    assert not missing_facts(said[-1], "not confirmed", f"run {run}", f"lab judge run {run}")


def test_a_job_that_failed_by_the_lab_alone_is_said_to_whoever_asks_again(store: Store, wall: Wall) -> None:
    for outcome, fault, says in (("pdu_timeout", "lab", ["failed by the lab: pdu_timeout"]), ("silent", "board", [])):
        jobs = JobQueue(store, outcome, lambda _who: False, wall)
        job = started(jobs, Order("am62xx_sk", outcome, ("boot",), "e", "", None))
        run = store.begin_run("boot", "am62xx_sk", outcome, "11.01", plan={}, provenance={}, job_id=job.id)
        attempt = AttemptRecord(1, 1, {"medium": "sd"}, outcome, fault, True, "", wall(), 1.0)
        store.record_attempt(run.id, attempt)
        jobs.finish(job.id, "failed")
        said: list[str] = []
        assert report_again(store, jobs.job(job.id), said.append) == 1
        assert [text.partition(" (")[0] for text in said] == says
