"""Stored sums of completed runs, so that no reader adds up their samples again.

The end of a run stores its sums, and those of some older runs that lack them. Of a run without sums the samples are
read, with the same result. A completed run never changes, and is deleted with its sums: they never need an update.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, TypeAlias, cast

from attrs import astuple, frozen
from sqlalchemy import (
    ColumnElement,
    Double,
    Executable,
    Select,
    Table,
    Text,
    bindparam,
    case,
    func,
    or_,
    select,
    type_coerce,
    update,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.orm import Session
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from lab.metrics import Flag, Metric, Sample, Summary, summarise, uncertainty
from lab.results import rows
from lab.results.columns import DamagedValueError, FloatColumn
from lab.results.models import AttemptRow, DefinitionRow, MeasurementRow, MomentRow, RunRow, SampleRow

VARIANT: Final = ("medium", "init")  # parameters of a variant: a later run replaces only the numbers of its variants
TIMED: Final = ("boot.time", "power.resume_latency", "lpm.%.resume\\_%")  # patterns of metrics whose values are stored
ATTEMPTS, MOMENTS, VARIANTS, READINGS = "attempts", "moments", "variants", "readings"  # keys of a run's sums
_STATISTICS, _FLAGS = "statistics", "flags"  # keys of a measurement's summary
_COMPLETED: Final = "completed"
Execute: TypeAlias = Callable[[Executable], Sequence[Any]]


@frozen
class Total:
    """Sums of a measurement's samples; those flagged `uncertain` are left out unless all are.

    Attributes:
        n: number of samples.
        value: sum of the values.
        squares: sum of their squares.
        error: mean ± of the samples.
        simulated: 1: the board is virtual; 0: it is real.
    """

    n: int
    value: float
    squares: float
    error: float
    simulated: int

    @classmethod
    def of(cls, text: str) -> Total:
        """Parse a stored total.

        It is no JSON, which would take a third of the time in which a history is read.
        """
        n, value, squares, error, simulated = text.split()
        return cls(int(n), float(value), float(squares), float(error), int(simulated))

    @property
    def text(self) -> str:
        """The total as it is stored, exact to the last bit."""
        return " ".join(map(repr, astuple(self)))


@frozen
class SummarisedNumber:
    """A measurement with statistics in place of its samples.

    Attributes:
        summary: the statistics; None: it has no samples.
        flagged: flag -> number of samples with it.
    """

    metric: Metric
    params: Mapping[str, str]
    summary: Summary | None
    flagged: Mapping[str, int]

    @classmethod
    def of(cls, metric: Metric, params: Mapping[str, str], samples: Sequence[Sample]) -> SummarisedNumber:
        """Return the summary of these samples."""
        return cls(metric, params, summarise(samples) if samples else None, _count_flags(samples))


@frozen
class Average:
    """The average of a number in one run, as `lab.metrics.summarise` has it.

    Attributes:
        n: number of samples.
        value: mean, in the metric's unit.
        uncertainty: ± of the mean at 95 %.
        simulated: True if the board is virtual: its numbers are never compared with a real one's.
    """

    run_id: int
    metric: Metric
    params: Mapping[str, str]
    n: int
    value: float
    uncertainty: float
    simulated: bool

    @cached_property
    def key(self) -> tuple[str, int, frozenset[tuple[str, str]], bool]:
        """Definition, parameters and kind of board: two averages are comparable if these are equal."""
        return self.metric.name, self.metric.version, frozenset(self.params.items()), self.simulated


def totals(
    execute: Execute, run_ids: Sequence[int], *where: Any
) -> list[tuple[int, str, int, Mapping[str, str], Total]]:
    """Return the total of each number with samples, in the order of the measurements.

    Args:
        execute: runs a query, and returns its rows.
        where: further conditions on the measurements.

    Returns:
        Run, metric, version of its definition, parameters, and total.
    """
    table = MeasurementRow.__table__  # the table's columns are faster to read than attributes of the mapped class
    names = ("id", "run_id", "metric", "version", "params", "sums")
    has_sums = (table.c.run_id.in_(run_ids), table.c.sums.is_not(None), *where)
    stored = execute(select(*(table.c[name] for name in names)).where(*has_sums))
    numbered = [(*row[:5], Total.of(row[5])) for row in stored if row[5]]
    stored_runs = {row[1] for row in stored}
    if other_runs := [run_id for run_id in run_ids if run_id not in stored_runs]:
        numbered += [(*row[:5], _total(row[5:])) for row in execute(_totals(other_runs).where(*where))]
    return [row[1:] for row in sorted(numbered, key=lambda row: row[0])]


def averages(
    execute: Execute,
    run_ids: Sequence[int],
    definitions: Mapping[tuple[str, int], Metric],
    *where: ColumnElement[bool],
) -> Iterator[Average]:
    """Yield the averages of these runs' numbers, in the order of the measurements.

    Args:
        execute: runs a query, and returns its rows.
        definitions: metric and version -> metric.
        where: further conditions on the measurements.
    """
    for run_id, metric, version, params, total in totals(execute, run_ids, *where):
        n, mean = total.n, total.value / total.n
        deviation = math.sqrt(max(0.0, (total.squares - n * mean * mean) / (n - 1))) if n > 1 else 0.0
        bound = uncertainty.combine((uncertainty.of_deviation(deviation, n), total.error))
        yield Average(run_id, definitions[metric, version], params, n, mean, bound, bool(total.simulated))


class _Sum(FunctionElement[float]):
    """The sum of a column in the order of another; without an order PostgreSQL's sums differ in their last bits."""

    name = "sum"
    type = Double()
    inherit_cache = True


