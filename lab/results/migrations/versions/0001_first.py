"""The first schema: runs, attempts, measurements, samples, moments, artifacts."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create all tables."""
    op.create_table(
        "runs",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("board_type", sa.Text(), nullable=False),
        sa.Column("board", sa.Text(), nullable=False),
        sa.Column("release", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("plan", sa.JSON(), nullable=False),
        sa.Column("provenance", sa.JSON(), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_runs"),
    )
    op.create_table(
        "definitions",
        sa.Column("metric", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("unit", sa.Text(), nullable=False),
        sa.Column("better", sa.Text(), nullable=False),
        sa.Column("definition", sa.Text(), nullable=False),
        sa.Column("resolution", sa.Double(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("metric", "version", name="pk_definitions"),
    )
    op.create_table(
        "artifacts",
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("sha256", name="pk_artifacts"),
    )
    op.create_table(
        "measurements",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("metric", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("params", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_measurements"),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_measurements_run_id"),
        sa.ForeignKeyConstraint(
            ["metric", "version"], ["definitions.metric", "definitions.version"], name="fk_measurements_metric_version"
        ),
        sa.UniqueConstraint(
            "run_id", "metric", "version", "params", name="uq_measurements_run_id_metric_version_params"
        ),
    )
    op.create_table(
        "attempts",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("cycle", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("params", sa.Text(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("fault", sa.Text(), nullable=True),
        sa.Column("transient", sa.Boolean(), nullable=True),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("duration_s", sa.Double(), nullable=False),
        sa.Column("details", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_attempts"),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_attempts_run_id"),
        sa.UniqueConstraint("run_id", "params", "cycle", "number", name="uq_attempts_run_id_params_cycle_number"),
    )
    op.create_index(
        "ix_attempts_good",
        "attempts",
        ["run_id", "params", "cycle"],
        unique=True,
        sqlite_where=sa.text("outcome = 'ok'"),
        postgresql_where=sa.text("outcome = 'ok'"),
    )
    op.create_table(
        "samples",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("measurement_id", sa.Integer(), nullable=False),
        sa.Column("attempt_id", sa.Integer(), nullable=False),
        sa.Column("value", sa.Double(), nullable=False),
        sa.Column("uncertainty", sa.Double(), nullable=False),
        sa.Column("flags", sa.Text(), nullable=False),
        sa.Column("log_start", sa.BigInteger(), nullable=True),
        sa.Column("log_end", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_samples"),
        sa.ForeignKeyConstraint(["measurement_id"], ["measurements.id"], name="fk_samples_measurement_id"),
        sa.ForeignKeyConstraint(["attempt_id"], ["attempts.id"], name="fk_samples_attempt_id"),
    )
    op.create_index("ix_samples_measurement_id", "samples", ["measurement_id"])
    op.create_index("ix_samples_attempt_id", "samples", ["attempt_id"])
    op.create_table(
        "moments",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("attempt_id", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("t_ns", sa.BigInteger(), nullable=False),
        sa.Column("uncertainty_ns", sa.BigInteger(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_moments"),
        sa.ForeignKeyConstraint(["attempt_id"], ["attempts.id"], name="fk_moments_attempt_id"),
    )
    op.create_index("ix_moments_attempt_id", "moments", ["attempt_id"])
    op.create_table(
        "attempt_artifacts",
        sa.Column("attempt_id", sa.Integer(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("attempt_id", "kind", name="pk_attempt_artifacts"),
        sa.ForeignKeyConstraint(["attempt_id"], ["attempts.id"], name="fk_attempt_artifacts_attempt_id"),
        sa.ForeignKeyConstraint(["sha256"], ["artifacts.sha256"], name="fk_attempt_artifacts_sha256"),
    )
    op.create_index("ix_attempt_artifacts_sha256", "attempt_artifacts", ["sha256"])
