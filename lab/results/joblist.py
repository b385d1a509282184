"""Looking at jobs: which there are, whose runs are whose, and when one will end."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, Final

from attrs import frozen
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from lab.results.jobrecords import BY_LAB_RUN, Job, job_of
from lab.results.jobs import JobQueue, find
from lab.results.models import AttemptRow, JobRow, RunRow
from lab.results.records import OK
from lab.results.store import Store

_HISTORY: Final = 5  # jobs whose length tells that of the next one
_LISTED: Final = ("media", "modes", "sections")  # keys of a plan that list what is measured in each cycle


@frozen
class JobRun:
    """A run of a job.

    Attributes:
        good: attempts that gave their samples. planned: how many there will be; 0: unknown.
    """

    id: int
    kind: str
    status: str
    started_at: dt.datetime
    good: int
    planned: int


@frozen
class JobView:
    """A job, its runs, and when it will have ended; None: it has, it still waits, or nobody can tell."""

    job: Job
    runs: tuple[JobRun, ...]
    expected_end: dt.datetime | None


def jobs(store: Store, limit: int, now: dt.datetime) -> list[JobView]:
    """The latest jobs, the newest first; those that have not ended are always among them."""
    with store._read() as session:
        latest = session.scalars(select(JobRow).order_by(JobRow.id.desc()).limit(limit))
        active = session.scalars(select(JobRow).where(JobRow.state.in_(("queued", "running"))))
        rows = {row.id: row for row in (*latest, *active)}
        return [_view(session, job_of(rows[job_id]), now) for job_id in sorted(rows, reverse=True)]


def job(store: Store, job_id: int) -> Job:
    """One job.

    Raises:
        ConfigurationError: there is none of that number.
    """
    with store._read() as session:
        return job_of(find(session, job_id))


def view(store: Store, seen: Job, now: dt.datetime) -> JobView:
    """A job with its runs."""
    with store._read() as session:
        return _view(session, seen, now)


def job_of_run(store: Store, run_id: int) -> Job | None:
    """The job that a run belongs to; None: there is no such run, or none that had its board then.

    Raises:
        BoardlabError: the store cannot be read.
    """
    with store._read() as session:
        run = session.get(RunRow, run_id)
        if run is None:
            return None
        if run.job_id is not None:
            row = session.get(JobRow, run.job_id)
            return None if row is None else job_of(row)
        # A run of before it was kept: of the job that had its board when it began.
        had = select(JobRow).where(JobRow.board == run.board, JobRow.started_at <= run.started_at)
        row = session.scalars(had.where(JobRow.after_run < run.id).order_by(JobRow.id.desc()).limit(1)).one_or_none()
        return None if row is None else job_of(row)


def has_run(store: Store, run_id: int) -> bool:
    """Whether there is a run of that number."""
    with store._read() as session:
        return session.get(RunRow, run_id) is not None


def described(found: JobView) -> str:
    """Who has a board: "job j3 (boot) of lena on lab-2, since 2026-03-02 02:00 UTC, ends about 2026-03-02 04:10 UTC"."""
    job = found.job
    since = f", since {moment(job.started_at)} UTC" if job.started_at else ""
    ends = f", ends about {moment(found.expected_end)} UTC" if found.expected_end else ""
    of = "of" if job.person else "at"
    return f"job {job.called} ({','.join(job.suites)}) {of} {job.who}{since}{ends}"


def busy(book: JobQueue, holder: Job) -> str:
    """Who has a board, for whoever is refused."""
    return described(view(book.store, holder, book.now()))


def moment(at: dt.datetime) -> str:
    """To the minute."""
    return f"{at:%Y-%m-%d %H:%M}"


def _view(session: Session, job: Job, now: dt.datetime) -> JobView:
    its = session.scalars(select(RunRow).where(RunRow.job_id == job.id).order_by(RunRow.id)).all()
    good = select(AttemptRow.run_id, func.count()).where(
        AttemptRow.run_id.in_([run.id for run in its]), AttemptRow.outcome == OK
    )
    counts = {row[0]: row[1] for row in session.execute(good.group_by(AttemptRow.run_id))} if its else {}
    runs = tuple(
        JobRun(run.id, run.kind, run.status, run.started_at, counts.get(run.id, 0), planned(run.plan)) for run in its
    )
    return JobView(job, runs, _expected_end(session, job, runs, now))


def planned(plan: Mapping[str, Any]) -> int:
    """How many good attempts a run of this plan will have; 0: another boardlab's plan."""
    names: list[Any] = next((plan[key] for key in _LISTED if isinstance(plan.get(key), list)), [])
    times = plan.get("cycles", plan.get("repeats", 1))
    return len(names) * times if type(times) is int else 0


def _expected_end(session: Session, job: Job, runs: Sequence[JobRun], now: dt.datetime) -> dt.datetime | None:
    """As long as the same order took on boards of this type; else as fast as its last run goes."""
    if job.state != "running" or job.started_at is None:
        return None
    took = _lengths(session, job) if job.program == BY_LAB_RUN and not job.done else []
    if took:
        return job.started_at + dt.timedelta(seconds=median(took))
    last = runs[-1] if runs else None
    if last is None or last.status != "running" or not 0 < last.good <= last.planned or job.done + 1 < len(job.suites):
        return None
    return last.started_at + (now - last.started_at) * (last.planned / last.good)


def _lengths(session: Session, job: Job) -> list[float]:
    same = (JobRow.board_type == job.board_type, JobRow.suites == ",".join(job.suites), JobRow.state == "completed")
    wanted = select(JobRow).where(*same, JobRow.program == job.program, JobRow.started_at.is_not(None))
    found = []
    for row in session.scalars(wanted.order_by(JobRow.id.desc()).limit(_HISTORY * _HISTORY)):
        if (row.cycles, dict(row.options)) == (job.cycles, dict(job.options)) and row.started_at and row.finished_at:
            found.append((row.finished_at - row.started_at).total_seconds())
    return found[:_HISTORY]
