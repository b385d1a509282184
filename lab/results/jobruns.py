"""What jobs have had of runs."""

from __future__ import annotations

import datetime as dt

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from lab.results.models import JobRow, RunRow


def measured(session: Session, row: JobRow, lease_s: float) -> bool:
    """Whether a job has had a run; `lease_s`: one that gave no sign of life for so long has ended."""
    if row.started_at is None:
        return False
    ended_at = row.finished_at or row.heartbeat_at + dt.timedelta(seconds=lease_s)
    its = select(RunRow.id).where(
        RunRow.board == row.board,
        RunRow.id > row.after_run,
        RunRow.started_at >= row.started_at,
        RunRow.started_at <= ended_at,
    )
    return row.done > 0 or session.scalars(its.limit(1)).one_or_none() is not None


def last_run(session: Session, board: str) -> int:
    """The board's latest run; 0: it has none."""
    return session.scalar(select(func.max(RunRow.id)).where(RunRow.board == board)) or 0
