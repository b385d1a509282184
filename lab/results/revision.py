"""Revisions of a store: has anything changed since the last look?"""

from __future__ import annotations

import datetime as dt
from typing import Final, TypeAlias

from attrs import frozen
from sqlalchemy import and_, func, literal_column, select
from sqlalchemy.orm import Session, aliased

from lab.results.models import AttemptRow, MuteRow, ReviewRow, RunRow, VerdictRow
from lab.results.store import Store

# A literal in the SQL text. With a bound parameter neither database uses the partial index of running runs.
GOES_ON: Final = RunRow.status == literal_column("'running'")
Revision: TypeAlias = tuple[int | None, int | None, int | None, int | None, int | None, dt.datetime | None]


@frozen
class RunRevision:
    """A value that changes whenever a run's page would.

    It covers the run's attempts and end, all decisions, and the runs it is compared with.

    Attributes:
        begun: earlier runs that still go on; their labels and numbers count once they end.
        measured: the last good attempt among those of the same board type, which tells their build.
        ended_at: the last end of an earlier run: a run resumed and ended between two looks is not in `begun`.
    """

    status: str | None
    attempt: int | None
    review: int | None
    at_place: tuple[int, dt.datetime | None]
    begun: tuple[int, ...]
    measured: int | None
    ended_at: dt.datetime | None


def run_revision(store: Store, run_id: int) -> RunRevision:
    """The revision of a run's page with its comparisons."""
    this_run = aliased(RunRow)
    same_series = (
        RunRow.board == this_run.board,
        RunRow.board_type == this_run.board_type,
        RunRow.kind == this_run.kind,
    )
    ended = select(func.count(), func.max(RunRow.finished_at)).join(this_run, and_(*same_series))
    ended = ended.where(this_run.id == run_id, RunRow.status == "completed")
    own_type = select(this_run.board_type).where(this_run.id == run_id).scalar_subquery()
    begun = select(RunRow.id, RunRow.board_type == own_type).where(GOES_ON, RunRow.id + 0 < run_id)
    # `id + 0` keeps the databases from the index of ids, by which they would read all earlier runs. They use the
    # indices of running runs and of ends instead.
    before = select(RunRow.finished_at).where(RunRow.id + 0 < run_id, RunRow.finished_at.is_not(None))

    def read(session: Session) -> RunRevision:
        count, at = session.execute(ended).one()
        going_on = {row[0]: row[1] for row in session.execute(begun)}
        alike = [number for number, same_type in going_on.items() if same_type]
        good = select(func.max(AttemptRow.id)).where(AttemptRow.run_id.in_(alike), AttemptRow.outcome == "ok")
        return RunRevision(
            session.scalar(select(RunRow.status).where(RunRow.id == run_id)),
            session.scalar(select(func.max(AttemptRow.id)).where(AttemptRow.run_id == run_id)),
            session.scalar(select(func.max(ReviewRow.id))),
            (count, at),
            tuple(sorted(going_on)),
            session.scalar(good) if alike else None,
            session.scalar(before.order_by(RunRow.finished_at.desc()).limit(1)),
        )

    return store.read(read)


@frozen
class RunsRevision:
    """A value that changes whenever the judge's verdicts on completed runs may.

    Attributes:
        runs: their number.
        newest: the last one's id.
        running: those that go on.
        finished_at: the last end of one.
        review: number of the last decision.
    """

    runs: int
    newest: int | None
    running: frozenset[int]
    finished_at: dt.datetime | None
    review: int | None


def runs_revision(store: Store) -> RunsRevision:
    """The revision of all comparisons of completed runs."""
    return store.read(read_runs_revision)


def read_runs_revision(session: Session) -> RunsRevision:
    """As `runs_revision`, in a session."""
    last = (func.max(RunRow.id), func.max(RunRow.finished_at), func.max(ReviewRow.id))
    queries = (select(func.count()).select_from(RunRow), *(select(column) for column in last))
    runs, newest, finished_at, review = session.execute(select(*(query.scalar_subquery() for query in queries))).one()
    running = frozenset(session.scalars(select(RunRow.id).where(GOES_ON)))
    return RunsRevision(runs, newest, running, finished_at, review)


def last_attempt(session: Session) -> int | None:
    """The last recorded attempt's id."""
    return session.scalar(select(func.max(AttemptRow.id)))


def revision(store: Store) -> Revision:
    """A value that changes with every change in the store.

    After every attempt, begun or ended run, verdict and decision.
    """
    newest = [
        select(func.max(row.id)).scalar_subquery() for row in (AttemptRow, RunRow, ReviewRow, VerdictRow, MuteRow)
    ]
    (newest_ids,) = store.rows(select(*newest, select(func.max(RunRow.finished_at)).scalar_subquery()))
    return newest_ids[0], newest_ids[1], newest_ids[2], newest_ids[3], newest_ids[4], newest_ids[5]
