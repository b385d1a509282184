"""Verdicts on the numbers of runs, what people decided on runs, and what they want to hear nothing of."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003_verdicts"
down_revision = "0002_jobs"


def upgrade() -> None:
    """Create the judge's tables; nothing that is there is touched."""
    op.create_table(
        "verdicts",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("metric", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("params", sa.Text(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("direction", sa.Integer(), nullable=False),
        sa.Column("since_run", sa.Integer(), nullable=True),
        sa.Column("n", sa.Integer(), nullable=False),
        sa.Column("effect", sa.Double(), nullable=True),
        sa.Column("low", sa.Double(), nullable=True),
        sa.Column("high", sa.Double(), nullable=True),
        sa.Column("mode", sa.Boolean(), nullable=False),
        sa.Column("reruns", sa.Integer(), nullable=False),
        sa.Column("differs", sa.JSON(), nullable=False),
        sa.Column("judged_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_verdicts"),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_verdicts_run_id"),
        sa.ForeignKeyConstraint(["since_run"], ["runs.id"], name="fk_verdicts_since_run"),
        sa.ForeignKeyConstraint(
            ["metric", "version"], ["definitions.metric", "definitions.version"], name="fk_verdicts_metric_version"
        ),
        sa.UniqueConstraint("run_id", "metric", "version", "params", name="uq_verdicts_run_id_metric_version_params"),
    )
    op.create_index("ix_verdicts_outcome", "verdicts", ["outcome"])
    op.create_table(
        "reviews",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("decision", sa.Text(), nullable=False),
        sa.Column("by", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_reviews"),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_reviews_run_id"),
    )
    op.create_index("ix_reviews_run_id", "reviews", ["run_id"])
    op.create_table(
        "mutes",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("metric", sa.Text(), nullable=False),
        sa.Column("board", sa.Text(), nullable=True),
        sa.Column("params", sa.Text(), nullable=False),
        sa.Column("until", sa.DateTime(timezone=True), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("by", sa.Text(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_mutes"),
    )
