"""What a release says of itself once it has booted, beside each write of it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014_release_identity"
down_revision = "0013_boot_areas"


def upgrade() -> None:
    """Earlier writes have no identity: those that have not booted are put on again."""
    op.add_column("provisions", sa.Column("identity", sa.JSON(), nullable=False, server_default="{}"))
