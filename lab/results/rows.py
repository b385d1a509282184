"""From records to rows: how an attempt is written."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from sqlalchemy import Table, insert, select
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
    ids = _measurements(session, run_id, record.samples)
    row.moments = [
        MomentRow(name=m.name, t_ns=m.t_ns, uncertainty_ns=m.uncertainty_ns, position=m.position, text=m.text)
        for m in record.moments
    ]
    for ref in record.artifacts:
        _insert_if_absent(session, ArtifactRow, {"sha256": ref.sha256, "size": ref.size})
    row.artifacts = [AttemptArtifactRow(kind=ref.kind, sha256=ref.sha256) for ref in record.artifacts]
    session.add(row)
    session.flush()
    if record.samples:  # hundreds of a guide; as objects they take three times as long
        session.execute(insert(SampleRow), [_sample(row.id, sample, ids) for sample in record.samples])
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


_Identity = tuple[str, int, tuple[tuple[str, str], ...]]


def _sample(attempt_id: int, sample: SampleRecord, ids: Mapping[_Identity, int]) -> dict[str, Any]:
    return {
        "attempt_id": attempt_id,
        "measurement_id": ids[_identity(by_name(sample.metric), sample.params)],
        "value": sample.value,
        "uncertainty": sample.uncertainty,
        "flags": sample.flags,
        "log_start": sample.log_start,
        "log_end": sample.log_end,
    }


def _identity(metric: Metric, params: Mapping[str, str]) -> _Identity:
    return metric.name, metric.version, tuple(sorted(params.items()))


def _measurements(session: Session, run_id: int, samples: Sequence[SampleRecord]) -> Mapping[_Identity, int]:
    """The ids of the samples' measurements; those that are not there yet are inserted, all at once."""
    wanted = {
        _identity(metric := by_name(sample.metric), sample.params): (metric, sample.params) for sample in samples
    }
    known = _known(session, run_id)
    missing = {identity: one for identity, one in wanted.items() if identity not in known}
    if not missing:
        return known
    definitions = [
        {
            "metric": metric.name,
            "version": metric.version,
            "unit": metric.unit,
            "better": metric.better,
            "definition": metric.definition,
            "resolution": metric.resolution,
            "source": metric.source,
        }
        for metric in {(metric.name, metric.version): metric for metric, _ in missing.values()}.values()
    ]
    _insert_if_absent(session, DefinitionRow, *definitions)
    identities = [
        {"run_id": run_id, "metric": metric.name, "version": metric.version, "params": params}
        for metric, params in missing.values()
    ]
    _insert_if_absent(session, MeasurementRow, *identities)
    return _known(session, run_id)


def _known(session: Session, run_id: int) -> dict[_Identity, int]:
    columns = select(MeasurementRow.id, MeasurementRow.metric, MeasurementRow.version, MeasurementRow.params)
    rows = session.execute(columns.where(MeasurementRow.run_id == run_id))
    return {(metric, version, tuple(sorted(params.items()))): id_ for id_, metric, version, params in rows}


def _insert_if_absent(session: Session, model: type[Base], *values: dict[str, Any]) -> None:
    """Insert rows that another writer may be inserting as well."""
    upsert = postgresql.insert if session.get_bind().dialect.name == "postgresql" else sqlite.insert
    table = cast("Table", model.__table__)
    session.connection().execute(upsert(table).on_conflict_do_nothing(), list(values))
