"""Jobs know which request of a queue they are of."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011_requests"
down_revision = "0010_health"


def upgrade() -> None:
    """Jobs of before are of none."""
    op.add_column("jobs", sa.Column("request", sa.Text(), nullable=False, server_default=""))