@compiles(_Sum)
def _sum(element: _Sum, compiler: SQLCompiler, **options: Any) -> str:
    value, order = (compiler.process(clause, **options) for clause in element.clauses)
    return f"sum({value} ORDER BY {order})" if compiler.dialect.name == "postgresql" else f"sum({value})"


def _totals(run_ids: Sequence[int]) -> Select[*tuple[Any, ...]]:
    """Return the query for sums of all samples of each number, and of those without the flag `uncertain`."""
    flags = type_coerce(SampleRow.flags, Text)  # the database has all flags of a sample in one text
    unsure = flags.like(f"%{Flag.UNCERTAIN}%")
    value, error = SampleRow.value, SampleRow.uncertainty
    # Damaged values are detected in three columns only: checking all nine makes a large history a tenth slower.
    plain = type_coerce(value, Double), type_coerce(error, Double)
    sure = [case((unsure, None), else_=column) for column in (plain[0], plain[0] * plain[0], plain[1])]
    return (
        select(
            MeasurementRow.id,
            MeasurementRow.run_id,
            MeasurementRow.metric,
            MeasurementRow.version,
            MeasurementRow.params,
            func.count(value),
            type_coerce(_Sum(plain[0], SampleRow.id), FloatColumn),
            _Sum(plain[0] * plain[0], SampleRow.id),
            type_coerce(_Sum(plain[1], SampleRow.id), FloatColumn),
            func.count(sure[0]),
            _Sum(sure[0], SampleRow.id),
            _Sum(sure[1], SampleRow.id),
            _Sum(sure[2], SampleRow.id),
            func.max(case((flags.like(f"%{Flag.SIMULATED}%"), 1), else_=0)),
            func.max(error),  # a text in the place of a number is larger than each number; SQLite sums it as 0
        )
        .join(SampleRow.measurement)
        .where(MeasurementRow.run_id.in_(run_ids))
        .group_by(MeasurementRow.id, MeasurementRow.run_id, MeasurementRow.metric)
        .group_by(MeasurementRow.version, MeasurementRow.params)
    )


