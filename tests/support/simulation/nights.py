"""Judged boards: nights before a schedule, and the numbers of its boots, of which those of one release are slower."""

from __future__ import annotations

import datetime as dt
from typing import Any, Final

from sqlalchemy import update
from sqlalchemy.orm import Session

from lab.results import AttemptRecord, SampleRecord, Store
from lab.results.models import RunRow

START: Final = dt.datetime(2026, 3, 2, 2, 0, tzinfo=dt.UTC)  # of a schedule, by a clock that is right
BOARDS: Final = ("b1", "b2")
NIGHTS: Final = 8  # as many as the judge needs
BOOTS: Final = 3
SLOWER: Final = 1.3
METRIC: Final = "boot.time"


def boot_time(number: int, *, slower: bool = False) -> float:
    """Seconds of a boot; no other number has the same."""
    return (10.0 + number * 7 % 11 / 500) * (SLOWER if slower else 1.0) + number / 1e6


def provenance(label: str) -> dict[str, Any]:
    """Of a run that is judged: each release is another image."""
    return {"virtual": False, "host": "lab", "images_sha256": {"kernel": label}}


def quiet(store: Store, kind: str, board_type: str, board: str, medium: str, before: dt.datetime) -> None:
    """Runs of nights on which nothing changed, the last one a night before."""
    for night in range(NIGHTS):
        at = before - dt.timedelta(days=NIGHTS - night)
        plan = {"cycles": BOOTS, "media": [medium]}
        run = store.begin_run(kind, board_type, board, "r0", plan=plan, provenance=provenance("r0")).id
        for cycle in range(1, BOOTS + 1):
            value = boot_time(-(night * BOOTS + cycle) - 100 * ord(board[-1]) - 50 * (kind != "boot"))
            samples = (SampleRecord(METRIC, {"medium": medium}, value, 0.001),)
            record = AttemptRecord(cycle, 1, {"medium": medium}, "ok", None, None, "", at, 10.0, samples)
            store.record_attempt(run, record)
        store.finish_run(run, "completed")
        with Session(store._engine) as session, session.begin():
            session.execute(update(RunRow).where(RunRow.id == run).values(started_at=at, finished_at=at))
