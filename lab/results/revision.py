"""Whether anything in a store has changed since somebody looked."""

from __future__ import annotations

import datetime as dt
from typing import TypeAlias

from attrs import frozen
from sqlalchemy import and_, func, select
from sqlalchemy.orm import aliased

from lab.results.models import AttemptRow, RunRow
from lab.results.store import Store
from lab.results.verdictmodels import MuteRow, ReviewRow, VerdictRow

Revision: TypeAlias = tuple[int | None, int | None, int | None, int | None, int | None, dt.datetime | None]


@frozen
class RunRevision:
    """What is another when the page of a run would be: its attempts and end, decisions, and the runs that it is compared with.

    Attributes:
        begun: earlier runs that are not over: once they are, their labels and numbers count.
    """

    status: str | None
    attempt: int | None
    review: int | None
    at_place: tuple[int, dt.datetime | None]
    begun: tuple[int, ...]


def run_revision(store: Store, run_id: int) -> RunRevision:
    """The state of all that the page of a run shows, compared with the runs before it."""
    its = aliased(RunRow)
    place = (RunRow.board == its.board, RunRow.board_type == its.board_type, RunRow.kind == its.kind)
    ended = select(func.count(), func.max(RunRow.finished_at)).join(its, and_(*place))
    ended = ended.where(its.id == run_id, RunRow.status == "completed")
    begun = select(RunRow.id).where(RunRow.status == "running", RunRow.id < run_id).order_by(RunRow.id)
    with store._read() as session:
        count, at = session.execute(ended).one()
        return RunRevision(
            session.scalar(select(RunRow.status).where(RunRow.id == run_id)),
            session.scalar(select(func.max(AttemptRow.id)).where(AttemptRow.run_id == run_id)),
            session.scalar(select(func.max(ReviewRow.id))),
            (count, at),
            tuple(session.scalars(begun)),
        )


def revision(store: Store) -> Revision:
    """What is another after every attempt, begun or ended run, verdict and decision; nothing in a store is changed otherwise."""
    newest = [
        select(func.max(row.id)).scalar_subquery() for row in (AttemptRow, RunRow, ReviewRow, VerdictRow, MuteRow)
    ]
    with store._read() as session:
        found = session.execute(select(*newest, select(func.max(RunRow.finished_at)).scalar_subquery())).one()
    return found[0], found[1], found[2], found[3], found[4], found[5]
