"""Averages of a metric over many runs, for charts."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

from attrs import frozen
from sqlalchemy import ColumnElement, Select, func, select

from lab.metrics.catalogue import BOOT_SPL, BOOT_TIME
from lab.results.models import DefinitionRow, MeasurementRow, RunRow
from lab.results.records import APART, RunHead
from lab.results.snapshot import StoreSnapshot
from lab.results.store import Store
from lab.results.sums import Average

RUNS: Final = 12  # boot runs of a board's small chart
POINTS: Final = 360  # runs of a chart, shared by its boards
LOOKED_AT: Final = 400  # newest runs of a board that are searched for a metric
_BOOTS_LOOKED_AT: Final = 60  # newest ended runs of a board that are searched for boots
_NEWEST: Final = 500  # newest runs with a metric that are searched for boards
_METRICS: Final = (BOOT_TIME.name, BOOT_SPL.name)  # a board has one or the other


@frozen
class AveragePoint:
    """The average of a metric in one run; it covers all cycles only if the run was completed."""

    run: RunHead
    average: Average

    @property
    def incomplete(self) -> str:
        """The reason why it may not cover all cycles, e.g. `of a run that was interrupted`; empty: it does."""
        ends = {"interrupted": "was interrupted", "failed": "failed", "running": "goes on, or was killed"}
        status = self.run.status
        return "" if status == "completed" else f"of a run that {ends.get(status, status)}"


def metrics(store: Store) -> list[tuple[str, str, str]]:
    """Return name, unit and newest definition of each measured metric, sorted by name."""
    query = select(DefinitionRow.metric, DefinitionRow.unit, DefinitionRow.definition)
    rows = store.rows(query.order_by(DefinitionRow.metric, DefinitionRow.version))
    return list({row[0]: (row[0], row[1], row[2]) for row in rows}.values())


def points(
    store: Store, metric: str, conditions: Sequence[ColumnElement[bool]] = (), runs: int = 200
) -> list[AveragePoint]:
    """Return the averages of a metric in the last runs with it, the oldest run first.

    Args:
        conditions: conditions on the runs (`RunFilter.conditions`).
        runs: number of runs at most.
    """
    with store.snapshot() as snapshot:
        return _points(snapshot, metric, [row.run_id for row in snapshot.rows(_newest(metric, conditions, runs))])


def boards(store: Store, metric: str, conditions: Sequence[ColumnElement[bool]] = ()) -> list[str]:
    """Return the boards of the last runs with a metric, the one measured last first.

    Args:
        conditions: conditions on the runs (`RunFilter.conditions`).
    """
    newest = _newest(metric, conditions, _NEWEST).subquery()
    query = select(RunRow.board).join(newest, newest.c.run_id == RunRow.id).order_by(RunRow.id.desc())
    return list(dict.fromkeys(row.board for row in store.rows(query)))


def points_of(
    store: Store, metric: str, boards: Sequence[str], conditions: Sequence[ColumnElement[bool]] = ()
) -> list[AveragePoint]:
    """Return the averages of a metric on some boards, the oldest run first.

    There are at most `POINTS`, the same number for each board. A board's last `LOOKED_AT` runs are searched.

    Args:
        conditions: conditions on the runs (`RunFilter.conditions`).
    """
    ids: list[int] = []
    with store.snapshot() as snapshot:
        for board in boards:
            query = select(RunRow.id).where(RunRow.board == board, RunRow.kind.not_in(APART), *conditions)
            last = query.order_by(RunRow.id.desc()).limit(LOOKED_AT).subquery()
            has = select(MeasurementRow.id).where(MeasurementRow.run_id == last.c.id, MeasurementRow.metric == metric)
            newest = select(last.c.id).where(has.exists()).order_by(last.c.id.desc()).limit(POINTS // len(boards))
            ids += [row.id for row in snapshot.rows(newest)]
        return _points(snapshot, metric, ids)


def _newest(metric: str, conditions: Sequence[ColumnElement[bool]], runs: int) -> Select[Any]:
    """Return the query of the last runs with a metric, without the kinds `APART`."""
    query = select(MeasurementRow.run_id).join(RunRow, RunRow.id == MeasurementRow.run_id)
    query = query.where(MeasurementRow.metric == metric, RunRow.kind.not_in(APART), *conditions)
    return query.group_by(MeasurementRow.run_id).order_by(MeasurementRow.run_id.desc()).limit(runs)


def _points(snapshot: StoreSnapshot, metric: str, ids: Sequence[int]) -> list[AveragePoint]:
    """Return the averages of a metric in these runs, the oldest run first."""
    heads = {head.id: head for head in snapshot.heads_with(ids)}
    averages = snapshot.averages(sorted(ids), MeasurementRow.metric == metric)
    return sorted(
        (AveragePoint(heads[average.run_id], average) for average in averages), key=lambda point: point.run.id
    )


def boots(store: Store, boards: Collection[str]) -> dict[str, list[Average]]:
    """Return each board's average boot times in its last `RUNS` ended runs with boots, the oldest first.

    They are in seconds. Those of a board have one definition and the same parameters, those of its newest run's first
    number. A board without a boot time is left out.
    """
    newest = func.row_number().over(partition_by=RunRow.board, order_by=RunRow.id.desc())
    ended = (RunRow.board.in_(boards), RunRow.status != "running", RunRow.kind.not_in(APART))
    ranked = select(RunRow.id, RunRow.board, newest.label("place")).where(*ended).subquery()
    has = select(MeasurementRow.id).where(MeasurementRow.run_id == ranked.c.id, MeasurementRow.metric.in_(_METRICS))
    query = select(ranked.c.id, ranked.c.board).where(ranked.c.place <= _BOOTS_LOOKED_AT, has.exists())
    with store.snapshot() as snapshot:
        by_board: dict[str, list[int]] = {}
        for run_id, board in snapshot.rows(query.order_by(ranked.c.id.desc())):
            by_board.setdefault(board, []).append(run_id)
        board_of = {run_id: board for board, ids in by_board.items() for run_id in ids[:RUNS]}
        averages = list(snapshot.averages(list(board_of), MeasurementRow.metric.in_(_METRICS)))
    boots_of: dict[str, list[Average]] = {}
    for average in averages:
        boots_of.setdefault(board_of[average.run_id], []).append(average)
    return {board: _comparable_averages(numbers) for board, numbers in boots_of.items()}


def _comparable_averages(numbers: list[Average]) -> list[Average]:
    """Return the averages that can be compared with the first one of the newest run, the oldest first."""
    last = max(number.run_id for number in numbers)
    key = next(number.key for number in numbers if number.run_id == last)
    return sorted((number for number in numbers if number.key == key), key=lambda number: number.run_id)
