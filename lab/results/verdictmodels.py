"""The judge's tables, as SQLAlchemy models."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

from sqlalchemy import ForeignKey, ForeignKeyConstraint, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column, relationship

from lab.results.columns import JsonObject, Params
from lab.results.models import Base, DefinitionRow, RunRow


class VerdictRow(Base):
    """What the judge says of one number of one run; judging the run again replaces it."""

    __tablename__ = "verdicts"
    __table_args__ = (
        UniqueConstraint("run_id", "metric", "version", "params"),
        ForeignKeyConstraint(["metric", "version"], ["definitions.metric", "definitions.version"]),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    run_id: Mapped[int] = mapped_column(ForeignKey("runs.id"))
    metric: Mapped[str]
    version: Mapped[int]
    params: Mapped[Mapping[str, str]] = mapped_column(Params)
    outcome: Mapped[str] = mapped_column(index=True)
    direction: Mapped[int]
    since_run: Mapped[int | None] = mapped_column(ForeignKey("runs.id"))
    n: Mapped[int]
    effect: Mapped[float | None]
    low: Mapped[float | None]
    high: Mapped[float | None]
    mode: Mapped[bool]
    reruns: Mapped[int]
    differs: Mapped[Mapping[str, Any]] = mapped_column(JsonObject)
    judged_at: Mapped[dt.datetime]
    run: Mapped[RunRow] = relationship(foreign_keys=[run_id])
    definition: Mapped[DefinitionRow] = relationship()


class ReviewRow(Base):
    """What a person decided on a run; the newest of a run counts."""

    __tablename__ = "reviews"

    id: Mapped[int] = mapped_column(primary_key=True)
    run_id: Mapped[int] = mapped_column(ForeignKey("runs.id"), index=True)
    decision: Mapped[str]
    by: Mapped[str]
    reason: Mapped[str]
    at: Mapped[dt.datetime]


class MuteRow(Base):
    """Numbers of which nobody wants to hear for a while; a board of None is every board."""

    __tablename__ = "mutes"

    id: Mapped[int] = mapped_column(primary_key=True)
    metric: Mapped[str]
    board: Mapped[str | None]
    params: Mapped[Mapping[str, str]] = mapped_column(Params)
    until: Mapped[dt.datetime]
    reason: Mapped[str]
    by: Mapped[str]
    at: Mapped[dt.datetime]
