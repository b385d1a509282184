"""Reservations of a board may stand one after the other."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003_reservations"
down_revision = "0002_sums"


def upgrade() -> None:
    """Leave reservations out of the index; the other holds stay single."""
    op.drop_index("ix_reservations_standing", "reservations")
    where = sa.text("ended_at IS NULL AND kind <> 'reserved'")
    op.create_index(
        "ix_reservations_standing",
        "reservations",
        ["board", "kind"],
        unique=True,
        sqlite_where=where,
        postgresql_where=where,
    )