def _total(columns: Sequence[Any]) -> Total:
    """Return the total in a row of `_totals`, without its first five columns."""
    n, value, squares, errors = columns[4:8] if columns[4] else columns[:4]
    return Total(n, value, squares, errors / n, columns[8])


def summaries(
    execute: Execute, run_ids: Sequence[int], definitions: Mapping[tuple[str, int], Metric]
) -> dict[int, list[SummarisedNumber]]:
    """Return the stored numbers of runs, in the order of the measurements; runs without sums are left out."""
    columns = (MeasurementRow.run_id, MeasurementRow.metric, MeasurementRow.version, MeasurementRow.params)
    query = select(*columns, MeasurementRow.summary).order_by(MeasurementRow.id)
    has_summary = (MeasurementRow.run_id.in_(run_ids), MeasurementRow.summary.is_not(None))
    by_run: dict[int, list[SummarisedNumber]] = {}
    for run_id, metric, version, params, summary in execute(query.where(*has_summary)):
        statistics = None
        if values := summary[_STATISTICS]:
            if not all(type(value) in {int, float} for value in values):
                raise DamagedValueError(f"the sums of a measurement are not numbers: {str(values)[:60]}")
            statistics = Summary(*values)
        number = SummarisedNumber(definitions[metric, version], params, statistics, summary[_FLAGS])
        by_run.setdefault(run_id, []).append(number)
    return by_run


def read_sums(execute: Execute, run_ids: Sequence[int]) -> dict[int, Mapping[str, Any]]:
    """Return the stored sums of those runs that have some."""
    query = select(RunRow.id, RunRow.sums).where(RunRow.id.in_(run_ids), RunRow.sums.is_not(None))
    return {row[0]: row[1] for row in execute(query)}


def part(
    execute: Execute, stored: Mapping[int, Mapping[str, Any]], run_ids: Sequence[int], name: str
) -> dict[int, Any]:
    """Return one part of the sums of each run, in the order of the runs.

    Args:
        stored: stored sums (`read_sums`); of a run without some the part is read from its rows.
        name: ATTEMPTS, MOMENTS, VARIANTS or READINGS.
    """
    other_runs = [run_id for run_id in run_ids if run_id not in stored]
    fresh = _PARTS[name](execute, other_runs) if other_runs else {}
    return {run_id: stored[run_id][name] if run_id in stored else fresh[run_id] for run_id in run_ids}


def _attempts(execute: Execute, run_ids: Sequence[int]) -> dict[int, list[Any]]:
    """Return for each run lists of parameters, outcome, party at fault, and number of such attempts."""
    columns = (AttemptRow.run_id, AttemptRow.params, AttemptRow.outcome, AttemptRow.fault)
    query = select(*columns, func.count()).where(AttemptRow.run_id.in_(run_ids)).group_by(*columns)
    by_run: dict[int, list[Any]] = {run_id: [] for run_id in run_ids}
    for run_id, *count in execute(query):
        by_run[run_id].append(count)
    for counts in by_run.values():
        counts.sort(key=lambda count: (sorted(count[0].items()), count[1], count[2] or ""))
    return by_run


def _moments(execute: Execute, run_ids: Sequence[int]) -> dict[int, int]:
    """Return for each run the number of its moments."""
    query = select(AttemptRow.run_id, func.count()).join(MomentRow, MomentRow.attempt_id == AttemptRow.id)
    counts = dict(
        tuple(row) for row in execute(query.where(AttemptRow.run_id.in_(run_ids)).group_by(AttemptRow.run_id))
    )
    return {run_id: counts.get(run_id, 0) for run_id in run_ids}


