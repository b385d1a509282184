"""The table of boards' checks, as an SQLAlchemy model."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Index
from sqlalchemy.orm import Mapped, mapped_column

from lab.results.columns import JsonObject
from lab.results.models import Base


class HealthCheckRow(Base):
    """A check of a board, once it ended; `found` has its parts, with what the console said during each."""

    __tablename__ = "health_checks"
    __table_args__ = (Index("ix_health_checks_board", "board", "host", "id"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    board: Mapped[str]
    board_type: Mapped[str]
    host: Mapped[str]
    env: Mapped[str]
    person: Mapped[str]
    job_id: Mapped[int | None]
    found: Mapped[Mapping[str, Sequence[Mapping[str, Any]]]] = mapped_column(JsonObject)
    duration_s: Mapped[float]
    at: Mapped[dt.datetime]
