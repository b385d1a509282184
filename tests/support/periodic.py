"""Every look at a store that a program repeats, and a store of any age to try it on."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, cast

from attrs import astuple, frozen
from sqlalchemy import Connection, Table, bindparam, insert, select, update

from exporters.farm.boards import Healths, Jobs
from exporters.farm.host import Sizes
from exporters.metrics import StandingMetrics
from exporters.results import ResultsReader
from lab.farm.checks.results import last_backup
from lab.farm.checks.results import results as doctor_results
from lab.health.store import HealthBook
from lab.host import process
from lab.host.clock import utc_now
from lab.jobs.listing import has_changed, jobs, measuring, running
from lab.jobs.queue import TIMERS, JobQueue, claimant
from lab.jobs.waiting import BoardChanges
from lab.judge.latest import LatestJudge, WorseNumber, worse_numbers
from lab.judge.text import EvidenceLinks
from lab.metrics import Sample, summarise
from lab.results import AttemptRecord, SampleRecord, Store, open_store, sums
from lab.results.listing import LatestEnded, failures
from lab.results.models import JobRow, MeasurementRow, RunRow, SampleRow
from lab.results.series import BoardSeries
from lab.results.snapshot import watch
from support.farm_store import fill
from support.jobbook import ORDER

BOARDS: Final = 2  # so that also a young store has more runs of a board than a comparison reads
_NIGHTS: Final = 25  # of a release
_TOGETHER: Final = 5000  # rows of an insert


@frozen
class PeriodicLook:
    """A look that a program repeats.

    Attributes:
        every: how often. of: makes it, from a store with a job that holds board-0000 and one that waits for it.
        grows: why its cost may grow with history; empty: it may not.
    """

    name: str
    every: str
    of: Callable[[Store, int, int], Callable[[], object]]
    grows: str = ""


def book(store: Store) -> JobQueue:
    """The queue of this process's jobs."""
    return JobQueue(store, process.identity(), process.has_died, person="lena", priority=TIMERS)


def _after_a_run(store: Store) -> Callable[[], object]:
    """The exporter's look after another run of a board."""
    reader, (last,) = ResultsReader(watch(store.url)), store.runs(1)

    def measure_and_read() -> object:
        run = store.begin_run(last.kind, last.board_type, last.board, last.release, plan={}, provenance={})
        params = {"medium": "sd"}
        samples = (SampleRecord("boot.time", params, 2.5, 0.001),)
        store.record_attempt(run.id, AttemptRecord(1, 1, params, "ok", None, None, "", utc_now(), 6.0, samples))
        store.finish_run(run.id, "completed")
        return reader.read()

    return measure_and_read


def _holder_look(store: Store, waiting: int) -> Callable[[], object]:
    queue = book(store)
    job = queue.job(waiting)
    return lambda: queue.prospect(job, (job.board,))


def _change_look(store: Store, running: int) -> Callable[[], object]:
    """Behind another job's sign of life."""
    changes = BoardChanges(store, ("board-0000",), lambda _seconds: None)
    return lambda: (book(store).beat(running), changes.wait(0.0))


def _worse_of(store: Store) -> list[WorseNumber]:
    with store.snapshot() as snapshot:
        return worse_numbers(snapshot, BoardSeries("board-0000", "am62xx_sk", "boot"))


