"""One job at a time per board; a board comes back from who died."""

from __future__ import annotations

import datetime as dt
import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from exporters.farm.jobs import Jobs
from lab.cli import main
from lab.errors import ConfigurationError, LabStableError
from lab.host import process
from lab.results import Store, open_store
from lab.results.jobrecords import BY_WEB, LEASE_S
from lab.results.jobs import Job, JobQueue, Order
from lab.results.reservations import ReservationBook
from lab.results.watch import watch

ORDER = Order("am62xx_sk", "b1", ("boot", "low_power"), "envs/am62x.yaml", "11.01", 20)
START = dt.datetime(2026, 3, 2, 2, 0, tzinfo=dt.UTC)


class Wall:
    """A wall clock that a test turns."""

    def __init__(self) -> None:
        self.at = START

    def __call__(self) -> dt.datetime:
        return self.at

    def later(self, seconds: float) -> None:
        self.at += dt.timedelta(seconds=seconds)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(str(tmp_path / "results.db")) as store:
        yield store


@pytest.fixture
def wall() -> Wall:
    return Wall()


def book(store: Store, wall: Wall, name: str, *, dead: set[str] | None = None) -> JobQueue:
    """The book as the process `name` has it, on a host that knows who of `dead` has died, or on another (None)."""
    return JobQueue(store, name, lambda who: None if dead is None else who in dead, wall)


def started(jobs: JobQueue, order: Order = ORDER) -> Job:
    job = jobs.start(jobs.enqueue(order).id)
    assert job is not None
    return job


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


def test_a_silent_job_of_another_host_keeps_its_board_until_the_lease_ends(store: Store, wall: Wall) -> None:
    one, two = book(store, wall, "one"), book(store, wall, "two")
    silent = started(one)
    waiting = two.enqueue(ORDER)
    wall.later(LEASE_S - 1)
    assert two.start(waiting.id) is None
    one.beat(silent.id)
    wall.later(LEASE_S - 1)
    assert two.start(waiting.id) is None
    wall.later(2)
    assert two.start(waiting.id) is not None
    with pytest.raises(LabStableError, match="taken from us"):
        one.beat(silent.id)
    one.finish(silent.id, "completed")
    assert two.holder_of("b1") is not None


def test_a_job_that_died_waiting_holds_up_nobody(store: Store, wall: Wall) -> None:
    book(store, wall, "one").enqueue(ORDER)
    wall.later(LEASE_S + 1)
    started(book(store, wall, "two"))


def test_a_job_goes_on_with_its_suite_and_that_suites_run(store: Store, wall: Wall) -> None:
    store.begin_run("boot", "am62xx_sk", "b1", "11.01", plan={}, provenance={})
    jobs = book(store, wall, "one")
    job = started(jobs)
    assert jobs.unfinished_run(job, "boot") is None, "an older run is none of this job's"
    boot = store.begin_run("boot", "am62xx_sk", "b1", "11.01", plan={}, provenance={}).id
    assert jobs.unfinished_run(job, "boot") == boot
    store.finish_run(boot, "completed")
    assert jobs.unfinished_run(job, "boot") is None
    job = jobs.next_suite(job.id)
    power = store.begin_run("low_power", "am62xx_sk", "b1", "11.01", plan={}, provenance={}).id
    after = book(store, wall, "two", dead={"one"})
    again = after.take_up(job.id)
    assert again.suites[again.done] == "low_power"
    assert after.unfinished_run(again, "low_power") == power


def test_a_job_that_is_finished_or_alive_is_not_resumed(store: Store, wall: Wall) -> None:
    one = book(store, wall, "one")
    job = started(one)
    other = book(store, wall, "two", dead=set())
    with pytest.raises(ConfigurationError, match="is running: one; let it end, or: lab jobs cancel j1"):
        other.take_up(job.id)
    one.finish(job.id, "completed")
    with pytest.raises(ConfigurationError, match="nothing to resume"):
        other.take_up(job.id)
    with pytest.raises(ConfigurationError, match="no job j99; the latest is j1"):
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


def test_a_holder_is_gone_when_its_process_is_or_its_host_was_booted_again(tmp_path: Path) -> None:
    mine = process.identity()
    assert process.has_died(mine) is False
    with subprocess.Popen(["sleep", "60"]) as child:
        host, boot, _, _ = mine.rsplit("/", 3)
        start = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[19]
        its = f"{host}/{boot}/{child.pid}/{start}"
        assert process.has_died(its) is False
        child.kill()
    assert process.has_died(its) is True
    assert process.has_died(mine.replace(boot, "another-boot")) is True
    assert process.has_died(f"{host}/{boot}/{os.getpid()}/1") is True, "the number was given to another process"
    assert process.has_died(f"elsewhere/{boot}/1/1") is None


def test_a_holder_that_proc_hides_is_not_taken_for_dead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host, boot, _, _ = process.identity().rsplit("/", 3)
    hidden = tmp_path / "proc"
    (hidden / "sys/kernel/random").mkdir(parents=True)
    (hidden / "sys/kernel/random/boot_id").write_text(boot)
    with subprocess.Popen(["sleep", "60"]) as child:
        assert process.has_died(f"{host}/{boot}/{child.pid}/1", hidden) is None
        assert process.ask_to_end(f"{host}/{boot}/{child.pid}/1", hidden) is False
        child.kill()
    assert process.has_died(f"{host}/{boot}/{child.pid}/1", hidden) is True
    assert process.has_died(f"{host}/another-boot/{os.getpid()}/1", hidden) is True

    def of_another_user(_pid: int, _signal: int) -> None:
        raise PermissionError

    monkeypatch.setattr(process.os, "kill", of_another_user)
    assert process.has_died(f"{host}/{boot}/4000000/1", hidden) is None


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
    store: Store, wall: Wall
) -> None:
    site = JobQueue(store, "site", lambda _who: False, wall, program=BY_WEB)
    one = JobQueue(store, "one", lambda _who: False, wall)
    held, waiting = started(site), one.enqueue(ORDER)
    wall.later(LEASE_S)
    assert one.start(waiting.id) is None
    wall.later(1)
    assert one.start(waiting.id) is not None, "the site lives, but gave no sign of life for this job"
    assert one.job(held.id).state == "interrupted"
    wall.later(LEASE_S + 1)
    other = JobQueue(store, "two", lambda _who: False, wall)
    assert other.start(other.enqueue(ORDER).id) is None, "a run that lives keeps its board"


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
