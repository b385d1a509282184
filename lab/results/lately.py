"""How long boards' last boots took, run by run: what a wall of boards shows of each in a small line."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from sqlalchemy import func, select

from lab.metrics.catalogue import BOOT_SPL, BOOT_TIME
from lab.results import averages, readout
from lab.results.averages import Average
from lab.results.models import DefinitionRow, MeasurementRow, RunRow
from lab.results.records import PUBLISHED
from lab.results.store import Store

RUNS: Final = 12
_LOOKED_AT: Final = 60  # a board's newest ended runs, among which those with a boot are looked for
_METRICS: Final = (BOOT_TIME.name, BOOT_SPL.name)  # a board has one or the other


def boots(store: Store, boards: Collection[str]) -> dict[str, list[Average]]:
    """Board -> the averages of its last `RUNS` ended runs that have a boot time, in seconds, the oldest first.

    All of a board have the definition and the parameters of the newest one's first; a board without any is left out.
    """
    newest = func.row_number().over(partition_by=RunRow.board, order_by=RunRow.id.desc())
    ended = (RunRow.board.in_(boards), RunRow.status != "running", RunRow.kind != PUBLISHED)
    ranked = select(RunRow.id, RunRow.board, newest.label("place")).where(*ended).subquery()
    has = select(MeasurementRow.id).where(MeasurementRow.run_id == ranked.c.id, MeasurementRow.metric.in_(_METRICS))
    wanted = select(ranked.c.id, ranked.c.board).where(ranked.c.place <= _LOOKED_AT, has.exists())
    with store._read() as session:
        by_board: dict[str, list[int]] = {}
        for run_id, board in session.execute(wanted.order_by(ranked.c.id.desc())):
            by_board.setdefault(board, []).append(run_id)
        board_of = {run_id: board for board, ids in by_board.items() for run_id in ids[:RUNS]}
        definitions = {
            (row.metric, row.version): readout.metric(row)
            for row in session.scalars(select(DefinitionRow).where(DefinitionRow.metric.in_(_METRICS)))
        }
        rows = session.execute(averages.query(list(board_of)).where(MeasurementRow.metric.in_(_METRICS))).all()
    found: dict[str, list[Average]] = {}
    for average in averages.averages(rows, definitions):
        found.setdefault(board_of[average.run_id], []).append(average)
    return {board: _alike(numbers) for board, numbers in found.items()}


def _alike(numbers: list[Average]) -> list[Average]:
    """Those that may stand in one line with the newest run's first."""
    last = max(number.run_id for number in numbers)
    key = next(number.key for number in numbers if number.run_id == last)
    return sorted((number for number in numbers if number.key == key), key=lambda number: number.run_id)
