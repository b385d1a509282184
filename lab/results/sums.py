"""Sums that a completed run keeps, so that no reader adds up its samples again.

A run's end writes them, and those of some older runs that lack them. Without them the samples are read, with the same
result. A completed run never changes, and goes with its sums: nothing has to renew them.
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

VARIANT: Final = ("medium", "init")  # parameters: a later run replaces the numbers of its variant only
TIMED: Final = ("boot.time", "power.resume_latency", "lpm.%.resume\\_%")  # of SQL's LIKE: their values are kept, too
ATTEMPTS, MOMENTS, VARIANTS, READINGS = "attempts", "moments", "variants", "readings"  # parts of a run's sums
_STATISTICS, _FLAGS = "statistics", "flags"  # parts of a measurement's summary
_COMPLETED: Final = "completed"
Execute: TypeAlias = Callable[[Executable], Sequence[Any]]


@frozen
class Total:
    """Sums of a measurement's samples, without `uncertain` ones if possible.

    Attributes:
        error: the mean ± of a sample.
        simulated: 1: of a virtual board.
    """

    n: int
    value: float
    squares: float
    error: float
    simulated: int

    @classmethod
    def of(cls, text: str) -> Total:
        """A kept total; JSON would take a third of a history's time."""
        n, value, squares, error, simulated = text.split()
        return cls(int(n), float(value), float(squares), float(error), int(simulated))

    @property
    def text(self) -> str:
        """The total as it is kept, to the last bit."""
        return " ".join(map(repr, astuple(self)))


@frozen
class SummarisedNumber:
    """A measurement without its samples.

    Attributes:
        summary: None: it has no samples.
        flagged: number of samples by flag.
    """

    metric: Metric
    params: Mapping[str, str]
    summary: Summary | None
    flagged: Mapping[str, int]

    @classmethod
    def of(cls, metric: Metric, params: Mapping[str, str], samples: Sequence[Sample]) -> SummarisedNumber:
        """The number of these samples."""
        return cls(metric, params, summarise(samples) if samples else None, _count_flags(samples))


@frozen
class Average:
    """A number's average in one run, as of `lab.metrics.summarise`.

    Attributes:
        value: mean, in the metric's unit.
        uncertainty: ± of it at 95 %.
        simulated: of a virtual board; never compared with a real one's.
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
        """Definition, parameters, simulated: equal in comparable numbers."""
        return self.metric.name, self.metric.version, frozenset(self.params.items()), self.simulated


def totals(
    execute: Execute, run_ids: Sequence[int], *where: Any
) -> list[tuple[int, str, int, Mapping[str, str], Total]]:
    """(Run, metric, version, parameters, total) of each number with samples, in order of the measurements.

    Args:
        where: further conditions on the measurements.
    """
    table = MeasurementRow.__table__  # not the class, whose attributes a session looks after
    names = ("id", "run_id", "metric", "version", "params", "sums")
    there = (table.c.run_id.in_(run_ids), table.c.sums.is_not(None), *where)
    stored = execute(select(*(table.c[name] for name in names)).where(*there))
    numbered = [(*row[:5], Total.of(row[5])) for row in stored if row[5]]
    have = {row[1] for row in stored}
    if rest := [run_id for run_id in run_ids if run_id not in have]:
        numbered += [(*row[:5], _total(row[5:])) for row in execute(_totals(rest).where(*where))]
    return [row[1:] for row in sorted(numbered, key=lambda row: row[0])]


def averages(
    execute: Execute,
    run_ids: Sequence[int],
    definitions: Mapping[tuple[str, int], Metric],
    *where: ColumnElement[bool],
) -> Iterator[Average]:
    """Averages of these runs, in order of the measurements.

    Args:
        where: further conditions on the measurements.
    """
    for run_id, metric, version, params, total in totals(execute, run_ids, *where):
        n, mean = total.n, total.value / total.n
        deviation = math.sqrt(max(0.0, (total.squares - n * mean * mean) / (n - 1))) if n > 1 else 0.0
        pm = uncertainty.combine((uncertainty.of_deviation(deviation, n), total.error))
        yield Average(run_id, definitions[metric, version], params, n, mean, pm, bool(total.simulated))


class _Sum(FunctionElement[float]):
    """The sum of a column in the order of another: PostgreSQL's order, and so the last bits, would be any."""

    name = "sum"
    type = Double()
    inherit_cache = True


