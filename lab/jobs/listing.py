"""Views of jobs with their runs and their expected end, and of runs with the state of their jobs."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any, Final

from attrs import evolve, frozen
from sqlalchemy import ColumnElement, and_, func, select
from sqlalchemy.orm import Session

from lab.health.reservations import IGNORE, QUARANTINE
from lab.host import process
from lab.host.clock import utc_now
from lab.jobs.queue import JobQueue, find
from lab.jobs.records import BY_LAB_RUN, BY_WEB, Job, job_of, seems_dead
from lab.results import database, listing
from lab.results.listing import ListedRun, Overview, RunFilter
from lab.results.models import AttemptRow, JobRow, RunRow
from lab.results.records import KILLED, OK
from lab.results.revision import GOES_ON
from lab.results.rows import select_fields
from lab.results.snapshot import StoreSnapshot
from lab.results.store import Store

_HISTORY: Final = 5  # earlier jobs or runs by which the length of the next one is estimated
# Key of a plan that lists items -> parameter of an attempt that names one of these items.
_LISTED: Final = {"media": "medium", "modes": "mode", "sections": "section", "tests": "test"}
_UNEVEN: Final = "sections"  # kind of runs in which some items take a hundred times as long as others
_UNEVEN_PARAMETER: Final = _LISTED[_UNEVEN]


@frozen
class JobRun:
    """A run of a job.

    Attributes:
        status: status of the run; `KILLED` if it has not ended but its job has.
        good: number of good attempts, without those at single rows.
        planned: number of planned cycles; 0: unknown.
    """

    id: int
    kind: str
    status: str
    started_at: dt.datetime
    good: int
    planned: int


@frozen
class JobView:
    """A job with its runs.

    Attributes:
        expected_end: when it will probably end; None: unknown, or it has ended.
    """

    job: Job
    runs: tuple[JobRun, ...]
    expected_end: dt.datetime | None


def jobs(store: Store, limit: int, now: dt.datetime) -> list[JobView]:
    """Return the latest jobs and all that have not ended, the newest first.

    Args:
        limit: number of the latest jobs.
    """

    def read(session: Session) -> list[JobView]:
        latest = session.scalars(select(JobRow).order_by(JobRow.id.desc()).limit(limit))
        active = session.scalars(select(JobRow).where(JobRow.state.in_(("queued", "running"))))
        rows = {row.id: row for row in (*latest, *active)}
        return [_view(session, job_of(rows[job_id]), now) for job_id in sorted(rows, reverse=True)]

    return store.read(read)


def active_jobs(snapshot: StoreSnapshot) -> list[Job]:
    """Return the jobs that wait or run, the oldest first."""
    return _jobs(snapshot, JobRow.state.in_(("queued", "running")))


def jobs_since(snapshot: StoreSnapshot, since: dt.datetime) -> list[Job]:
    """Return the jobs that were queued since then, in any state, the oldest first."""
    return _jobs(snapshot, JobRow.queued_at >= since)


def _jobs(snapshot: StoreSnapshot, where: ColumnElement[bool]) -> list[Job]:
    """Return the jobs that meet a condition, the oldest first."""
    query = select_fields(JobRow, Job).where(where)
    # `id + 0` keeps the database from reading all jobs in the order of their ids.
    return [job_of(row) for row in snapshot.rows(query.order_by(JobRow.id + 0))]


def job(store: Store, job_id: int) -> Job:
    """Return one job.

    Raises:
        ConfigurationError: there is no such job.
    """
    return store.read(lambda session: job_of(find(session, job_id)))


def view(store: Store, job: Job, now: dt.datetime) -> JobView:
    """Return a job with its runs."""
    return store.read(lambda session: _view(session, job, now))


def job_of_request(store: Store, request: str) -> Job | None:
    """Return the job that has carried out another queue's request; None: there is none, or it can be resumed."""
    conditions = (JobRow.request == request, JobRow.state.in_(("completed", "failed", "cancelled")))

    def read(session: Session) -> Job | None:
        row = session.scalars(select(JobRow).where(*conditions).order_by(JobRow.id.desc()).limit(1)).one_or_none()
        return None if row is None else job_of(row)

    return store.read(read)


