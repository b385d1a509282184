"""The table of what was put on the boards' media, as an SQLAlchemy model."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Index
from sqlalchemy.orm import Mapped, mapped_column

from lab.results.columns import ConsoleText, JsonObject, LargeWhole
from lab.results.models import Base


class ProvisionRow(Base):
    """One try to put a release on one medium of one board; the latest of a medium says what is on it."""

    __tablename__ = "provisions"
    __table_args__ = (Index("ix_provisions_board_medium", "board", "medium"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    board_type: Mapped[str]
    board: Mapped[str]
    medium: Mapped[str]
    release: Mapped[str]
    content: Mapped[str]
    way: Mapped[str]
    state: Mapped[str]
    digest: Mapped[str]
    method: Mapped[str]
    bytes: Mapped[int] = mapped_column(LargeWhole)
    software: Mapped[Mapping[str, Any]] = mapped_column(JsonObject)
    message: Mapped[str] = mapped_column(ConsoleText)
    person: Mapped[str]
    job_id: Mapped[int | None]
    boots: Mapped[str] = mapped_column(server_default="")
    kept: Mapped[str] = mapped_column(server_default="")
    spare: Mapped[Mapping[str, Any]] = mapped_column(JsonObject, server_default="{}")
    identity: Mapped[Mapping[str, Any]] = mapped_column(JsonObject, server_default="{}")
    at: Mapped[dt.datetime]
