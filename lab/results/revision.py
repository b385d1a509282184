"""Revisions of a store: small values that change whenever a page or a judgement may change."""

from __future__ import annotations

import datetime as dt
from typing import Final, TypeAlias

from attrs import frozen
from sqlalchemy import and_, func, literal_column, select
from sqlalchemy.orm import Session, aliased

from lab.results.models import AttemptRow, MuteRow, ReviewRow, RunRow, VerdictRow
from lab.results.store import Store

# The status is a literal in the SQL text: with a bound parameter neither database uses the partial index of running
# runs.
GOES_ON: Final = RunRow.status == literal_column("'running'")
Revision: TypeAlias = tuple[int | None, int | None, int | None, int | None, int | None, dt.datetime | None]


@frozen
class RunRevision:
    """A value that changes whenever a run's page would.

    It covers the run's attempts and end, all decisions, and the runs that it is compared with.

    Attributes:
        status: status of the run; None: there is no such run.
        attempt: id of its last attempt.
        review: id of the last decision on any run.
        completed: number of completed runs of its series, and the end of the last one.
        running: ids of earlier runs that are in progress; their numbers count once they end.
        good_attempt: id of the last good attempt among those runs that are of the same board type: it shows their
            build.
        ended_at: last end of an earlier run. A run that was resumed and ended between two looks is not in `running`.
    """

    status: str | None
    attempt: int | None
    review: int | None
    completed: tuple[int, dt.datetime | None]
    running: tuple[int, ...]
    good_attempt: int | None
    ended_at: dt.datetime | None


def run_revision(store: Store, run_id: int) -> RunRevision:
    """Return the revision of a run's page with its comparisons."""
    this_run = aliased(RunRow)
    same_series = (
        RunRow.board == this_run.board,
        RunRow.board_type == this_run.board_type,
        RunRow.kind == this_run.kind,
    )
    ended = select(func.count(), func.max(RunRow.finished_at)).join(this_run, and_(*same_series))
    ended = ended.where(this_run.id == run_id, RunRow.status == "completed")
    own_type = select(this_run.board_type).where(this_run.id == run_id).scalar_subquery()
    # `id + 0` keeps the databases from using the index of ids, by which they would read all earlier runs. So they use
    # the indices of running runs and of ends.
    running = select(RunRow.id, RunRow.board_type == own_type).where(GOES_ON, RunRow.id + 0 < run_id)
    before = select(RunRow.finished_at).where(RunRow.id + 0 < run_id, RunRow.finished_at.is_not(None))

    def read(session: Session) -> RunRevision:
        count, at = session.execute(ended).one()
        is_same_type = {row[0]: row[1] for row in session.execute(running)}
        same_type = [running_id for running_id, is_same in is_same_type.items() if is_same]
        good = select(func.max(AttemptRow.id)).where(AttemptRow.run_id.in_(same_type), AttemptRow.outcome == "ok")
        return RunRevision(
            session.scalar(select(RunRow.status).where(RunRow.id == run_id)),
            session.scalar(select(func.max(AttemptRow.id)).where(AttemptRow.run_id == run_id)),
            session.scalar(select(func.max(ReviewRow.id))),
            (count, at),
            tuple(sorted(is_same_type)),
            session.scalar(good) if same_type else None,
            session.scalar(before.order_by(RunRow.finished_at.desc()).limit(1)),
        )

    return store.read(read)


@frozen
class RunsRevision:
    """A value that changes whenever the judge's verdicts on completed runs may change.

    Attributes:
        runs: number of all runs.
        newest: id of the last one.
        running: ids of the runs in progress.
        finished_at: last end of a run.
        review: id of the last decision.
    """

    runs: int
    newest: int | None
    running: frozenset[int]
    finished_at: dt.datetime | None
    review: int | None


def runs_revision(store: Store) -> RunsRevision:
    """Return the revision of all comparisons of completed runs."""
    return store.read(read_runs_revision)


def read_runs_revision(session: Session) -> RunsRevision:
    """Read the revision of all comparisons of completed runs in a session."""
    last = (func.max(RunRow.id), func.max(RunRow.finished_at), func.max(ReviewRow.id))
    queries = (select(func.count()).select_from(RunRow), *(select(column) for column in last))
    runs, newest, finished_at, review = session.execute(select(*(query.scalar_subquery() for query in queries))).one()
    running = frozenset(session.scalars(select(RunRow.id).where(GOES_ON)))
    return RunsRevision(runs, newest, running, finished_at, review)


def last_attempt(session: Session) -> int | None:
    """Return the id of the last recorded attempt; None: there is none."""
    return session.scalar(select(func.max(AttemptRow.id)))


def revision(store: Store) -> Revision:
    """Return a value that changes with each attempt, run, end of a run, verdict, decision and mute."""
    newest = [
        select(func.max(row.id)).scalar_subquery() for row in (AttemptRow, RunRow, ReviewRow, VerdictRow, MuteRow)
    ]
    (newest_ids,) = store.rows(select(*newest, select(func.max(RunRow.finished_at)).scalar_subquery()))
    return newest_ids[0], newest_ids[1], newest_ids[2], newest_ids[3], newest_ids[4], newest_ids[5]
