"""From records to rows: how an attempt is written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sqlalchemy import select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from lab.errors import TestStableError
from lab.metrics import Metric, by_name
from lab.results.models import (
    ArtifactRow,
    AttemptArtifactRow,
    AttemptRow,
    Base,
    DefinitionRow,
    MeasurementRow,
    MomentRow,
    SampleRow,
)
from lab.results.records import OK, AttemptRecord, Json, SampleRecord


def insert_attempt(session: Session, run_id: int, record: AttemptRecord) -> int:
    """Write an attempt and everything that belongs to it; the id of the same one where it is there already.

    Raises:
        TestStableError: the cycle has a good attempt already, or there is no such metric.
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
    row = AttemptRow(
        run_id=run_id,
        cycle=record.cycle,
        number=max([record.number, *(a.number + 1 for a in earlier)]),  # a resumed run goes on counting
        params=record.params,
        outcome=record.outcome,
        fault=record.fault,
        transient=record.transient,
        message=record.message,
        started_at=record.started_at,
        duration_s=record.duration_s,
        details=dict(record.details),
    )
    row.samples = [_sample(session, run_id, sample) for sample in record.samples]
    row.moments = [
        MomentRow(name=m.name, t_ns=m.t_ns, uncertainty_ns=m.uncertainty_ns, position=m.position, text=m.text)
        for m in record.moments
    ]
    for ref in record.artifacts:
        _insert_if_absent(session, ArtifactRow, {"sha256": ref.sha256, "size": ref.size})
    row.artifacts = [AttemptArtifactRow(kind=ref.kind, sha256=ref.sha256) for ref in record.artifacts]
    session.add(row)
    session.flush()
    return row.id


def json_of(name: str, value: Json) -> dict[str, Any]:
    """A copy of `value` as the database will give it back.

    Raises:
        TestStableError: it cannot be written as JSON.
    """
    try:
        copy: dict[str, Any] = json.loads(json.dumps(dict(value), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise TestStableError(f"the {name} of a run cannot be written as JSON: {error}") from error
    return copy


def _sample(session: Session, run_id: int, sample: SampleRecord) -> SampleRow:
    return SampleRow(
        measurement_id=_measurement(session, run_id, by_name(sample.metric), sample.params),
        value=sample.value,
        uncertainty=sample.uncertainty,
        flags=sample.flags,
        log_start=sample.log_start,
        log_end=sample.log_end,
    )


def _measurement(session: Session, run_id: int, metric: Metric, params: Mapping[str, str]) -> int:
    wanted = select(MeasurementRow.id).where(
        MeasurementRow.run_id == run_id,
        MeasurementRow.metric == metric.name,
        MeasurementRow.version == metric.version,
        MeasurementRow.params == params,
    )
    found = session.scalars(wanted).one_or_none()
    if found is not None:
        return found
    definition = {
        "metric": metric.name,
        "version": metric.version,
        "unit": metric.unit,
        "better": metric.better,
        "definition": metric.definition,
        "resolution": metric.resolution,
        "source": metric.source,
    }
    _insert_if_absent(session, DefinitionRow, definition)
    identity = {"run_id": run_id, "metric": metric.name, "version": metric.version, "params": params}
    _insert_if_absent(session, MeasurementRow, identity)
    return session.scalars(wanted).one()


def _insert_if_absent(session: Session, model: type[Base], values: dict[str, Any]) -> None:
    """Insert a row that another writer may be inserting as well."""
    if session.get_bind().dialect.name == "postgresql":
        session.execute(postgresql.insert(model).values(values).on_conflict_do_nothing())
    else:
        session.execute(sqlite.insert(model).values(values).on_conflict_do_nothing())
