"""Families of schedules: due times, outcomes and missing samples.

A job with missing samples is no success.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from attrs import define, field, frozen
from prometheus_client import Metric

from exporters.farm.boards import state_of
from exporters.farm.build import LabelledValue, gauge
from exporters.measurements import clean
from lab.jobs.listing import jobs_since
from lab.jobs.records import BY_LAB_RUN, LEASE_S, Job
from lab.results import backup
from lab.results.audit import last_done
from lab.results.completeness import COMPLETED, SECTIONS, PlannedItem, RunCompleteness, completeness_of_runs
from lab.results.models import RunRow
from lab.results.records import RunHead
from lab.results.snapshot import CHUNK, SnapshotReader, StoreSnapshot


def gone_items(now: Iterable[RunCompleteness], before: Iterable[RunCompleteness]) -> dict[PlannedItem, int]:
    """Earlier measured items without a plan, with their former number."""
    runs = list(now)
    kinds = {run.kind for run in runs} - {SECTIONS}  # the metrics cover sections
    there = {item for run in runs for item in run.planned}
    gone: dict[PlannedItem, int] = {}
    for run in before:
        if run.kind in kinds:
            gone |= {item: run.planned.get(item, 1) for item in run.present if item not in there}
    return gone


def gone_metrics(now: Iterable[RunCompleteness], before: Iterable[RunCompleteness]) -> set[tuple[str, str]]:
    """Kind and name of earlier metrics that today's completed runs lack."""
    runs = list(now)
    kinds = {run.kind for run in runs} - {run.kind for run in runs if not run.completed}
    there = {(run.kind, metric) for run in runs for metric in run.metrics}
    return {(run.kind, metric) for run in before if run.kind in kinds for metric in run.metrics} - there


LOOK_BACK: Final = timedelta(days=70)  # ten weekly runs
JOBS: Final = 8  # of a schedule: the last one, and those that it is compared with
_MEASURE_NOTHING: Final = {"judge", "health"}  # options of `lab run`
_PROVISION: Final = "provision"  # another
_LABELS: Final = ("schedule", "board", "suite", "release")


@frozen
class ScheduledRun:
    """A schedule's due run.

    Attributes:
        schedule: its name.
        kinds: of the suites' runs.
        release: empty: the environment's.
        interval_s: between two starts.
        last_start: last due time of the timer before a time.
        cycles: None: any number.
        options: of `lab.run.options`.
    """

    schedule: str
    board: str
    suites: tuple[str, ...]
    kinds: tuple[str, ...]
    release: str
    interval_s: float
    last_start: Callable[[datetime], datetime]
    cycles: int | None = None
    options: Mapping[str, Any] = {}

    @property
    def labels(self) -> tuple[str, ...]:
        """Values of _LABELS."""
        return (self.schedule, self.board, ",".join(self.suites), self.release)

    def matches(self, job: Job) -> bool:
        """Return whether a job has this schedule's order.

        The person does not matter; an order that measures less is another one.
        """
        same = (job.board, job.suites) == (self.board, self.suites)
        # The release file of a provisioned board has the label, which changes each night.
        same &= bool(self.options.get(_PROVISION)) or job.release == self.release
        same &= job.program == BY_LAB_RUN and _measurement_options(job.options) == _measurement_options(self.options)
        return same and self.cycles in {None, job.cycles}