def _variants(execute: Execute, run_ids: Sequence[int]) -> dict[int, list[Mapping[str, str]]]:
    """Return for each run the variants of its numbers, i.e. their medium and init as parameters."""
    query = select(MeasurementRow.run_id, MeasurementRow.params).where(MeasurementRow.run_id.in_(run_ids))
    by_run: dict[int, list[Mapping[str, str]]] = {run_id: [] for run_id in run_ids}
    for run_id, params in execute(query.distinct()):
        if (variant := {key: params[key] for key in VARIANT if key in params}) not in by_run[run_id]:
            by_run[run_id].append(variant)
    for variants in by_run.values():
        variants.sort(key=lambda variant: sorted(variant.items()))
    return by_run


def _readings(execute: Execute, run_ids: Sequence[int]) -> dict[int, list[Any]]:
    """Return for each run lists of metric, unit, parameters and values, of the metrics `TIMED`."""
    columns = (MeasurementRow.run_id, MeasurementRow.id, MeasurementRow.metric, DefinitionRow.unit)
    like = or_(*(MeasurementRow.metric.like(pattern, escape="\\") for pattern in TIMED))
    query = select(*columns, MeasurementRow.params, SampleRow.value)
    query = query.join(SampleRow.measurement).join(MeasurementRow.definition)
    by_run: dict[int, dict[int, list[Any]]] = {run_id: {} for run_id in run_ids}
    query = query.where(MeasurementRow.run_id.in_(run_ids), like)
    for run_id, number, *identity, value in execute(query.order_by(MeasurementRow.id, SampleRow.id)):
        by_run[run_id].setdefault(number, [*identity, []])[-1].append(value)
    return {run_id: list(numbers.values()) for run_id, numbers in by_run.items()}


_PARTS: Final[Mapping[str, Callable[[Execute, Sequence[int]], dict[int, Any]]]] = {
    ATTEMPTS: _attempts,
    MOMENTS: _moments,
    VARIANTS: _variants,
    READINGS: _readings,
}


def lacking(session: Session, most: int) -> list[int]:
    """Return the ids of completed runs without sums, at most `most`, the newest first."""
    query = select(RunRow.id).where(RunRow.status == _COMPLETED, RunRow.sums.is_(None))
    return list(session.scalars(query.order_by(RunRow.id.desc()).limit(most)))


def keep(session: Session, run_id: int) -> None:
    """Store the sums of a run, if it is completed."""

    def execute(query: Executable) -> Sequence[Any]:
        return session.execute(query).all()

    if session.scalar(select(RunRow.status).where(RunRow.id == run_id).with_for_update()) != _COMPLETED:
        return
    totals_by_id = {row[0]: _total(row[5:]) for row in execute(_totals([run_id]))}
    readings = execute(rows.READINGS.where(AttemptRow.run_id == run_id).order_by(AttemptRow.cycle))
    samples_by_id = rows.by_measurement(readings)
    measurement_ids = [row[0] for row in execute(select(MeasurementRow.id).where(MeasurementRow.run_id == run_id))]
    changes = []
    for measurement_id in measurement_ids:
        samples = samples_by_id.get(measurement_id, ())
        statistics = astuple(summarise(samples)) if samples else None
        changes.append(
            {
                "measurement": measurement_id,
                "total": totals_by_id[measurement_id].text if measurement_id in totals_by_id else "",
                "new_summary": {_STATISTICS: statistics, _FLAGS: _count_flags(samples)},
            }
        )
    if changes:
        table = cast("Table", MeasurementRow.__table__)
        statement = (
            update(table)
            .where(table.c.id == bindparam("measurement"))
            .values(sums=bindparam("total"), summary=bindparam("new_summary"))
        )
        session.connection().execute(statement, changes)
    parts = {name: read(execute, [run_id])[run_id] for name, read in _PARTS.items()}
    session.execute(update(RunRow).where(RunRow.id == run_id).values(sums=parts))


def _count_flags(samples: Sequence[Sample]) -> dict[str, int]:
    """Return how many samples have each flag, sorted by flag."""
    return dict(sorted(Counter(str(flag) for sample in samples for flag in sample.flags).items()))
