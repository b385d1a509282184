"""What people do with boards: reservations, comments, and an audit that is only appended."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006_actions"
down_revision = "0005_provisions"

_SAID = "the audit is only appended"
_GUARD = f"""
CREATE OR REPLACE FUNCTION boardlab_only_appended() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION '{_SAID}'; END $$
"""


def upgrade() -> None:
    """Create the tables; nothing that is there is touched."""
    stands = sa.text("ended_at IS NULL")
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
        sqlite_where=stands,
        postgresql_where=stands,
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
    if op.get_bind().dialect.name == "postgresql":
        op.execute(_GUARD)
        op.execute(
            "CREATE TRIGGER audit_only_appended BEFORE UPDATE OR DELETE OR TRUNCATE ON audit "
            "FOR EACH STATEMENT EXECUTE FUNCTION boardlab_only_appended()"
        )
        return
    for what in ("UPDATE", "DELETE"):
        op.execute(
            f"CREATE TRIGGER audit_no_{what.lower()} BEFORE {what} ON audit BEGIN SELECT RAISE(ABORT, '{_SAID}'); END"
        )
