"""When a run rested although it was not over, and why: kept in its provenance, since a board cools meanwhile.

Each is an object: `from` and `to`, ISO 8601 in UTC, and `why`. `from` is None where the run was killed, and nobody noted when.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from sqlalchemy.orm import Session

from lab.host.clock import utc_now
from lab.results.models import RunRow
from lab.results.store import Store

KEY: Final = "interruptions"
Pause = Mapping[str, Any]


def pause(store: Store, run_id: int, why: str) -> None:
    """A run rests from now on, for that reason.

    Raises:
        BoardlabError: the store cannot be written.
    """
    begun = {"from": utc_now().isoformat(), "to": None, "why": why}
    _change(store, run_id, lambda _row, pauses: [*pauses, begun])


def end_pause(store: Store, run_id: int) -> None:
    """A run goes on now; where nobody noted that it rested, its state and its end say so.

    Raises:
        BoardlabError: the store cannot be written.
    """
    now = utc_now().isoformat()

    def ended(row: RunRow, pauses: list[Pause]) -> list[Pause]:
        if pauses and pauses[-1]["to"] is None:
            return [*pauses[:-1], {**pauses[-1], "to": now}]
        since = None if row.finished_at is None else row.finished_at.isoformat()
        why = "killed" if since is None else row.status
        return [*pauses, {"from": since, "to": now, "why": why}]

    _change(store, run_id, ended)


def _change(store: Store, run_id: int, change: Callable[[RunRow, list[Pause]], list[Pause]]) -> None:
    def write(session: Session) -> None:
        row = session.get_one(RunRow, run_id)
        row.provenance = {**row.provenance, KEY: change(row, list(row.provenance.get(KEY, [])))}

    store._write(write)
