"""The tables of what people do with boards, as SQLAlchemy models: reservations, comments, and the audit."""

from __future__ import annotations

import datetime as dt

from sqlalchemy import Index, text
from sqlalchemy.orm import Mapped, mapped_column

from lab.results.models import Base

_STANDS = text("ended_at IS NULL")


class ReservationRow(Base):
    """A board is somebody's until an instant, or in maintenance until it is ended (`until` is NULL)."""

    __tablename__ = "reservations"
    __table_args__ = (
        Index(
            "ix_reservations_standing", "board", "kind", unique=True, sqlite_where=_STANDS, postgresql_where=_STANDS
        ),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    board: Mapped[str]
    kind: Mapped[str]
    person: Mapped[str]
    reason: Mapped[str]
    at: Mapped[dt.datetime]
    until: Mapped[dt.datetime | None]
    ended_at: Mapped[dt.datetime | None]
    ended_by: Mapped[str]


class CommentRow(Base):
    """What a person wrote about a board."""

    __tablename__ = "comments"

    id: Mapped[int] = mapped_column(primary_key=True)
    board: Mapped[str] = mapped_column(index=True)
    person: Mapped[str]
    text: Mapped[str]
    at: Mapped[dt.datetime]


class AuditRow(Base):
    """Who did what, and what became of it. The database itself refuses to change or delete one."""

    __tablename__ = "audit"

    id: Mapped[int] = mapped_column(primary_key=True)
    at: Mapped[dt.datetime]
    person: Mapped[str]
    address: Mapped[str]
    action: Mapped[str]
    board: Mapped[str]
    about: Mapped[str]
    outcome: Mapped[str]
