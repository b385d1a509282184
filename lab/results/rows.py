"""Conversion of the store's records to rows of the database, and back."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar, cast, get_args

from attrs import AttrsInstance, fields
from sqlalchemy import CTE, Row, Select, Table, func, insert, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import InstrumentedAttribute, Session, joinedload, selectinload

from lab.errors import ConfigurationError, TestStableError
from lab.metrics import Flag, Measurement, Metric, Moment, Sample, SampleRecord, by_name, lab_metrics
from lab.results.columns import DamagedValueError
from lab.results.models import (
    ArtifactRow,
    AttemptArtifactRow,
    AttemptRow,
    Base,
    DefinitionRow,
    MeasurementRow,
    MomentRow,
    RunRow,
    SampleRow,
)
from lab.results.records import (
    OK,
    ArtifactRef,
    Attempt,
    AttemptRecord,
    GoodAttempt,
    Json,
    Run,
    RunStatus,
    StoredSample,
)


def insert_attempt(session: Session, run_id: int, record: AttemptRecord) -> int:
    """Insert an attempt with its parts, unless the run has it already.

    Returns:
        The id of the attempt.

    Raises:
        TestStableError: the cycle has a good attempt already, or a metric is unknown.
    """
    same_cycle = select(AttemptRow).where(
        AttemptRow.run_id == run_id, AttemptRow.params == record.params, AttemptRow.cycle == record.cycle
    )
    earlier = session.scalars(same_cycle).all()
    for attempt in earlier:
        if attempt.started_at == record.started_at and attempt.outcome == record.outcome:
            return attempt.id
        if attempt.outcome == OK == record.outcome:
            raise TestStableError(
                f"cycle {record.cycle} of run {run_id} with {dict(record.params)} was measured already, "
                f"{attempt.started_at:%Y-%m-%d %H:%M:%S} UTC; does another program go on with the same run?"
            )
    number = max([record.number, *(a.number + 1 for a in earlier)])  # a resumed run continues the count
    own_columns = {"run_id": run_id, "number": number, "details": dict(record.details)}
    row = AttemptRow(**columns_of(record, "samples", "artifacts", "moments") | own_columns)
    ids = _insert_measurements(session, run_id, record.samples)
    row.moments = [MomentRow(**columns_of(moment)) for moment in record.moments]
    for ref in record.artifacts:
        insert_if_absent(session, ArtifactRow, {"sha256": ref.sha256, "size": ref.size})
    row.artifacts = [AttemptArtifactRow(kind=ref.kind, sha256=ref.sha256) for ref in record.artifacts]
    session.add(row)
    session.flush()
    if record.samples:
        # As objects the hundreds of samples of a guide would take three times as long.
        samples = [
            {
                "attempt_id": row.id,
                "measurement_id": ids[_identity(_metric(sample), sample.params)],
                **columns_of(sample, "metric", "params", "declared"),
            }
            for sample in record.samples
        ]
        session.execute(insert(SampleRow), samples)
    return row.id


def json_of(name: str, value: Json) -> dict[str, Any]:
    """Return a copy of a value as JSON gives it back.

    Args:
        name: name of the value in messages.

    Raises:
        TestStableError: it cannot be written as JSON.
    """
    try:
        copy: dict[str, Any] = json.loads(json.dumps(dict(value), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise TestStableError(f"the {name} of a run cannot be written as JSON: {error}") from error
    return copy


_Identity = tuple[str, int, tuple[tuple[str, str], ...]]  # metric, version of its definition, sorted parameters


def revise_attempt(session: Session, run_id: int, record: AttemptRecord) -> None:
    """Replace the ± and the flags of a good attempt's samples, and its details.

    Raises:
        TestStableError: the cycle has no good attempt with this number of samples.
    """
    same = (AttemptRow.run_id == run_id, AttemptRow.params == record.params, AttemptRow.cycle == record.cycle)
    row = session.scalar(select(AttemptRow).where(*same, AttemptRow.outcome == OK))
    if row is None or len(row.samples) != len(record.samples):
        raise TestStableError(f"cycle {record.cycle} of run {run_id} has no such good attempt")
    row.details = dict(record.details)
    for sample, revised in zip(row.samples, record.samples, strict=True):
        sample.uncertainty, sample.flags = revised.uncertainty, frozenset(map(str, revised.flags))


def _metric(sample: SampleRecord) -> Metric:
    return sample.declared or by_name(sample.metric)


def _identity(metric: Metric, params: Mapping[str, str]) -> _Identity:
    return metric.name, metric.version, tuple(sorted(params.items()))


def _insert_measurements(session: Session, run_id: int, samples: Sequence[SampleRecord]) -> Mapping[_Identity, int]:
    """Insert the measurements of samples that the run lacks; return the ids of all its measurements."""
    needed = {_identity(metric := _metric(sample), sample.params): (metric, sample.params) for sample in samples}
    ids = _measurement_ids(session, run_id)
    missing = {identity: number for identity, number in needed.items() if identity not in ids}
    if not missing:
        return ids
    insert_definitions(session, {(metric.name, metric.version): metric for metric, _ in missing.values()}.values())
    for sample in samples:
        if sample.declared is not None:
            check_definition(session, sample.declared)
    identities = [
        {"run_id": run_id, "metric": metric.name, "version": metric.version, "params": params}
        for metric, params in missing.values()
    ]
    insert_if_absent(session, MeasurementRow, *identities)
    return _measurement_ids(session, run_id)


def insert_definitions(session: Session, metrics: Iterable[Metric]) -> None:
    """Insert the definitions that the database lacks."""
    values = [{"metric": metric.name, **columns_of(metric, "name", "quantum", "vendor")} for metric in metrics]
    insert_if_absent(session, DefinitionRow, *values)


def check_definition(session: Session, declared: Metric) -> None:
    """Require that a declaration equals the stored one of its version.

    Raises:
        ConfigurationError: it differs; the message names the differences.
    """
    row = session.get(DefinitionRow, (declared.name, declared.version))
    like = func.replace(DefinitionRow.metric, ".", "_") == lab_metrics.prometheus_name(declared.name)
    lab_metrics.check_exported(declared.name, session.scalars(select(DefinitionRow.metric).where(like)), "the results")
    wrong = [] if row is None else lab_metrics.differences(metric(row), declared)
    if wrong:
        raise ConfigurationError(
            f"{declared.name}, version {declared.version}, is in the results with another definition: "
            f"{'; '.join(wrong)}. "
            "Numbers of two definitions are never compared: raise its version, or give it another name"
        )


def _measurement_ids(session: Session, run_id: int) -> dict[_Identity, int]:
    """Return the ids of a run's measurements."""
    columns = select(MeasurementRow.id, MeasurementRow.metric, MeasurementRow.version, MeasurementRow.params)
    rows = session.execute(columns.where(MeasurementRow.run_id == run_id))
    return {(metric, version, tuple(sorted(params.items()))): id_ for id_, metric, version, params in rows}


