"""Artifacts may lie in a pack, a zip file of a run's."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004_packs"
down_revision = "0003_reservations"


def upgrade() -> None:
    """Add the column; no artifact that is there lies in a pack."""
    op.add_column("artifacts", sa.Column("pack", sa.Text(), nullable=True))
    op.create_index("ix_artifacts_pack", "artifacts", ["pack"])
