"""Boards' checks: what was found, where, and when."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010_health"
down_revision = "0009_yielding"


def upgrade() -> None:
    """Create the table; nothing that is there is touched."""
    op.create_table(
        "health_checks",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("board", sa.Text(), nullable=False),
        sa.Column("board_type", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("env", sa.Text(), nullable=False),
        sa.Column("person", sa.Text(), nullable=False),
        sa.Column("job_id", sa.Integer(), nullable=True),
        sa.Column("found", sa.JSON(), nullable=False),
        sa.Column("duration_s", sa.Double(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_health_checks"),
    )
    op.create_index("ix_health_checks_board", "health_checks", ["board", "host", "id"])
