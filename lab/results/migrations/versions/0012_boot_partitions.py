"""Which boot partition of an eMMC was written and switched to, and which one holds what booted before."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012_boot_partitions"
down_revision = "0011_requests"


def upgrade() -> None:
    """Of what was put on before, nobody noted it."""
    for name in ("boots", "kept"):
        op.add_column("provisions", sa.Column(name, sa.Text(), nullable=False, server_default=""))
