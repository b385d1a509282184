"""SQLite's REPLACE deletes a row without the triggers of DELETE; an entry of the audit is not replaced either."""

from __future__ import annotations

from alembic import op

revision = "0008_audit_replace"
down_revision = "0007_indices"


def upgrade() -> None:
    """Create the trigger; no row is touched. PostgreSQL has no such statement: its ON CONFLICT is an UPDATE."""
    if op.get_bind().dialect.name == "sqlite":
        op.execute(
            "CREATE TRIGGER audit_no_replace BEFORE INSERT ON audit WHEN EXISTS (SELECT 1 FROM audit WHERE id = NEW.id) "
            "BEGIN SELECT RAISE(ABORT, 'the audit is only appended'); END"
        )