@compiles(_Sum)
def _sum(element: _Sum, compiler: SQLCompiler, **options: Any) -> str:
    value, order = (compiler.process(clause, **options) for clause in element.clauses)
    return f"sum({value} ORDER BY {order})" if compiler.dialect.name == "postgresql" else f"sum({value})"


def _totals(run_ids: Sequence[int]) -> Select[*tuple[Any, ...]]:
    """Select sums of all samples of each number, and of those without the flag `uncertain`."""
    flags = type_coerce(SampleRow.flags, Text)  # one text in the database
    unsure = flags.like(f"%{Flag.UNCERTAIN}%")
    value, error = SampleRow.value, SampleRow.uncertainty
    # Three columns tell whether a value is no finite number; to look at all nine makes a large history a tenth slower.
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
            func.max(error),  # a damaged text, of which SQLite's sum is 0, is the largest
        )
        .join(SampleRow.measurement)
        .where(MeasurementRow.run_id.in_(run_ids))
        .group_by(MeasurementRow.id, MeasurementRow.run_id, MeasurementRow.metric)
        .group_by(MeasurementRow.version, MeasurementRow.params)
    )


def _total(columns: Sequence[Any]) -> Total:
    n, value, squares, errors = columns[4:8] if columns[4] else columns[:4]
    return Total(n, value, squares, errors / n, columns[8])


def summaries(
    execute: Execute, run_ids: Sequence[int], definitions: Mapping[tuple[str, int], Metric]
) -> dict[int, list[SummarisedNumber]]:
    """The kept numbers of runs, in order of the measurements; runs without sums are left out."""
    columns = (MeasurementRow.run_id, MeasurementRow.metric, MeasurementRow.version, MeasurementRow.params)
    query = select(*columns, MeasurementRow.summary).order_by(MeasurementRow.id)
    there = (MeasurementRow.run_id.in_(run_ids), MeasurementRow.summary.is_not(None))
    by_run: dict[int, list[SummarisedNumber]] = {}
    for run_id, metric, version, params, summary in execute(query.where(*there)):
        statistics = None
        if values := summary[_STATISTICS]:
            if not all(type(value) in {int, float} for value in values):
                raise DamagedValueError(f"the sums of a measurement are no numbers: {str(values)[:60]}")
            statistics = Summary(*values)
        number = SummarisedNumber(definitions[metric, version], params, statistics, summary[_FLAGS])
        by_run.setdefault(run_id, []).append(number)
    return by_run


def read_sums(execute: Execute, run_ids: Sequence[int]) -> dict[int, Mapping[str, Any]]:
    """The sums of those runs that have some."""
    query = select(RunRow.id, RunRow.sums).where(RunRow.id.in_(run_ids), RunRow.sums.is_not(None))
    return {row[0]: row[1] for row in execute(query)}


def part(
    execute: Execute, there: Mapping[int, Mapping[str, Any]], run_ids: Sequence[int], name: str
) -> dict[int, Any]:
    """A part of each run, in order of the runs: the kept one, else from its rows.

    Args:
        there: as of `read_sums`.
    """
    rest = [run_id for run_id in run_ids if run_id not in there]
    fresh = _PARTS[name](execute, rest) if rest else {}
    return {run_id: there[run_id][name] if run_id in there else fresh[run_id] for run_id in run_ids}


def _attempts(execute: Execute, run_ids: Sequence[int]) -> dict[int, list[Any]]:
    """[parameters, outcome, fault, number] of a run's attempts."""
    columns = (AttemptRow.run_id, AttemptRow.params, AttemptRow.outcome, AttemptRow.fault)
    query = select(*columns, func.count()).where(AttemptRow.run_id.in_(run_ids)).group_by(*columns)
    by_run: dict[int, list[Any]] = {run_id: [] for run_id in run_ids}
    for run_id, *count in execute(query):
        by_run[run_id].append(count)
    for counts in by_run.values():
        counts.sort(key=lambda count: (sorted(count[0].items()), count[1], count[2] or ""))
    return by_run


