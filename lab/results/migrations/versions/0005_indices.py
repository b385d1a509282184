"""Indices for the questions of loops, and PostgreSQL tells of changed jobs and reservations."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005_indices"
down_revision = "0004_packs"

_INDICES = (
    ("ix_runs_board", "runs", ["board", "id"]),
    ("ix_runs_kind", "runs", ["kind", "id"]),
    ("ix_jobs_board_state", "jobs", ["board", "state", "id"]),
    ("ix_jobs_board_started_at", "jobs", ["board", "started_at"]),
    ("ix_jobs_state", "jobs", ["state", "board_type", "suites", "id"]),
    ("ix_jobs_queued_at", "jobs", ["queued_at"]),
    ("ix_jobs_finished_at", "jobs", ["finished_at"]),
    ("ix_jobs_request", "jobs", ["request", "id"]),
    ("ix_health_checks_at", "health_checks", ["board", "at"]),
)
_TELL = """
CREATE FUNCTION boardlab_tell() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('boardlab_board', NEW.board);
    RETURN NULL;
END $$
"""
_EVENTS = {
    "jobs": "INSERT OR UPDATE OF state, cancelled_by, yields_to",
    "reservations": "INSERT OR UPDATE OF ended_at, until",
}


def upgrade() -> None:
    """Add the indices; the rows stay as they are."""
    op.drop_index("ix_jobs_state", "jobs")
    for name, table, columns in _INDICES:
        op.create_index(name, table, columns)
    is_open = sa.text("ended_at IS NULL")
    op.create_index("ix_reservations_open", "reservations", ["board"], sqlite_where=is_open, postgresql_where=is_open)
    if op.get_bind().dialect.name == "postgresql":
        op.execute(_TELL)
        for table, events in _EVENTS.items():
            op.execute(
                f"CREATE TRIGGER {table}_tell AFTER {events} ON {table} FOR EACH ROW EXECUTE FUNCTION boardlab_tell()"
            )