def insert_if_absent(session: Session, model: type[Base], *values: dict[str, Any]) -> None:
    """Insert rows, and leave those as they are that another writer has inserted."""
    upsert = postgresql.insert if session.get_bind().dialect.name == "postgresql" else sqlite.insert
    table = cast("Table", model.__table__)
    session.connection().execute(upsert(table).on_conflict_do_nothing(), list(values))


def distinct_values(column: InstrumentedAttribute[str]) -> CTE:
    """Return a query for the values of an indexed column, as `value`; after the last one comes a NULL.

    It looks into the index once for each value, so its time does not grow with the rows.
    """
    first = select(func.min(column).label("value")).cte(recursive=True)
    after = select(func.min(column)).where(column > first.c.value).scalar_subquery()
    return first.union_all(select(after).where(first.c.value.is_not(None)))


Record = TypeVar("Record", bound=AttrsInstance)


def record_of(kind: type[Record], row: Base | Row[Any], **others: object) -> Record:
    """Return the record of a row.

    Args:
        others: values of the fields that have no column of their name and type.
    """
    return kind(
        **{attribute.name: getattr(row, attribute.name) for attribute in fields(kind) if attribute.name not in others},
        **others,
    )


def select_fields(model: type[Base], kind: type[AttrsInstance]) -> Select[Any]:
    """Return a query for those columns of a table that a record has as fields."""
    return select(*(getattr(model, attribute.name) for attribute in fields(kind)))


def columns_of(record: AttrsInstance, *without: str) -> dict[str, Any]:
    """Return the fields of a record by name, without some."""
    return {
        attribute.name: getattr(record, attribute.name)
        for attribute in fields(type(record))
        if attribute.name not in without
    }


StoredRow = TypeVar("StoredRow", bound=Base)


def whole(row: StoredRow) -> StoredRow:
    """Return the row after a check that no required value is missing.

    Raises:
        DamagedValueError: a required value is missing.
    """
    missing = [
        column.key for column in row.__table__.columns if not column.nullable and getattr(row, column.key) is None
    ]
    if missing:
        raise DamagedValueError(f"a row of {row.__tablename__} has no {', '.join(missing)}")
    return row


def run(row: RunRow) -> Run:
    """Return the run of a row.

    Raises:
        DamagedValueError: its status is unknown, or a value is missing.
    """
    whole(row)
    if row.status not in get_args(RunStatus):
        raise DamagedValueError(
            f"run {row.id} has the status {row.status!r}; known are {', '.join(get_args(RunStatus))}"
        )
    return record_of(Run, row)


def attempts(session: Session, run_id: int) -> list[Attempt]:
    """Return a run's attempts with all their parts, in recorded order."""
    query = select(AttemptRow).where(AttemptRow.run_id == run_id).order_by(AttemptRow.id)
    parts = (
        selectinload(AttemptRow.samples).joinedload(SampleRow.measurement),
        selectinload(AttemptRow.moments),
        selectinload(AttemptRow.artifacts).joinedload(AttemptArtifactRow.artifact),
    )
    return [_attempt(row) for row in session.scalars(query.options(*parts))]


