"""Whether anything in a store has changed since somebody looked."""

from __future__ import annotations

import datetime as dt
from typing import TypeAlias

from sqlalchemy import func, select

from lab.results.models import AttemptRow, RunRow
from lab.results.store import Store
from lab.results.verdictmodels import MuteRow, ReviewRow, VerdictRow

Revision: TypeAlias = tuple[int | None, int | None, int | None, int | None, int | None, dt.datetime | None]


def revision(store: Store) -> Revision:
    """What is another after every attempt, begun or ended run, verdict and decision; nothing in a store is changed otherwise."""
    newest = [
        select(func.max(row.id)).scalar_subquery() for row in (AttemptRow, RunRow, ReviewRow, VerdictRow, MuteRow)
    ]
    with store._read() as session:
        found = session.execute(select(*newest, select(func.max(RunRow.finished_at)).scalar_subquery())).one()
    return found[0], found[1], found[2], found[3], found[4], found[5]
