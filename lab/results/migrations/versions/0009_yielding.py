"""Jobs have a priority, and one that a timer began gives way to who wants its board."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009_yielding"
down_revision = "0008_audit_replace"


def upgrade() -> None:
    """Jobs of before are persons': none of them gives way by itself."""
    op.add_column("jobs", sa.Column("priority", sa.Integer(), nullable=False, server_default="10"))
    op.add_column("jobs", sa.Column("yields_to", sa.Text(), nullable=False, server_default=""))
