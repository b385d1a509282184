"""Averages of many runs, for the judge's history."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final

from attrs import frozen
from sqlalchemy import ColumnElement, Executable, Select, func, select

from lab.metrics import Metric, uncertainty
from lab.results import rows as results_rows
from lab.results import sums
from lab.results.models import AttemptRow, DefinitionRow, MeasurementRow, ReviewRow, RunRow
from lab.results.records import APART
from lab.results.store import Store
from lab.results.sums import Execute

_COMPLETED: Final = "completed"


@frozen
class Average:
    """A number's average in one run, as of `lab.metrics.summarise`.

    Attributes:
        value: mean, in the metric's unit. uncertainty: ± of it at 95 %.
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
    for run_id, metric, version, params, total in sums.totals(execute, run_ids, *where):
        n, mean = total.n, total.value / total.n
        deviation = math.sqrt(max(0.0, (total.squares - n * mean * mean) / (n - 1))) if n > 1 else 0.0
        pm = uncertainty.combined((uncertainty.of_deviation(deviation, n), total.error))
        yield Average(run_id, definitions[metric, version], params, n, mean, pm, bool(total.simulated))


def decisions() -> Executable:
    """(Run, decision) of every review, the newest last."""
    return select(ReviewRow.run_id, ReviewRow.decision).order_by(ReviewRow.id)


def provenances(run_ids: Sequence[int]) -> Executable:
    """(Run, provenance)."""
    return select(RunRow.id, RunRow.provenance).where(RunRow.id.in_(run_ids))


def details(run_ids: Sequence[int]) -> Executable:
    """(Run, details) of the good attempts, the oldest first."""
    wanted = select(AttemptRow.run_id, AttemptRow.details).where(AttemptRow.run_id.in_(run_ids))
    return wanted.where(AttemptRow.outcome == "ok").order_by(AttemptRow.id)


def last_details(run_ids: Sequence[int]) -> Executable:
    """(Run, details) of the last good attempt of each."""
    lasts = select(func.max(AttemptRow.id)).where(AttemptRow.run_id.in_(run_ids), AttemptRow.outcome == "ok")
    return select(AttemptRow.run_id, AttemptRow.details).where(AttemptRow.id.in_(lasts.group_by(AttemptRow.run_id)))


# --- Averages of one metric over runs ---


@frozen
class AveragePoint:
    """The average of a metric in a run.

    Attributes:
        status: of the run; the number is whole only where it was completed.
    """

    run_id: int
    board_type: str
    board: str
    release: str
    started_at: dt.datetime
    average: Average
    status: str = _COMPLETED

    @property
    def incomplete(self) -> str:
        """`of a run that was interrupted`; empty: the run was completed."""
        ends = {"interrupted": "was interrupted", "failed": "failed", "running": "goes on, or was killed"}
        return "" if self.status == _COMPLETED else f"of a run that {ends.get(self.status, self.status)}"


def metrics(store: Store) -> list[tuple[str, str, str]]:
    """Name, unit and newest definition of every measured metric, by name."""
    wanted = select(DefinitionRow.metric, DefinitionRow.unit, DefinitionRow.definition)
    with store._read() as session:
        rows = session.execute(wanted.order_by(DefinitionRow.metric, DefinitionRow.version)).all()
    return list({row[0]: (row[0], row[1], row[2]) for row in rows}.values())


def points(
    store: Store, metric: str, wanted: Sequence[ColumnElement[bool]] = (), runs: int = 200
) -> list[AveragePoint]:
    """Averages of a metric, oldest run first, without vendors' guides.

    Args:
        wanted: conditions on the runs, see `RunFilter.wanted`. runs: number of the last runs with the metric.
    """
    with store._read() as session:
        ids = list(session.scalars(_runs(metric, wanted).limit(runs)))
        heads = {
            row.id: row
            for row in session.execute(
                select(
                    RunRow.id, RunRow.board_type, RunRow.board, RunRow.release, RunRow.started_at, RunRow.status
                ).where(RunRow.id.in_(ids))
            )
        }
        definitions = {
            (row.metric, row.version): results_rows.metric(row)
            for row in session.scalars(select(DefinitionRow).where(DefinitionRow.metric == metric))
        }
        numbers = list(
            averages(lambda wanted: session.execute(wanted).all(), ids, definitions, MeasurementRow.metric == metric)
        )
    found = [
        AveragePoint(head.id, head.board_type, head.board, head.release, head.started_at, average, head.status)
        for average in numbers
        for head in [heads[average.run_id]]
    ]
    return sorted(found, key=lambda point: point.run_id)


def _runs(metric: str, wanted: Sequence[ColumnElement[bool]]) -> Select[int]:
    has = select(MeasurementRow.id).where(MeasurementRow.run_id == RunRow.id, MeasurementRow.metric == metric).exists()
    return select(RunRow.id).where(has, RunRow.kind.not_in(APART), *wanted).order_by(RunRow.id.desc())
