"""The tables of the results, the audit of which only grows."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001_first"
down_revision = None

_REFUSAL = "the audit is only appended"
_REFUSE = f"""
CREATE OR REPLACE FUNCTION boardlab_only_appended() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION '{_REFUSAL}'; END $$
"""


def upgrade() -> None:
    """Create all tables, and the triggers that guard the audit."""
    _create_tables()
    if op.get_bind().dialect.name == "postgresql":
        op.execute(_REFUSE)
        op.execute(
            "CREATE TRIGGER audit_only_appended BEFORE UPDATE OR DELETE OR TRUNCATE ON audit "
            "FOR EACH STATEMENT EXECUTE FUNCTION boardlab_only_appended()"
        )
        return
    events = {
        "no_update": "UPDATE",
        "no_delete": "DELETE",
        "no_replace": "INSERT",  # SQLite's REPLACE deletes a row without the triggers of DELETE
    }
    for name, event in events.items():
        condition = " WHEN EXISTS (SELECT 1 FROM audit WHERE id = NEW.id)" if event == "INSERT" else ""
        op.execute(
            f"CREATE TRIGGER audit_{name} BEFORE {event} ON audit{condition} BEGIN SELECT RAISE(ABORT, '{_REFUSAL}'); END"
        )


def _create_tables() -> None:
    op.create_table(
        "artifacts",
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("sha256", name="pk_artifacts"),
    )
    op.create_table(
        "audit",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("person", sa.Text(), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("board", sa.Text(), nullable=False),
        sa.Column("about", sa.Text(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_audit"),
    )
    op.create_table(
        "comments",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("board", sa.Text(), nullable=False),
        sa.Column("person", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_comments"),
    )
    op.create_index("ix_comments_board", "comments", ["board"])
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
    op.create_table(
        "jobs",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("board_type", sa.Text(), nullable=False),
        sa.Column("board", sa.Text(), nullable=False),
        sa.Column("suites", sa.Text(), nullable=False),
        sa.Column("done", sa.Integer(), nullable=False),
        sa.Column("env", sa.Text(), nullable=False),
        sa.Column("release", sa.Text(), nullable=False),
        sa.Column("cycles", sa.Integer(), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("after_run", sa.Integer(), nullable=False),
        sa.Column("queued_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("heartbeat_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("options", sa.JSON(), nullable=False),
        sa.Column("person", sa.Text(), nullable=False),
        sa.Column("program", sa.Text(), nullable=False),
        sa.Column("cancelled_by", sa.Text(), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("yields_to", sa.Text(), nullable=False),
        sa.Column("request", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_jobs"),
    )
    op.create_index(
        "ix_jobs_board_running",
        "jobs",
        ["board"],
        unique=True,
        sqlite_where=sa.text("state = 'running'"),
        postgresql_where=sa.text("state = 'running'"),
    )
    op.create_index("ix_jobs_state", "jobs", ["state"])
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
    op.create_table(
        "provisions",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("board_type", sa.Text(), nullable=False),
        sa.Column("board", sa.Text(), nullable=False),
        sa.Column("medium", sa.Text(), nullable=False),
        sa.Column("release", sa.Text(), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column("way", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("method", sa.Text(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("software", sa.JSON(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("person", sa.Text(), nullable=False),
        sa.Column("job_id", sa.Integer(), nullable=True),
        sa.Column("boots", sa.Text(), server_default="", nullable=False),
        sa.Column("kept", sa.Text(), server_default="", nullable=False),
        sa.Column("spare", sa.JSON(), server_default="{}", nullable=False),
        sa.Column("identity", sa.JSON(), server_default="{}", nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_provisions"),
    )
    op.create_index("ix_provisions_board_medium", "provisions", ["board", "medium"])
    op.create_table(
        "reservations",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("board", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("person", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("ended_by", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_reservations"),
    )
    op.create_index(
        "ix_reservations_standing",
        "reservations",
        ["board", "kind"],
        unique=True,
        sqlite_where=sa.text("ended_at IS NULL"),
        postgresql_where=sa.text("ended_at IS NULL"),
    )
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
        sa.Column("job_id", sa.Integer(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_runs"),
    )
    op.create_index("ix_runs_finished_at", "runs", ["finished_at"])
    op.create_index("ix_runs_job_id", "runs", ["job_id"])
    op.create_index("ix_runs_place", "runs", ["board", "board_type", "kind", "status", "finished_at", "id"])
    op.create_index("ix_runs_release", "runs", ["release", "status", "kind", "id"])
    op.create_index(
        "ix_runs_running",
        "runs",
        ["board"],
        sqlite_where=sa.text("status = 'running'"),
        postgresql_where=sa.text("status = 'running'"),
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
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_attempts_run_id"),
        sa.PrimaryKeyConstraint("id", name="pk_attempts"),
        sa.UniqueConstraint("run_id", "params", "cycle", "number", name="uq_attempts_run_id_params_cycle_number"),
    )
    op.create_index(
        "ix_attempts_failed",
        "attempts",
        ["started_at"],
        sqlite_where=sa.text("outcome != 'ok'"),
        postgresql_where=sa.text("outcome != 'ok'"),
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
        "measurements",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("metric", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("params", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["metric", "version"], ["definitions.metric", "definitions.version"], name="fk_measurements_metric_version"
        ),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_measurements_run_id"),
        sa.PrimaryKeyConstraint("id", name="pk_measurements"),
        sa.UniqueConstraint(
            "run_id", "metric", "version", "params", name="uq_measurements_run_id_metric_version_params"
        ),
    )
    op.create_index("ix_measurements_metric", "measurements", ["metric", "run_id"])
    op.create_table(
        "reviews",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("decision", sa.Text(), nullable=False),
        sa.Column("by", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_reviews_run_id"),
        sa.PrimaryKeyConstraint("id", name="pk_reviews"),
    )
    op.create_index("ix_reviews_run_id", "reviews", ["run_id"])
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
        sa.ForeignKeyConstraint(
            ["metric", "version"], ["definitions.metric", "definitions.version"], name="fk_verdicts_metric_version"
        ),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_verdicts_run_id"),
        sa.ForeignKeyConstraint(["since_run"], ["runs.id"], name="fk_verdicts_since_run"),
        sa.PrimaryKeyConstraint("id", name="pk_verdicts"),
        sa.UniqueConstraint("run_id", "metric", "version", "params", name="uq_verdicts_run_id_metric_version_params"),
    )
    op.create_index("ix_verdicts_outcome", "verdicts", ["outcome"])
    op.create_table(
        "attempt_artifacts",
        sa.Column("attempt_id", sa.Integer(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["attempt_id"], ["attempts.id"], name="fk_attempt_artifacts_attempt_id"),
        sa.ForeignKeyConstraint(["sha256"], ["artifacts.sha256"], name="fk_attempt_artifacts_sha256"),
        sa.PrimaryKeyConstraint("attempt_id", "kind", name="pk_attempt_artifacts"),
    )
    op.create_index("ix_attempt_artifacts_sha256", "attempt_artifacts", ["sha256"])
    op.create_table(
        "moments",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("attempt_id", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("t_ns", sa.BigInteger(), nullable=False),
        sa.Column("uncertainty_ns", sa.BigInteger(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["attempt_id"], ["attempts.id"], name="fk_moments_attempt_id"),
        sa.PrimaryKeyConstraint("id", name="pk_moments"),
    )
    op.create_index("ix_moments_attempt_id", "moments", ["attempt_id"])
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
        sa.ForeignKeyConstraint(["attempt_id"], ["attempts.id"], name="fk_samples_attempt_id"),
        sa.ForeignKeyConstraint(["measurement_id"], ["measurements.id"], name="fk_samples_measurement_id"),
        sa.PrimaryKeyConstraint("id", name="pk_samples"),
    )
    op.create_index("ix_samples_attempt_id", "samples", ["attempt_id"])
    op.create_index("ix_samples_measurement_id", "samples", ["measurement_id"])
