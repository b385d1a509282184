"""What was written to the boot partition of an eMMC, and how wide its bus was before."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013_boot_areas"
down_revision = "0012_boot_partitions"


def upgrade() -> None:
    """Of what was put on before, nobody noted it."""
    op.add_column("provisions", sa.Column("spare", sa.JSON(), nullable=False, server_default="{}"))
