"""From rows to records."""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeVar, cast, get_args

from sqlalchemy import func, select
from sqlalchemy.orm import Session, joinedload, selectinload

from lab.errors import ConfigurationError
from lab.metrics import Flag, Measurement, Metric, Sample
from lab.results.columns import DamagedValueError
from lab.results.models import AttemptArtifactRow, AttemptRow, Base, DefinitionRow, MeasurementRow, RunRow, SampleRow
from lab.results.records import (
    OK,
    ArtifactRef,
    Attempt,
    GoodAttempt,
    MomentRecord,
    Run,
    RunStatus,
    SampleRecord,
    StoredSample,
)

StoredRow = TypeVar("StoredRow", bound=Base)


def whole(row: StoredRow) -> StoredRow:
    """A row in which nothing is missing.

    Raises:
        DamagedValueError: a value that is always there is not.
    """
    missing = [
        column.key for column in row.__table__.columns if not column.nullable and getattr(row, column.key) is None
    ]
    if missing:
        raise DamagedValueError(f"a row of {row.__tablename__} has no {', '.join(missing)}")
    return row


def run(row: RunRow) -> Run:
    """A run."""
    whole(row)
    if row.status not in get_args(RunStatus):
        raise DamagedValueError(
            f"run {row.id} has the status {row.status!r}; known are {', '.join(get_args(RunStatus))}"
        )
    return Run(
        id=row.id,
        kind=row.kind,
        board_type=row.board_type,
        board=row.board,
        release=row.release,
        status=cast(RunStatus, row.status),
        plan=row.plan,
        provenance=row.provenance,
        started_at=row.started_at,
        finished_at=row.finished_at,
        job_id=row.job_id,
    )


def attempts(session: Session, run_id: int) -> list[Attempt]:
    """The attempts of a run, in the order they were recorded, with everything that belongs to them."""
    wanted = select(AttemptRow).where(AttemptRow.run_id == run_id).order_by(AttemptRow.id)
    parts = (
        selectinload(AttemptRow.samples).joinedload(SampleRow.measurement),
        selectinload(AttemptRow.moments),
        selectinload(AttemptRow.artifacts).joinedload(AttemptArtifactRow.artifact),
    )
    return [_attempt(row) for row in session.scalars(wanted.options(*parts))]


def good_attempts(session: Session, run_id: int) -> list[GoodAttempt]:
    """The attempts of a run that succeeded, in short, in the order they were recorded."""
    wanted = (
        select(AttemptRow.params, AttemptRow.cycle, func.count(SampleRow.id))
        .outerjoin(AttemptRow.samples)
        .where(AttemptRow.run_id == run_id, AttemptRow.outcome == OK)
        .group_by(AttemptRow.id)
        .order_by(AttemptRow.id)
    )
    found = [GoodAttempt(*row) for row in session.execute(wanted)]
    if any(attempt.params is None or attempt.cycle is None for attempt in found):
        raise DamagedValueError("a row of attempts has no params or no cycle")
    return found


def artifacts(session: Session, run_ids: Collection[int], kind: str) -> dict[int, list[ArtifactRef]]:
    """Run -> the artifacts of a kind that its attempts have, in the order they were recorded."""
    wanted = (
        select(AttemptRow.run_id, AttemptArtifactRow)
        .join(AttemptRow, AttemptRow.id == AttemptArtifactRow.attempt_id)
        .where(AttemptRow.run_id.in_(run_ids), AttemptArtifactRow.kind == kind)
        .order_by(AttemptRow.id)
        .options(joinedload(AttemptArtifactRow.artifact))
    )
    found: dict[int, list[ArtifactRef]] = {}
    for run_id, row in session.execute(wanted):
        found.setdefault(run_id, []).append(ArtifactRef(row.kind, row.sha256, row.artifact.size))
    return found