LOOKS: Final = (
    PeriodicLook("a waiting job takes its board", "10 s", lambda s, _running, waiting: lambda: book(s).start(waiting)),
    PeriodicLook("a waiting job looks at its board's holder", "10 s", lambda s, _running, job: _holder_look(s, job)),
    PeriodicLook("a waiting job looks for changes", "1 s", lambda s, running, _waiting: _change_look(s, running)),
    PeriodicLook("a running job's sign of life", "10 s", lambda s, running, _: lambda: book(s).beat(running)),
    PeriodicLook("a running job gives way", "a cycle", lambda s, running, _: lambda: claimant(s, running)),
    PeriodicLook("room on a host", "10 s", lambda s, *_: lambda: measuring(book(s), "lab-1")),
    PeriodicLook("a change of a host's jobs", "10 s", lambda s, *_: lambda: has_changed(book(s), "lab-1", utc_now())),
    PeriodicLook("unended jobs, with their ends", "a look", lambda s, *_: lambda: jobs(s, 0, utc_now())),
    PeriodicLook("a board's health", "a run", lambda s, *_: lambda: HealthBook(s).of("board-0000")),
    PeriodicLook("exporter: unchanged results", "15 s", lambda s, *_: ResultsReader(watch(s.url)).read),
    PeriodicLook("exporter: a run has ended", "a run", lambda s, *_: _after_a_run(s)),
    PeriodicLook(
        "worse numbers of a board", "a run", lambda s, *_: lambda: _worse_of(s), "with the names of releases"
    ),
    PeriodicLook("exporter: jobs", "15 s", lambda s, *_: Jobs(watch(s.url)).read),
    PeriodicLook("exporter: health", "15 s", lambda s, *_: Healths(watch(s.url)).read),
    PeriodicLook(
        "exporter: verdicts", "15 s", lambda s, *_: StandingMetrics(watch(s.url), EvidenceLinks("")).verdicts
    ),
    PeriodicLook(
        "exporter: failures", "15 s", lambda s, *_: StandingMetrics(watch(s.url), EvidenceLinks("")).failures
    ),
    PeriodicLook("janitor: jobs that measure", "5 s", lambda s, *_: lambda: running(book(s))),
    PeriodicLook("doctor: results", "a look", lambda s, *_: lambda: list(doctor_results(s.url))),
    PeriodicLook("doctor: last backup", "a look", lambda s, *_: lambda: list(last_backup(s.url))),
    PeriodicLook("status, site: last runs", "a look", lambda s, *_: lambda: LatestEnded().of(s)),
    PeriodicLook("status: failures", "a look", lambda s, *_: lambda: failures(s, utc_now() - dt.timedelta(days=1))),
    PeriodicLook(
        "status, site: which boards to judge",
        "a look",
        lambda s, *_: lambda: LatestJudge(budget_s=0.0).of(s, utc_now()),
        "it counts each series' runs",
    ),
    PeriodicLook("exporter: sizes", "600 s", lambda s, *_: Sizes(watch(s.url)).read, "it adds up all artifacts"),
)


def aged(path: Path, runs: int) -> str:
    """A store with so many completed runs, which kept their sums, and ended jobs; its URL."""
    releases = runs // (BOARDS * _NIGHTS)
    url = fill(path, boards=BOARDS, metrics=1, samples=1, releases=releases, nights=_NIGHTS, last=utc_now())
    at = utc_now() - dt.timedelta(days=1)
    with open_store(url) as store, store._engine.begin() as connection:
        for start in range(0, runs, _TOGETHER):
            rows = [_ended(at, number) for number in range(start, min(runs, start + _TOGETHER))]
            connection.execute(insert(JobRow), rows)
        _keep_sums(connection)
    return url


def _keep_sums(connection: Connection) -> None:
    """The sums that `lab.results.sums.keep` writes at each run's end."""
    numbers = cast("Table", MeasurementRow.__table__)
    found = select(
        MeasurementRow.id, MeasurementRow.run_id, MeasurementRow.params, SampleRow.value, SampleRow.uncertainty
    )
    changes, parts = [], []
    for number, run_id, params, value, error in connection.execute(found.join(SampleRow.measurement)):
        total = sums.Total(1, value, value * value, error, 1)
        summary = {"statistics": astuple(summarise([Sample(value, error, 1)])), "flags": {"simulated": 1}}
        changes.append({"number": number, "total": total.text, "kept": summary})
        of_run = {sums.ATTEMPTS: [[params, "ok", None, 1]], sums.MOMENTS: 0, sums.VARIANTS: [params]}
        parts.append({"run": run_id, "parts": {**of_run, sums.READINGS: [["boot.time", "s", params, [value]]]}})
    values = {"sums": bindparam("total"), "summary": bindparam("kept")}
    connection.execute(update(numbers).where(numbers.c.id == bindparam("number")).values(values), changes)
    runs = cast("Table", RunRow.__table__)
    connection.execute(update(runs).where(runs.c.id == bindparam("run")).values(sums=bindparam("parts")), parts)


def _ended(at: dt.datetime, number: int) -> dict[str, Any]:
    times = dict.fromkeys(("queued_at", "started_at", "heartbeat_at", "finished_at"), at)
    names = {"board_type": ORDER.board_type, "board": f"board-{number % BOARDS:04}", "env": ORDER.env}
    rest = {"suites": "boot", "release": "11.01", "cycles": 20, "state": "completed", "holder": "lab-1/boot/7"}
    return {**times, **names, **rest, "done": 1, "after_run": 0, "options": {}, "person": "lena", "program": "lab run",
            "priority": 0, "request": ""}  # fmt: skip
