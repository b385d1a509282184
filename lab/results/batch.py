"""Runs that are whole when they come, such as the boards of a published guide: all of them in one transaction."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen
from sqlalchemy.orm import Session

from lab.results import engine, rows
from lab.results.models import RunRow
from lab.results.records import AttemptRecord, Json
from lab.results.store import Store


@frozen
class WholeRun:
    """A run with everything that belongs to it; the attributes are those of `Run`."""

    kind: str
    board_type: str
    board: str
    release: str
    plan: Json
    provenance: Json
    attempts: tuple[AttemptRecord, ...]


def record_runs(store: Store, runs: Sequence[WholeRun]) -> list[int]:
    """Commit completed runs, all or none; returns their ids.

    Raises:
        TestStableError: there is no such metric, or a plan cannot be written as JSON.
    """

    def write(session: Session) -> list[int]:
        ids, now = [], engine.now(session)
        for run in runs:
            row = RunRow(
                kind=run.kind,
                board_type=run.board_type,
                board=run.board,
                release=run.release,
                status="completed",
                plan=rows.json_of("plan", run.plan),
                provenance=rows.json_of("provenance", run.provenance),
                started_at=now,
                finished_at=now,
                job_id=None,
            )
            session.add(row)
            session.flush()
            for attempt in run.attempts:
                rows.insert_attempt(session, row.id, attempt)
            ids.append(row.id)
        return ids

    return store._write(write)
