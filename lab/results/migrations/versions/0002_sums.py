"""Sums of completed runs, empty in those that are there."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002_sums"
down_revision = "0001_first"


def upgrade() -> None:
    """Add the columns; the ends of later runs fill them."""
    op.add_column("runs", sa.Column("sums", sa.JSON(), nullable=True))
    op.add_column("measurements", sa.Column("sums", sa.Text(), nullable=True))
    op.add_column("measurements", sa.Column("summary", sa.JSON(), nullable=True))
    where = sa.text("sums IS NULL AND status = 'completed'")
    op.create_index("ix_runs_without_sums", "runs", ["id"], sqlite_where=where, postgresql_where=where)