def latest_run(store: Store, job: Job, kind: str) -> int | None:
    """Return the id of the last run of a kind in the job's current suite; None: there is none."""
    conditions = (RunRow.job_id == job.id, RunRow.id > job.after_run, RunRow.kind == kind)
    return store.read(lambda session: session.scalar(select(func.max(RunRow.id)).where(*conditions)))


def job_of_run(store: Store, run_id: int) -> Job | None:
    """Return the job of a run; None: there is no such run, or it has no job.

    Raises:
        BoardlabError: the store cannot be read.
    """

    def read(session: Session) -> Job | None:
        run = session.get(RunRow, run_id)
        row = None if run is None or run.job_id is None else session.get(JobRow, run.job_id)
        return None if row is None else job_of(row)

    return store.read(read)


def has_run(store: Store, run_id: int) -> bool:
    """Return True if the run exists."""
    return store.read(lambda session: session.get(RunRow, run_id) is not None)


def describe_job(job_view: JobView) -> str:
    """Return a job as text, with its person and its times.

    E.g. "job j3 (boot) of lena on lab-2, since 2026-03-02 02:00 UTC, ends about 2026-03-02 04:10 UTC".
    """
    job = job_view.job
    since = f", since {moment(job.started_at)} UTC" if job.started_at else ""
    ends = f", ends about {moment(job_view.expected_end)} UTC" if job_view.expected_end else ""
    preposition = "of" if job.person else "at"
    return f"job {job.called} ({','.join(job.suites)}) {preposition} {job.who}{since}{ends}"


def busy(queue: JobQueue, holder: Job) -> str:
    """Return the job that has a board as text, for a refusal."""
    return describe_job(view(queue.store, holder, queue.now()))


def obstacle(queue: JobQueue, board: str) -> str:
    """Return the reason why a job does not get a board: its holder, a reservation, or a job before it."""
    holder = queue.holder_of(board)
    if holder is not None:
        return f"{board} is busy: {busy(queue, holder)}"
    holds = queue.refusing(board)
    if holds:
        own = all(hold.person == queue.person and hold.kind != QUARANTINE for hold in holds)
        return f"{board} is {', and '.join(hold.described for hold in holds)}" + (
            f"; it is yours: add {IGNORE} (pytest: --lab{IGNORE[1:]})" * own
        )
    return f"{board} is busy: an earlier job waits for it"


def running(queue: JobQueue) -> list[Job]:
    """Return the running jobs, without dead ones, the oldest first."""

    def read(session: Session) -> list[Job]:
        rows = session.scalars(select(JobRow).where(JobRow.state == "running").order_by(JobRow.id))
        return [job_of(row) for row in rows if not queue._dead(row)]

    return queue.store.read(read)


def count_active(queue: JobQueue, person: str) -> int:
    """Return how many jobs of a person wait or measure, without dead ones."""
    query = select(JobRow).where(JobRow.person == person, JobRow.state.in_(("queued", "running")))
    return queue.store.read(lambda session: sum(not queue._dead(row) for row in session.scalars(query)))


def measuring(queue: JobQueue, host: str) -> int:
    """Return how many boards a host measures, without dead jobs and those of the site."""
    holders = select(JobRow.holder).where(_of_host(host), JobRow.state == "running")
    running_holders = queue.store.read(lambda session: session.scalars(holders).all())
    return sum(queue.has_died(holder) is not True for holder in running_holders)


def has_changed(queue: JobQueue, host: str, since: dt.datetime) -> bool:
    """Return True if a job of a host has begun or ended since then; jobs of the site do not count."""
    began = select(JobRow.id).where(_of_host(host), JobRow.state == "running", JobRow.started_at >= since)
    ended = select(JobRow.id).where(_of_host(host), JobRow.finished_at >= since)
    return queue.store.read(lambda session: any(session.scalars(query.limit(1)).first() for query in (began, ended)))


def _of_host(host: str) -> ColumnElement[bool]:
    """Return the condition of a host's jobs, without those of the site."""
    return and_(JobRow.holder.startswith(f"{host}/", autoescape=True), JobRow.program != BY_WEB)


def moment(at: dt.datetime) -> str:
    """Return a time with minutes, e.g. "2026-03-02 04:10"."""
    return f"{at:%Y-%m-%d %H:%M}"