def _moments(execute: Execute, run_ids: Sequence[int]) -> dict[int, int]:
    """Number of a run's moments."""
    query = select(AttemptRow.run_id, func.count()).join(MomentRow, MomentRow.attempt_id == AttemptRow.id)
    counts = dict(
        tuple(row) for row in execute(query.where(AttemptRow.run_id.in_(run_ids)).group_by(AttemptRow.run_id))
    )
    return {run_id: counts.get(run_id, 0) for run_id in run_ids}


def _variants(execute: Execute, run_ids: Sequence[int]) -> dict[int, list[Mapping[str, str]]]:
    """Media and inits of a run's numbers, as parameters."""
    query = select(MeasurementRow.run_id, MeasurementRow.params).where(MeasurementRow.run_id.in_(run_ids))
    by_run: dict[int, list[Mapping[str, str]]] = {run_id: [] for run_id in run_ids}
    for run_id, params in execute(query.distinct()):
        if (variant := {key: params[key] for key in VARIANT if key in params}) not in by_run[run_id]:
            by_run[run_id].append(variant)
    for variants in by_run.values():
        variants.sort(key=lambda variant: sorted(variant.items()))
    return by_run


def _readings(execute: Execute, run_ids: Sequence[int]) -> dict[int, list[Any]]:
    """[metric, unit, parameters, values] of a run's numbers of the metrics `TIMED`."""
    columns = (MeasurementRow.run_id, MeasurementRow.id, MeasurementRow.metric, DefinitionRow.unit)
    like = or_(*(MeasurementRow.metric.like(pattern, escape="\\") for pattern in TIMED))
    query = select(*columns, MeasurementRow.params, SampleRow.value)
    query = query.join(SampleRow.measurement).join(MeasurementRow.definition)
    by_run: dict[int, dict[int, list[Any]]] = {run_id: {} for run_id in run_ids}
    there = (MeasurementRow.run_id.in_(run_ids), like)
    for run_id, number, *about, value in execute(query.where(*there).order_by(MeasurementRow.id, SampleRow.id)):
        by_run[run_id].setdefault(number, [*about, []])[-1].append(value)
    return {run_id: list(numbers.values()) for run_id, numbers in by_run.items()}


_PARTS: Final[Mapping[str, Callable[[Execute, Sequence[int]], dict[int, Any]]]] = {
    ATTEMPTS: _attempts,
    MOMENTS: _moments,
    VARIANTS: _variants,
    READINGS: _readings,
}


def lacking(session: Session, most: int) -> list[int]:
    """The newest completed runs without sums."""
    query = select(RunRow.id).where(RunRow.status == _COMPLETED, RunRow.sums.is_(None))
    return list(session.scalars(query.order_by(RunRow.id.desc()).limit(most)))


def keep(session: Session, run_id: int) -> None:
    """Keep the sums of a run, if it is completed."""

    def execute(query: Executable) -> Sequence[Any]:
        return session.execute(query).all()

    if session.scalar(select(RunRow.status).where(RunRow.id == run_id).with_for_update()) != _COMPLETED:
        return
    added = {row[0]: _total(row[5:]) for row in execute(_totals([run_id]))}
    taken = rows.by_measurement(execute(rows.READINGS.where(AttemptRow.run_id == run_id).order_by(AttemptRow.cycle)))
    numbers = execute(select(MeasurementRow.id).where(MeasurementRow.run_id == run_id))
    changes = [
        {
            "number": number,
            "total": added[number].text if number in added else "",
            "kept": {
                _STATISTICS: astuple(summarise(samples)) if samples else None,
                _FLAGS: _count_flags(samples),
            },
        }
        for number, samples in ((row[0], taken.get(row[0], ())) for row in numbers)
    ]
    if changes:
        table = cast("Table", MeasurementRow.__table__)
        statement = (
            update(table)
            .where(table.c.id == bindparam("number"))
            .values(sums=bindparam("total"), summary=bindparam("kept"))
        )
        session.connection().execute(statement, changes)
    parts = {name: read(execute, [run_id])[run_id] for name, read in _PARTS.items()}
    session.execute(update(RunRow).where(RunRow.id == run_id).values(sums=parts))


def _count_flags(samples: Sequence[Sample]) -> dict[str, int]:
    return dict(sorted(Counter(str(flag) for sample in samples for flag in sample.flags).items()))