def _measurement_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options that affect the measurement.

    The previously provisioned release does not.
    """
    measuring = {name: value for name, value in options.items() if name not in _MEASURE_NOTHING}
    return {**measuring, _PROVISION: True} if measuring.get(_PROVISION) else measuring


@frozen
class ScheduleOutcome:
    """Outcome of a schedule's jobs.

    Attributes:
        success, failure: last end of a job with all planned samples, or otherwise; None: never.
        planned, present: of the last ended job.
        metrics: kind and name of metrics that no longer arrive.
    """

    success: datetime | None
    failure: datetime | None
    planned: Mapping[PlannedItem, int]
    present: Mapping[PlannedItem, int]
    metrics: frozenset[tuple[str, str]]


@define
class Schedules:
    """Collector of a host's schedules.

    It reads each completed run once, since it never changes.

    Attributes:
        now: None: the store's clock, as for heartbeats.
    """

    watcher: SnapshotReader
    due: Sequence[ScheduledRun]
    now: Callable[[], datetime] | None = None
    _known: dict[int, RunCompleteness] = field(factory=dict, init=False)

    def read(self) -> list[Metric]:
        """Families of the schedules.

        Raises:
            BoardlabError: the store cannot be read.
        """
        with self.watcher.snapshot() as snapshot:
            now = (self.now or snapshot.now)()
            # A killed job has ended, too; a cancelled one does not count for its schedule.
            ended = [
                job
                for job in jobs_since(snapshot, now - LOOK_BACK)
                if job.state != "cancelled"
                and (job.finished_at is not None or state_of(job, now) in {"stuck", "gone"})
            ]
            of_due = [[job for job in ended if due.matches(job)] for due in self.due]
            heads = _heads_of(snapshot, [job for jobs in of_due for job in jobs[-JOBS:]])
            outcomes = [
                (due, self._outcome(snapshot, due, jobs, heads)) for due, jobs in zip(self.due, of_due, strict=True)
            ]
        used = {head.id for runs in heads.values() for head in runs}
        self._known = {run_id: run_yield for run_id, run_yield in self._known.items() if run_id in used}
        return list(_families(outcomes, now))

    def _outcome(
        self, snapshot: StoreSnapshot, due: ScheduledRun, jobs: Sequence[Job], heads: Mapping[int, Sequence[RunHead]]
    ) -> ScheduleOutcome:
        runs = {job.id: _runs_of(job, due, heads[job.id]) for job in jobs[-JOBS:]}
        heads_now = (head for of_job in runs.values() for head in of_job)
        unread = [head for head in heads_now if not (head.id in self._known and self._known[head.id].completed)]
        self._known.update(completeness_of_runs(snapshot, unread))
        yields_of = {job: [self._known[head.id] for head in of_job] for job, of_job in runs.items()}
        good = [
            job for job in jobs if job.state == COMPLETED and not any(y.missing for y in yields_of.get(job.id, ()))
        ]
        bad = [job for job in jobs if job not in good]
        measured = [of_job for of_job in yields_of.values() if of_job]
        last = measured[-1] if measured else []
        before = [run_yield for of_job in measured[:-1] for run_yield in of_job]
        planned, present = Counter[PlannedItem](), Counter[PlannedItem]()
        for run_yield in last:
            planned.update(run_yield.planned)
            present.update(run_yield.present)
        return ScheduleOutcome(
            max((job.ended_at for job in good), default=None),
            max((job.ended_at for job in bad), default=None),
            {**planned, **gone_items(last, before)},
            present,
            frozenset(gone_metrics(last, before)),
        )


@frozen
class Backups:
    """The lab's last backup, which farm.yaml wants every day."""

    watcher: SnapshotReader

    def read(self) -> list[Metric]:
        """Families of the backups.

        Raises:
            BoardlabError: the store cannot be read.
        """
        with self.watcher.snapshot() as snapshot:
            at = snapshot.read(lambda session: last_done(session, backup.ACTION))
        return [
            gauge("boardlab_backup_interval_seconds", "Time between two backups.", [], [((), backup.INTERVAL_S)]),
            gauge(
                "boardlab_backup_last_success_timestamp_seconds",
                "Last end of a complete backup.",
                [],
                [((), at.timestamp())] if at is not None else [],
            ),
        ]