def _view(session: Session, job: Job, now: dt.datetime) -> JobView:
    """Read the runs of a job, and estimate its end."""
    rows = session.scalars(select(RunRow).where(RunRow.job_id == job.id).order_by(RunRow.id)).all()
    good = select(AttemptRow.run_id, AttemptRow.params, func.count()).where(
        AttemptRow.run_id.in_([run.id for run in rows]), AttemptRow.outcome == OK
    )
    counts = Counter[int]()
    for run_id, params, count in session.execute(good.group_by(AttemptRow.run_id, AttemptRow.params)) if rows else ():
        counts[run_id] += count * _is_whole(params)
    runs = tuple(
        JobRun(run.id, run.kind, run.status, run.started_at, counts[run.id], sum(_plan_repeats(run.plan).values()))
        for run in rows
    )
    expected = _expected_end(session, job, runs, now)
    if job.ended or seems_dead(job, now, process.has_died):
        runs = tuple(evolve(run, status=KILLED) if run.status == "running" else run for run in runs)
    return JobView(job, runs, expected)


def _plan_repeats(plan: Mapping[str, Any]) -> dict[tuple[str, str], int]:
    """Return how often each item of a plan is measured.

    Returns:
        (parameter, name), e.g. ("medium", "sd") -> number of cycles; empty: the plan has another form.
    """
    listed = ((parameter, plan[key]) for key, parameter in _LISTED.items() if isinstance(plan.get(key), list))
    own = plan["repeats"] if isinstance(plan.get("repeats"), dict) else {}
    repeats = {(p, str(name)): plan.get("cycles", own.get(str(name), 1)) for p, names in listed for name in names}
    return {item: times for item, times in repeats.items() if type(times) is int}


def _is_whole(params: Mapping[str, str]) -> bool:
    """Return True if an attempt covers a whole cycle, and not only a row of a section."""
    return _UNEVEN_PARAMETER not in params or len(params) == 1


def _expected_end(session: Session, job: Job, runs: Sequence[JobRun], now: dt.datetime) -> dt.datetime | None:
    """Estimate the end of a running job, by earlier jobs with an equal order, or else by the pace of its last run."""
    if job.state != "running" or job.started_at is None:
        return None
    durations_s = _durations_s(session, job) if job.program == BY_LAB_RUN and not job.done else []
    if durations_s:
        return job.started_at + dt.timedelta(seconds=median(durations_s))
    if not runs or runs[-1].status != "running" or job.done + 1 < len(job.suites):
        return None
    last = runs[-1]
    measured = 0 < last.good <= last.planned
    if not measured or last.kind == _UNEVEN:
        seconds = _by_earlier_runs(session, job, last)
        if seconds is not None or not measured:
            return None if seconds is None else last.started_at + dt.timedelta(seconds=seconds)
    return last.started_at + (now - last.started_at) * (last.planned / last.good)


def _by_earlier_runs(session: Session, job: Job, run: JobRun) -> float | None:
    """Estimate the duration of a run in s, by attempts of earlier runs on boards of this type; None: unknown."""
    of_this_type = (RunRow.board_type == job.board_type, RunRow.kind == run.kind, RunRow.status == "completed")
    ids = session.scalars(select(RunRow.id).where(*of_this_type).order_by(RunRow.id.desc()).limit(_HISTORY)).all()
    query = select(AttemptRow.params, func.sum(AttemptRow.duration_s), func.count())
    rows = session.execute(
        query.where(AttemptRow.run_id.in_(ids), AttemptRow.outcome == OK).group_by(AttemptRow.params)
    ).all()
    planned = _plan_repeats(session.get_one(RunRow, run.id).plan)
    if not rows or not planned:
        return None
    seconds: dict[tuple[str, str], list[float]] = {}
    for params, total, count in rows:
        if not _is_whole(params):
            continue
        for item in params.items():
            seconds.setdefault(item, []).append(total / count)
    durations = [sum(lengths) / len(lengths) * planned[item] for item, lengths in seconds.items() if item in planned]
    return sum(durations) * len(planned) / len(durations) if durations else None


