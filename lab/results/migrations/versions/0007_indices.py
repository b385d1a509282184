"""Indices by which a site over a large store finds runs: by board, release, end, metric, and attempts that failed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007_indices"
down_revision = "0006_actions"


def upgrade() -> None:
    """Create them; no row is touched."""
    op.create_index("ix_runs_place", "runs", ["board", "board_type", "kind", "status", "finished_at", "id"])
    op.create_index("ix_runs_release", "runs", ["release", "status", "kind", "id"])
    op.create_index("ix_runs_finished_at", "runs", ["finished_at"])
    running = sa.text("status = 'running'")
    op.create_index("ix_runs_running", "runs", ["board"], sqlite_where=running, postgresql_where=running)
    failed = sa.text("outcome != 'ok'")
    op.create_index("ix_attempts_failed", "attempts", ["started_at"], sqlite_where=failed, postgresql_where=failed)
    op.create_index("ix_measurements_metric", "measurements", ["metric", "run_id"])
