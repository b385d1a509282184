"""The tables as SQLAlchemy models; `migrations/` creates them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from sqlalchemy import ForeignKey, ForeignKeyConstraint, Index, MetaData, UniqueConstraint, literal_column, text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship

from lab.results.columns import (
    ConsoleTextColumn,
    Flags,
    FloatColumn,
    JsonObject,
    LargeWhole,
    Params,
    UtcDateTime,
    Whole,
    Words,
)


class Base(DeclarativeBase):
    """Names every constraint, so that migrations can change it on SQLite."""

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
        float: FloatColumn,
        dt.datetime: UtcDateTime,
    }


_WITHOUT_SUMS = text("sums IS NULL AND status = 'completed'")


class RunRow(Base):
    """A run of one plan on one board.

    Its columns are described at `lab.results.records.Run`; `sums` at `lab.results.sums`.
    """

    __tablename__ = "runs"
    __table_args__ = (
        Index("ix_runs_place", "board", "board_type", "kind", "status", "finished_at", "id"),
        Index("ix_runs_release", "release", "status", "kind", "id"),
        Index("ix_runs_finished_at", "finished_at"),
        Index("ix_runs_board", "board", "id"),
        Index("ix_runs_kind", "kind", "id"),
        Index(
            "ix_runs_running",
            "board",
            sqlite_where=text("status = 'running'"),
            postgresql_where=text("status = 'running'"),
        ),
        Index("ix_runs_without_sums", "id", sqlite_where=_WITHOUT_SUMS, postgresql_where=_WITHOUT_SUMS),
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
    sums: Mapped[Mapping[str, Any] | None] = mapped_column(JsonObject(none_as_null=True), deferred=True)


class DefinitionRow(Base):
    """A metric's definition when it was measured, by which old numbers stay readable."""

    __tablename__ = "definitions"

    metric: Mapped[str] = mapped_column(primary_key=True)
    version: Mapped[int] = mapped_column(primary_key=True)
    unit: Mapped[str]
    better: Mapped[str]
    definition: Mapped[str]
    resolution: Mapped[float]
    source: Mapped[str]


class MeasurementRow(Base):
    """A number of a run: a metric with a version of its definition and parameters; its readings are samples."""

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
    sums: Mapped[str | None] = mapped_column(deferred=True)
    summary: Mapped[Mapping[str, Any] | None] = mapped_column(JsonObject(none_as_null=True), deferred=True)
    definition: Mapped[DefinitionRow] = relationship()


class AttemptRow(Base):
    """One try at one cycle of a run; a cycle has at most one good try."""

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
    message: Mapped[str] = mapped_column(ConsoleTextColumn)
    started_at: Mapped[dt.datetime]
    duration_s: Mapped[float]
    details: Mapped[Mapping[str, Any]] = mapped_column(JsonObject)
    samples: Mapped[list[SampleRow]] = relationship(order_by="SampleRow.id")
    moments: Mapped[list[MomentRow]] = relationship(order_by="MomentRow.id")
    artifacts: Mapped[list[AttemptArtifactRow]] = relationship(order_by="AttemptArtifactRow.kind")


# The outcome is a literal in the SQL text: with a bound parameter SQLite does not use the index of failed attempts.
FAILED = AttemptRow.outcome != literal_column("'ok'")


class SampleRow(Base):
    """One reading of a number; the bytes log_start to log_end of its attempt's log are its evidence."""

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
    """A moment of an attempt, i.e. the arrival of a marker's last byte."""

    __tablename__ = "moments"

    id: Mapped[int] = mapped_column(primary_key=True)
    attempt_id: Mapped[int] = mapped_column(ForeignKey("attempts.id"), index=True)
    name: Mapped[str]
    t_ns: Mapped[int] = mapped_column(LargeWhole)
    uncertainty_ns: Mapped[int] = mapped_column(LargeWhole)
    position: Mapped[int] = mapped_column(LargeWhole)
    text: Mapped[str] = mapped_column(ConsoleTextColumn)


class ArtifactRow(Base):
    """A file in the artifact store, named by its contents.

    `pack` is the SHA-256 of the zip file that contains it, itself an artifact; NULL: it is in no pack.
    """

    __tablename__ = "artifacts"

    sha256: Mapped[str] = mapped_column(primary_key=True)
    size: Mapped[int] = mapped_column(LargeWhole)
    pack: Mapped[str | None] = mapped_column(index=True)


class AttemptArtifactRow(Base):
    """The link of an attempt to a file, with its kind."""

    __tablename__ = "attempt_artifacts"

    attempt_id: Mapped[int] = mapped_column(ForeignKey("attempts.id"), primary_key=True)
    kind: Mapped[str] = mapped_column(primary_key=True)
    sha256: Mapped[str] = mapped_column(ForeignKey("artifacts.sha256"), index=True)
    artifact: Mapped[ArtifactRow] = relationship()


