"""The averages of one metric over the last runs, board by board, made by the database."""

from __future__ import annotations

import datetime as dt

from attrs import frozen
from sqlalchemy import Select, select

from lab.results import averages, readout
from lab.results.averages import Average
from lab.results.models import DefinitionRow, MeasurementRow, RunRow
from lab.results.records import PUBLISHED
from lab.results.store import Store


@frozen
class Point:
    """The average of a metric in a run."""

    run_id: int
    board_type: str
    board: str
    release: str
    started_at: dt.datetime
    average: Average


def metrics(store: Store) -> list[tuple[str, str, str]]:
    """Name, unit and definition of every metric that was measured, by name; of several definitions the newest."""
    wanted = select(DefinitionRow.metric, DefinitionRow.unit, DefinitionRow.definition)
    with store._read() as session:
        rows = session.execute(wanted.order_by(DefinitionRow.metric, DefinitionRow.version)).all()
    return list({row[0]: (row[0], row[1], row[2]) for row in rows}.values())


def points(store: Store, metric: str, board: str = "", board_type: str = "", runs: int = 200) -> list[Point]:
    """The averages of a metric, the oldest run first; of vendors' guides none.

    Args:
        board, board_type: names; empty: any. runs: the last so many that have the metric.
    """
    with store._read() as session:
        ids = list(session.scalars(_runs(metric, board, board_type).limit(runs)))
        heads = {
            row.id: row
            for row in session.execute(
                select(RunRow.id, RunRow.board_type, RunRow.board, RunRow.release, RunRow.started_at).where(
                    RunRow.id.in_(ids)
                )
            )
        }
        definitions = {
            (row.metric, row.version): readout.metric(row)
            for row in session.scalars(select(DefinitionRow).where(DefinitionRow.metric == metric))
        }
        rows = session.execute(averages.query(ids).where(MeasurementRow.metric == metric)).all()
    found = [
        Point(head.id, head.board_type, head.board, head.release, head.started_at, average)
        for average in averages.averages(rows, definitions)
        for head in [heads[average.run_id]]
    ]
    return sorted(found, key=lambda point: point.run_id)


def _runs(metric: str, board: str, board_type: str) -> Select[int]:
    has = select(MeasurementRow.id).where(MeasurementRow.run_id == RunRow.id, MeasurementRow.metric == metric).exists()
    query = select(RunRow.id).where(has, RunRow.kind != PUBLISHED)
    for column, name in ((RunRow.board, board), (RunRow.board_type, board_type)):
        query = query.where(column == name) if name else query
    return query.order_by(RunRow.id.desc())
