"""The verdicts that stand: what moved, and nobody has decided on, and no later run has undone."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from typing import Any, Final

from attrs import frozen
from sqlalchemy import select
from sqlalchemy.orm import Session

from lab.results.models import RunRow, VerdictRow
from lab.results.verdictrecords import CALLED, Began, Verdict, is_undone
from lab.results.verdicts import newest_reviews, verdicts_of

LOOK_BACK: Final = dt.timedelta(days=60)  # who has not decided on a run by then, will not
MOST: Final = 500  # numbers; more than that is one cause, which the first of them show
_TOLD: Final = ("regression", "environment")


@frozen
class Standing:
    """The verdicts that stand.

    Attributes:
        heard: those that nobody has muted. muted: the others.
        began: the runs that they name, by their ids.
        left_out: how many there are beyond MOST, the oldest.
    """

    heard: tuple[Verdict, ...]
    muted: tuple[Verdict, ...]
    began: Mapping[int, Began]
    left_out: int


def standing(session: Session, now: dt.datetime, most: int = MOST) -> Standing:
    """The regressions and changes of the environment of the last LOOK_BACK that stand.

    One stands until its run is accepted or rejected, or a later run of its board and kind is accepted, or later runs
    take back at least half of the change. A run that was rejected undoes nothing.
    """
    ids = list(_standing(session, now - LOOK_BACK))
    verdicts = verdicts_of(session, ids[:most], now)
    wanted = {verdict.since_run for verdict in verdicts if verdict.since_run is not None}
    rows = session.execute(select(RunRow.id, RunRow.started_at, RunRow.release).where(RunRow.id.in_(wanted)))
    return Standing(
        tuple(verdict for verdict in verdicts if verdict.muted is None),
        tuple(verdict for verdict in verdicts if verdict.muted is not None),
        {row.id: Began(*row) for row in rows},
        max(0, len(ids) - most),
    )


def _standing(session: Session, since: dt.datetime) -> Iterator[int]:
    """Ids of the verdicts that stand, of the newest run first."""
    reviews = newest_reviews(session)
    accepted = _newest_accepted(session, [run for run, its in reviews.items() if its.decision == "accepted"])
    columns = (VerdictRow.id, VerdictRow.run_id, VerdictRow.metric, VerdictRow.version, VerdictRow.params)
    wanted = select(
        *columns,
        VerdictRow.outcome,
        VerdictRow.direction,
        VerdictRow.effect,
        RunRow.board_type,
        RunRow.board,
        RunRow.kind,
    )
    wanted = wanted.join(VerdictRow.run).where(VerdictRow.outcome.in_(CALLED), RunRow.started_at >= since)
    later: dict[tuple[Any, ...], float] = {}  # number -> by how much it moved since
    for row in session.execute(wanted.order_by(VerdictRow.run_id.desc(), VerdictRow.id)):
        place = (row.board_type, row.board, row.kind)
        decided = reviews.get(row.run_id)
        if decided is not None and decided.decision == "rejected":
            continue
        number = (*place, row.metric, row.version, tuple(sorted(row.params.items())))
        effect = row.direction if row.effect is None else row.effect
        undone = is_undone(effect, later.get(number, 0.0))
        later[number] = effect + later.get(number, 0.0)
        if row.outcome in _TOLD and not undone and decided is None and row.run_id > accepted.get(place, 0):
            yield row.id


def _newest_accepted(session: Session, run_ids: list[int]) -> dict[tuple[str, str, str], int]:
    """Board type, board and kind -> the newest run of it that was accepted."""
    found: dict[tuple[str, str, str], int] = {}
    wanted = select(RunRow.id, RunRow.board_type, RunRow.board, RunRow.kind).where(RunRow.id.in_(run_ids))
    for row in session.execute(wanted.order_by(RunRow.id)):
        found[row.board_type, row.board, row.kind] = row.id
    return found