class JobRow(Base):
    """A job, i.e. a `lab run` or a session of pytest, which waits for its board or holds it.

    At most one job holds a board at a time. The waiting or measuring process renews `heartbeat_at`; `holder` identifies
    the process by host, boot and pid.
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
        Index("ix_jobs_board_state", "board", "state", "id"),
        Index("ix_jobs_board_started_at", "board", "started_at"),
        Index("ix_jobs_state", "state", "board_type", "suites", "id"),
        Index("ix_jobs_queued_at", "queued_at"),
        Index("ix_jobs_finished_at", "finished_at"),
        Index("ix_jobs_request", "request", "id"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    board_type: Mapped[str]
    board: Mapped[str]
    suites: Mapped[str]
    done: Mapped[int] = mapped_column(default=0)
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
    cancelled_by: Mapped[str] = mapped_column(default="")
    priority: Mapped[int]
    yields_to: Mapped[str] = mapped_column(default="")
    request: Mapped[str]


class HealthCheckRow(Base):
    """A finished check of a board; `found` has its parts with their output."""

    __tablename__ = "health_checks"
    __table_args__ = (
        Index("ix_health_checks_board", "board", "host", "id"),
        Index("ix_health_checks_at", "board", "at"),
    )

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


class ProvisionRow(Base):
    """One try to write a release to a medium of a board; the latest one counts."""

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
    digest: Mapped[str] = mapped_column(default="")
    method: Mapped[str] = mapped_column(default="")
    bytes: Mapped[int] = mapped_column(LargeWhole, default=0)
    software: Mapped[Mapping[str, Any]] = mapped_column(JsonObject, default=dict)
    message: Mapped[str] = mapped_column(ConsoleTextColumn, default="")
    person: Mapped[str]
    job_id: Mapped[int | None]
    boots: Mapped[str] = mapped_column(server_default="")
    kept: Mapped[str] = mapped_column(server_default="")
    spare: Mapped[Mapping[str, Any]] = mapped_column(JsonObject, server_default="{}")
    identity: Mapped[Mapping[str, Any]] = mapped_column(JsonObject, server_default="{}")
    at: Mapped[dt.datetime]


class VerdictRow(Base):
    """The judge's verdict on a number of a run; a new judgement of the run replaces it."""

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
    """A person's decision on a run, accepted or rejected; the newest one counts."""

    __tablename__ = "reviews"

    id: Mapped[int] = mapped_column(primary_key=True)
    run_id: Mapped[int] = mapped_column(ForeignKey("runs.id"), index=True)
    decision: Mapped[str]
    by: Mapped[str]
    reason: Mapped[str]
    at: Mapped[dt.datetime]


class MuteRow(Base):
    """Numbers whose alerts are muted for a while; `board` NULL: on every board."""

    __tablename__ = "mutes"

    id: Mapped[int] = mapped_column(primary_key=True)
    metric: Mapped[str]
    board: Mapped[str | None]
    params: Mapped[Mapping[str, str]] = mapped_column(Params)
    until: Mapped[dt.datetime]
    reason: Mapped[str]
    by: Mapped[str]
    at: Mapped[dt.datetime]


_OPEN = text("ended_at IS NULL")
_STANDS = text("ended_at IS NULL AND kind <> 'reserved'")  # reservations may stand one after the other


class ReservationRow(Base):
    """A board's reservation from `at` until an instant, or maintenance (`until` NULL)."""

    __tablename__ = "reservations"
    __table_args__ = (
        Index(
            "ix_reservations_standing", "board", "kind", unique=True, sqlite_where=_STANDS, postgresql_where=_STANDS
        ),
        Index("ix_reservations_open", "board", sqlite_where=_OPEN, postgresql_where=_OPEN),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    board: Mapped[str]
    kind: Mapped[str]
    person: Mapped[str]
    reason: Mapped[str]
    at: Mapped[dt.datetime]
    until: Mapped[dt.datetime | None]
    ended_at: Mapped[dt.datetime | None]
    ended_by: Mapped[str] = mapped_column(default="")


class CommentRow(Base):
    """A person's comment on a board."""

    __tablename__ = "comments"

    id: Mapped[int] = mapped_column(primary_key=True)
    board: Mapped[str] = mapped_column(index=True)
    person: Mapped[str]
    text: Mapped[str]
    at: Mapped[dt.datetime]


class AuditRow(Base):
    """An action in the audit log; the database refuses changes and deletions of these rows."""

    __tablename__ = "audit"

    id: Mapped[int] = mapped_column(primary_key=True)
    at: Mapped[dt.datetime]
    person: Mapped[str]
    address: Mapped[str]
    action: Mapped[str]
    board: Mapped[str]
    about: Mapped[str]
    outcome: Mapped[str]
