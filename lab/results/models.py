"""The tables, as SQLAlchemy models; `migrations/` holds how a database gets them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any, ClassVar

from sqlalchemy import (
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    MetaData,
    UniqueConstraint,
    text,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship

from lab.results.columns import (
    ConsoleText,
    Flags,
    JsonObject,
    LargeWhole,
    Number,
    Params,
    UtcDateTime,
    Whole,
    Words,
)


class Base(DeclarativeBase):
    """Every constraint has a name, so that a later migration can change it on SQLite too."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map: ClassVar[dict[object, Any]] = {
        str: Words,
        int: Whole,
        float: Number,
        dt.datetime: UtcDateTime,
    }


class RunRow(Base):
    """A run of one plan on one board; `job_id`: of the job that began it, unknown of a run of before there were any."""

    __tablename__ = "runs"
    __table_args__ = (
        Index("ix_runs_place", "board", "board_type", "kind", "status", "finished_at", "id"),
        Index("ix_runs_release", "release", "status", "kind", "id"),
        Index("ix_runs_finished_at", "finished_at"),
        Index(
            "ix_runs_running",
            "board",
            sqlite_where=text("status = 'running'"),
            postgresql_where=text("status = 'running'"),
        ),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    kind: Mapped[str]
    board_type: Mapped[str]
    board: Mapped[str]
    release: Mapped[str]
    status: Mapped[str]
    plan: Mapped[Mapping[str, Any]] = mapped_column(JsonObject)
    provenance: Mapped[Mapping[str, Any]] = mapped_column(JsonObject)
    started_at: Mapped[dt.datetime]
    finished_at: Mapped[dt.datetime | None]
    job_id: Mapped[int | None] = mapped_column(index=True)


class DefinitionRow(Base):
    """What a metric meant when it was measured; kept, so that old numbers stay readable."""

    __tablename__ = "definitions"

    metric: Mapped[str] = mapped_column(primary_key=True)
    version: Mapped[int] = mapped_column(primary_key=True)
    unit: Mapped[str]
    better: Mapped[str]
    definition: Mapped[str]
    resolution: Mapped[float]
    source: Mapped[str]


class MeasurementRow(Base):
    """Run × metric × version of its definition × parameters."""

    __tablename__ = "measurements"
    __table_args__ = (
        UniqueConstraint("run_id", "metric", "version", "params"),
        ForeignKeyConstraint(["metric", "version"], ["definitions.metric", "definitions.version"]),
        Index("ix_measurements_metric", "metric", "run_id"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    run_id: Mapped[int] = mapped_column(ForeignKey("runs.id"))
    metric: Mapped[str]
    version: Mapped[int]
    params: Mapped[Mapping[str, str]] = mapped_column(Params)
    definition: Mapped[DefinitionRow] = relationship()


class AttemptRow(Base):
    """One try at one cycle, good or failed; a cycle has at most one good one."""

    __tablename__ = "attempts"
    __table_args__ = (
        UniqueConstraint("run_id", "params", "cycle", "number"),
        Index(
            "ix_attempts_good",
            "run_id",
            "params",
            "cycle",
            unique=True,
            sqlite_where=text("outcome = 'ok'"),
            postgresql_where=text("outcome = 'ok'"),
        ),
        Index(
            "ix_attempts_failed",
            "started_at",
            sqlite_where=text("outcome != 'ok'"),
            postgresql_where=text("outcome != 'ok'"),
        ),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    run_id: Mapped[int] = mapped_column(ForeignKey("runs.id"))
    cycle: Mapped[int]
    number: Mapped[int]
    params: Mapped[Mapping[str, str]] = mapped_column(Params)
    outcome: Mapped[str]
    fault: Mapped[str | None]
    transient: Mapped[bool | None]
    message: Mapped[str] = mapped_column(ConsoleText)
    started_at: Mapped[dt.datetime]
    duration_s: Mapped[float]
    details: Mapped[Mapping[str, Any]] = mapped_column(JsonObject)
    samples: Mapped[list[SampleRow]] = relationship(order_by="SampleRow.id")
    moments: Mapped[list[MomentRow]] = relationship(order_by="MomentRow.id")
    artifacts: Mapped[list[AttemptArtifactRow]] = relationship(order_by="AttemptArtifactRow.kind")


class SampleRow(Base):
    """One reading; the bytes log_start..log_end of its attempt's console log are its evidence."""

    __tablename__ = "samples"

    id: Mapped[int] = mapped_column(primary_key=True)
    measurement_id: Mapped[int] = mapped_column(ForeignKey("measurements.id"), index=True)
    attempt_id: Mapped[int] = mapped_column(ForeignKey("attempts.id"), index=True)
    value: Mapped[float]
    uncertainty: Mapped[float]
    flags: Mapped[frozenset[str]] = mapped_column(Flags)
    log_start: Mapped[int | None] = mapped_column(LargeWhole)
    log_end: Mapped[int | None] = mapped_column(LargeWhole)
    measurement: Mapped[MeasurementRow] = relationship()
    attempt: Mapped[AttemptRow] = relationship(back_populates="samples")


class MomentRow(Base):
    """When a marker's last byte arrived."""

    __tablename__ = "moments"

    id: Mapped[int] = mapped_column(primary_key=True)
    attempt_id: Mapped[int] = mapped_column(ForeignKey("attempts.id"), index=True)
    name: Mapped[str]
    t_ns: Mapped[int] = mapped_column(LargeWhole)
    uncertainty_ns: Mapped[int] = mapped_column(LargeWhole)
    position: Mapped[int] = mapped_column(LargeWhole)
    text: Mapped[str] = mapped_column(ConsoleText)


class ArtifactRow(Base):
    """A file in the artifact store, by its contents."""

    __tablename__ = "artifacts"

    sha256: Mapped[str] = mapped_column(primary_key=True)
    size: Mapped[int] = mapped_column(LargeWhole)


class AttemptArtifactRow(Base):
    """What a file is to an attempt."""

    __tablename__ = "attempt_artifacts"

    attempt_id: Mapped[int] = mapped_column(ForeignKey("attempts.id"), primary_key=True)
    kind: Mapped[str] = mapped_column(primary_key=True)
    sha256: Mapped[str] = mapped_column(ForeignKey("artifacts.sha256"), index=True)
    artifact: Mapped[ArtifactRow] = relationship()


class JobRow(Base):
    """A `lab run` or a session of pytest: it waits for its board, holds it, and ends. At most one job holds a board at a time.

    `heartbeat_at` is renewed by who waits or measures; `holder` says which process of which boot of which host that is.
    """

    __tablename__ = "jobs"
    __table_args__ = (
        Index(
            "ix_jobs_board_running",
            "board",
            unique=True,
            sqlite_where=text("state = 'running'"),
            postgresql_where=text("state = 'running'"),
        ),
        Index("ix_jobs_state", "state"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    board_type: Mapped[str]
    board: Mapped[str]
    suites: Mapped[str]
    done: Mapped[int]
    env: Mapped[str]
    release: Mapped[str]
    cycles: Mapped[int | None]
    state: Mapped[str]
    holder: Mapped[str]
    after_run: Mapped[int]
    queued_at: Mapped[dt.datetime]
    started_at: Mapped[dt.datetime | None]
    heartbeat_at: Mapped[dt.datetime]
    finished_at: Mapped[dt.datetime | None]
    options: Mapped[Mapping[str, Any]] = mapped_column(JsonObject)
    person: Mapped[str]
    program: Mapped[str]
    cancelled_by: Mapped[str]
    priority: Mapped[int]
    yields_to: Mapped[str]
    request: Mapped[str]