def _heads_of(snapshot: StoreSnapshot, jobs: Sequence[Job]) -> dict[int, list[RunHead]]:
    """Runs that may be of these jobs, by job.

    They are its own, and those of its board that were stored without a job.
    """
    by_job: dict[int, list[RunHead]] = {job.id: [] for job in jobs}
    ids = list(by_job)
    for start in range(0, len(ids), CHUNK):
        for head in snapshot.heads_of(RunRow.job_id.in_(ids[start : start + CHUNK])):
            by_job[head.job_id or 0].append(head)
    started = [job.started_at for job in jobs if job.started_at is not None]
    boards = {job.board for job in jobs}
    if started:
        without = (RunRow.job_id.is_(None), RunRow.board.in_(boards), RunRow.started_at >= min(started))
        by_board: dict[str, list[RunHead]] = {}
        for head in snapshot.heads_of(*without):
            by_board.setdefault(head.board, []).append(head)
        for job in {job.id: job for job in jobs}.values():
            by_job[job.id] = sorted((*by_job[job.id], *by_board.get(job.board, ())), key=lambda head: head.id)
    return by_job


def _runs_of(job: Job, due: ScheduledRun, heads: Iterable[RunHead]) -> list[RunHead]:
    """Runs of a job, one for each of its suites."""
    if job.started_at is None:
        return []
    kinds = Counter(due.kinds)
    until = job.ended_at + timedelta(seconds=LEASE_S)
    runs = []
    for head in heads:
        fits = head.board == job.board and head.release == (job.release or head.release)
        at_its_time = job.started_at <= head.started_at <= until  # for runs that were stored without a job
        own = at_its_time if head.job_id is None else head.job_id == job.id
        if fits and kinds[head.kind] and own:
            kinds[head.kind] -= 1
            runs.append(head)
    return runs


def _families(outcomes: Sequence[tuple[ScheduledRun, ScheduleOutcome]], now: datetime) -> Iterator[Metric]:
    def times(of: Callable[[ScheduledRun, ScheduleOutcome], datetime | None]) -> list[LabelledValue]:
        instants = ((due.labels, of(due, outcome)) for due, outcome in outcomes)
        return [(labels, at.timestamp()) for labels, at in instants if at is not None]

    def items(of: Callable[[ScheduleOutcome, PlannedItem], int]) -> list[LabelledValue]:
        return [
            ((due.schedule, due.board, item.kind, clean(item.name)), of(outcome, item))
            for due, outcome in outcomes
            for item in outcome.planned
        ]

    name = "boardlab_schedule"
    per_item = ("schedule", "board", "kind", "item")
    intervals = [(due.labels, due.interval_s) for due, _ in outcomes]
    yield gauge(f"{name}_interval_seconds", "Time between two starts of the schedule.", _LABELS, intervals)
    yield gauge(
        f"{name}_due_timestamp_seconds",
        "Last due time of the schedule's timer.",
        _LABELS,
        times(lambda due, _: due.last_start(now)),
    )
    yield gauge(
        f"{name}_last_success_timestamp_seconds",
        "Last end of a job of the schedule with all planned samples.",
        _LABELS,
        times(lambda _, outcome: outcome.success),
    )
    yield gauge(
        f"{name}_last_failure_timestamp_seconds",
        "Last other end of a job of the schedule: failed, killed, refused, or with samples missing.",
        _LABELS,
        times(lambda _, outcome: outcome.failure),
    )
    about = "of the schedule's last job that has ended."
    planned = items(lambda outcome, item: outcome.planned[item])
    yield gauge(f"{name}_planned_samples", f"Planned samples {about}", per_item, planned)
    present = items(lambda outcome, item: outcome.present.get(item, 0))
    yield gauge(f"{name}_present_samples", f"Present samples {about}", per_item, present)
    gone = [((due.schedule, due.board, *key), 1.0) for due, outcome in outcomes for key in sorted(outcome.metrics)]
    yield gauge(
        f"{name}_missing_metric",
        "1: earlier jobs of the schedule gave this metric, and its last one, though complete, did not.",
        ("schedule", "board", "kind", "metric"),
        gone,
    )