def _durations_s(session: Session, job: Job) -> list[float]:
    """Return the durations of the last completed jobs with an equal order on boards of this type, in s."""
    same = (JobRow.board_type == job.board_type, JobRow.suites == ",".join(job.suites), JobRow.state == "completed")
    query = select(JobRow).where(*same, JobRow.program == job.program, JobRow.started_at.is_not(None))
    durations = []
    for row in session.scalars(query.order_by(JobRow.id.desc()).limit(_HISTORY * _HISTORY)):
        if (row.cycles, dict(row.options)) == (job.cycles, dict(job.options)) and row.started_at and row.finished_at:
            durations.append((row.finished_at - row.started_at).total_seconds())
    return durations[:_HISTORY]


# A killed run stays "running" in the store, since nothing has ended it. So each look checks whether its job lives.


def killed_runs(store: Store) -> frozenset[int]:
    """Return the ids of runs that are "running" in the store, but that no living job measures.

    A job measures a run if it began the run, or had the board when the run began or was resumed.

    Raises:
        BoardlabError: the store cannot be read.
    """

    def read(session: Session) -> frozenset[int]:
        runs = session.scalars(select(RunRow).where(GOES_ON)).all()
        if not runs:
            return frozenset()
        now, boards = database.now(session), {run.board for run in runs}
        active = session.scalars(select(JobRow).where(JobRow.state == "running", JobRow.board.in_(boards)))
        holders = {row.board: job_of(row) for row in active if not seems_dead(row, now, process.has_died)}
        return frozenset(run.id for run in runs if not _measures(holders.get(run.board), run))

    return store.read(read)


def _measures(job: Job | None, run: RunRow) -> bool:
    """Return True if the job that has the board measures a run; `job` None: no job has it."""
    if job is None:
        return False
    resumed = (run.provenance.get(KEY) or [{}])[-1].get("to")
    since = dt.datetime.fromisoformat(resumed) if resumed else run.started_at
    return job.id == run.job_id or (job.started_at is not None and job.started_at <= since)


def find_runs(store: Store, run_filter: RunFilter, limit: int | None = None) -> list[ListedRun]:
    """Return the matching runs in the filter's order; killed ones have the status `KILLED`.

    Raises:
        BoardlabError: the store cannot be read.
    """
    killed = killed_runs(store)
    rows = listing.list_runs(store, evolve(run_filter, killed=killed), limit)
    return [evolve(row, run=evolve(row.run, status=KILLED)) if row.run.id in killed else row for row in rows]


def whole_run(store: Store, run_id: int) -> Overview:
    """Return a run with its attempts and measurements; a killed one has the status `KILLED`.

    Raises:
        ConfigurationError: there is no such run.
    """
    overview = listing.overview(store, run_id)
    if overview.run.status != "running" or run_id not in killed_runs(store):
        return overview
    return Overview(evolve(overview.run, status=KILLED), overview.attempts, overview.measurements)


# A pause of a run, in which a board may cool down, is an object in the run's provenance. It has `from` and `to`, as
# ISO 8601 in UTC, and `why`. `from` is None if the run was killed and its end is unknown.


KEY: Final = "interruptions"  # key of the provenance
Pause = Mapping[str, Any]


def pause(store: Store, run_id: int, why: str) -> None:
    """Note that a run pauses from now on, with the reason.

    Raises:
        BoardlabError: the store cannot be written.
    """
    begun = {"from": utc_now().isoformat(), "to": None, "why": why}
    _change(store, run_id, lambda _row, pauses: [*pauses, begun])


def end_pause(store: Store, run_id: int) -> None:
    """Note that a run continues now; a pause that was not noted is derived from the run's state.

    Raises:
        BoardlabError: the store cannot be written.
    """
    now = utc_now().isoformat()

    def end(row: RunRow, pauses: list[Pause]) -> list[Pause]:
        if pauses and pauses[-1]["to"] is None:
            return [*pauses[:-1], {**pauses[-1], "to": now}]
        since = None if row.finished_at is None else row.finished_at.isoformat()
        why = "killed" if since is None else row.status
        return [*pauses, {"from": since, "to": now, "why": why}]

    _change(store, run_id, end)


def _change(store: Store, run_id: int, change: Callable[[RunRow, list[Pause]], list[Pause]]) -> None:
    """Replace the pauses of a run by what `change` makes of them."""

    def write(session: Session) -> None:
        row = session.get_one(RunRow, run_id)
        row.provenance = {**row.provenance, KEY: change(row, list(row.provenance.get(KEY, [])))}

    store.write(write)