def _attempt(row: AttemptRow) -> Attempt:
    whole(row)
    for part in (*row.samples, *row.moments, *row.artifacts):
        whole(part)
    return Attempt(
        id=row.id,
        run_id=row.run_id,
        cycle=row.cycle,
        number=row.number,
        params=row.params,
        outcome=row.outcome,
        fault=row.fault,
        transient=row.transient,
        message=row.message,
        started_at=row.started_at,
        duration_s=row.duration_s,
        samples=tuple(
            SampleRecord(
                s.measurement.metric,
                s.measurement.params,
                s.value,
                s.uncertainty,
                flags(s.flags),
                s.log_start,
                s.log_end,
            )
            for s in row.samples
        ),
        artifacts=tuple(ArtifactRef(a.kind, a.sha256, a.artifact.size) for a in row.artifacts),
        moments=tuple(MomentRecord(m.name, m.t_ns, m.uncertainty_ns, m.position, m.text) for m in row.moments),
        details=row.details,
    )


def samples(session: Session, run_id: int, name: str | None) -> list[StoredSample]:
    """The samples of a run, in the order they were recorded."""
    wanted = (
        select(SampleRow)
        .join(SampleRow.measurement)
        .where(MeasurementRow.run_id == run_id)
        .options(
            joinedload(SampleRow.attempt), joinedload(SampleRow.measurement).joinedload(MeasurementRow.definition)
        )
        .order_by(SampleRow.id)
    )
    if name is not None:
        wanted = wanted.where(MeasurementRow.metric == name)
    return [
        StoredSample(
            s.measurement.metric,
            s.measurement.params,
            s.value,
            s.uncertainty,
            flags(s.flags),
            s.log_start,
            s.log_end,
            cycle=s.attempt.cycle,
            attempt_id=s.attempt_id,
            version=s.measurement.version,
            unit=s.measurement.definition.unit,
        )
        for s in map(whole, session.scalars(wanted))
    ]


def measurements(session: Session, its_run: Run) -> list[Measurement]:
    """A run's numbers, each with its samples by cycle.

    A number's definition is the one it was measured by, whatever today's is.
    """
    provenance = {
        **its_run.provenance,
        "run": its_run.id,
        "board_type": its_run.board_type,
        "board": its_run.board,
        "release": its_run.release,
    }
    readings = (
        select(SampleRow.measurement_id, SampleRow.value, SampleRow.uncertainty, AttemptRow.cycle, SampleRow.flags)
        .join(SampleRow.attempt)
        .where(AttemptRow.run_id == its_run.id)
        .order_by(AttemptRow.cycle, SampleRow.id)
    )
    taken: dict[int, list[Sample]] = {}
    for measurement_id, value, uncertainty, cycle, names in session.execute(readings):
        taken.setdefault(measurement_id, []).append(Sample(value, uncertainty, cycle, flags(names)))
    rows = (
        select(MeasurementRow)
        .where(MeasurementRow.run_id == its_run.id)
        .options(joinedload(MeasurementRow.definition))
        .order_by(MeasurementRow.id)
    )
    return [
        Measurement(metric(row.definition), row.params, tuple(taken[row.id]), provenance)
        for row in map(whole, session.scalars(rows))
    ]


def metric(row: DefinitionRow) -> Metric:
    """A metric as it was defined when it was measured."""
    whole(row)
    if row.better not in {"higher", "lower"}:
        raise DamagedValueError(f"{row.metric}: better is {row.better!r}, and must be higher or lower")
    return Metric(
        name=row.metric,
        unit=row.unit,
        better="higher" if row.better == "higher" else "lower",
        definition=row.definition,
        resolution=row.resolution,
        source=row.source,
        version=row.version,
    )


def flags(names: frozenset[str]) -> frozenset[Flag]:
    """The flags of these names.

    Raises:
        ConfigurationError: a newer boardlab wrote one that this program does not know.
    """
    try:
        return frozenset(Flag(name) for name in names)
    except ValueError as error:
        raise ConfigurationError(
            f"{error}: a newer boardlab wrote this flag; update boardlab to read the run"
        ) from error