def good_attempts(session: Session, run_id: int) -> list[GoodAttempt]:
    """Return a run's good attempts without their parts, in recorded order."""
    query = (
        select_fields(AttemptRow, GoodAttempt)
        .where(AttemptRow.run_id == run_id, AttemptRow.outcome == OK)
        .order_by(AttemptRow.id)
    )
    good = [GoodAttempt(*row) for row in session.execute(query)]
    if any(attempt.params is None or attempt.cycle is None for attempt in good):
        raise DamagedValueError("a row of attempts has no params or no cycle")
    return good


def artifacts(session: Session, run_ids: Collection[int], kind: str) -> dict[int, list[ArtifactRef]]:
    """Return for each run its artifacts of one kind, in recorded order."""
    query = (
        select(AttemptRow.run_id, AttemptArtifactRow)
        .join(AttemptRow, AttemptRow.id == AttemptArtifactRow.attempt_id)
        .where(AttemptRow.run_id.in_(run_ids), AttemptArtifactRow.kind == kind)
        .order_by(AttemptRow.id)
        .options(joinedload(AttemptArtifactRow.artifact))
    )
    by_run: dict[int, list[ArtifactRef]] = {}
    for run_id, row in session.execute(query):
        by_run.setdefault(run_id, []).append(_artifact(row))
    return by_run


def _attempt(row: AttemptRow) -> Attempt:
    whole(row)
    for part in (*row.samples, *row.moments, *row.artifacts):
        whole(part)
    return record_of(
        Attempt,
        row,
        samples=tuple(_sample_of(SampleRecord, sample) for sample in row.samples),
        artifacts=tuple(_artifact(link) for link in row.artifacts),
        moments=tuple(record_of(Moment, moment) for moment in row.moments),
    )


def _sample_of(kind: type[Record], row: SampleRow, **others: object) -> Record:
    number = {"metric": row.measurement.metric, "params": row.measurement.params, "declared": None}
    return record_of(kind, row, flags=flags(row.flags), **number, **others)


def _artifact(row: AttemptArtifactRow) -> ArtifactRef:
    return record_of(ArtifactRef, row, size=row.artifact.size)


def samples(session: Session, run_id: int, name: str | None) -> list[StoredSample]:
    """Return the samples of a run in recorded order.

    Args:
        name: name of a metric; None: all metrics.
    """
    query = (
        select(SampleRow)
        .join(SampleRow.measurement)
        .where(MeasurementRow.run_id == run_id)
        .options(
            joinedload(SampleRow.attempt), joinedload(SampleRow.measurement).joinedload(MeasurementRow.definition)
        )
        .order_by(SampleRow.id)
    )
    if name is not None:
        query = query.where(MeasurementRow.metric == name)
    return [
        _sample_of(
            StoredSample,
            row,
            cycle=row.attempt.cycle,
            version=row.measurement.version,
            unit=row.measurement.definition.unit,
        )
        for row in map(whole, session.scalars(query))
    ]


def measurements(session: Session, run: Run) -> list[Measurement]:
    """Return a run's measurements, each with its samples by cycle.

    The definition is that by which the number was measured, even if today's is another.
    """
    provenance = {
        **run.provenance,
        "run": run.id,
        "board_type": run.board_type,
        "board": run.board,
        "release": run.release,
    }
    query = READINGS.where(AttemptRow.run_id == run.id).order_by(AttemptRow.cycle, SampleRow.id)
    samples = by_measurement(session.execute(query))
    rows = (
        select(MeasurementRow)
        .where(MeasurementRow.run_id == run.id)
        .options(joinedload(MeasurementRow.definition))
        .order_by(MeasurementRow.id)
    )
    return [
        Measurement(metric(row.definition), row.params, tuple(samples[row.id]), provenance)
        for row in map(whole, session.scalars(rows))
    ]


READINGS: Final = select(
    SampleRow.measurement_id, SampleRow.value, SampleRow.uncertainty, AttemptRow.cycle, SampleRow.flags
).join(SampleRow.attempt)


def by_measurement(readings: Iterable[Any]) -> dict[int, list[Sample]]:
    """Group the rows of a query for `READINGS` into samples, by the id of their measurement."""
    grouped: dict[int, list[Sample]] = {}
    for measurement_id, value, uncertainty, cycle, names in readings:
        grouped.setdefault(measurement_id, []).append(Sample(value, uncertainty, cycle, flags(names)))
    return grouped


def metric(row: DefinitionRow) -> Metric:
    """Return a metric as it was defined when it was measured.

    Raises:
        DamagedValueError: its direction is unknown, or a value is missing.
    """
    whole(row)
    if row.better not in {"higher", "lower"}:
        raise DamagedValueError(f"{row.metric}: better is {row.better!r}, and must be higher or lower")
    return record_of(Metric, row, name=row.metric, quantum="", vendor="")


def flags(names: frozenset[str]) -> frozenset[Flag]:
    """Return the flags of these names.

    Raises:
        ConfigurationError: one is of a newer boardlab, and unknown to this program.
    """
    try:
        return frozenset(Flag(name) for name in names)
    except ValueError as error:
        raise ConfigurationError(
            f"{error}: a newer boardlab wrote this flag; update boardlab to read the run"
        ) from error
