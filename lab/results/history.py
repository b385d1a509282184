"""The numbers of many runs: values without their evidence."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence

from attrs import field, frozen
from sqlalchemy import String, cast, func, select
from sqlalchemy.orm import Session

from lab.metrics import Flag
from lab.results import rows
from lab.results.models import AttemptRow, DefinitionRow, MeasurementRow, RunRow, SampleRow
from lab.results.records import OK, Json, Run
from lab.results.store import Store

Item = tuple[tuple[str, str], ...]  # an attempt's parameters, sorted: what of the run's plan it was of


@frozen
class MeasuredNumber:
    """Identity of a board's number.

    Attributes:
        params: sorted.
    """

    metric: str
    version: int
    params: Item


@frozen
class HistoryRunHead:
    """A run's position in its board's history, with its last change.

    Attributes:
        night: the run that it confirms, or itself.
    """

    id: int
    status: str
    finished_at: dt.datetime | None
    night: int


@frozen
class RunReadings:
    """The samples of a number in one run.

    Attributes:
        values: in the metric's unit, without those whose ± is above half of the value.
        item: of their attempts.
    """

    values: tuple[float, ...]
    item: Item
    higher_is_better: bool


@frozen
class RunNumbers:
    """A run's numbers.

    Attributes:
        failed: by tried item, the number of cycles without a good attempt.
        details: of the first good attempt at each item.
        simulated: on a virtual board.
    """

    run: Run
    numbers: Mapping[MeasuredNumber, RunReadings] = field(factory=dict)
    failed: Mapping[Item, int] = field(factory=dict)
    details: Sequence[Json] = ()
    simulated: bool = False


def run_heads(store: Store, like: Run) -> list[HistoryRunHead]:
    """All runs of the same kind and board, the oldest night first.

    A run that confirms another one stands behind it.
    """
    same_series = (RunRow.board_type == like.board_type, RunRow.board == like.board, RunRow.kind == like.kind)
    query = select(RunRow.id, RunRow.status, RunRow.finished_at).where(*same_series)
    confirming = select(RunRow.id, RunRow.provenance).where(
        *same_series, cast(RunRow.provenance, String).contains('"confirms"')
    )
    with store.snapshot() as snapshot:
        confirmed = {run: provenance.get("confirms") for run, provenance in snapshot.rows(confirming)}
        nights: dict[int, int] = {}
        heads = [
            HistoryRunHead(
                row.id,
                row.status,
                row.finished_at,
                nights.setdefault(row.id, nights.get(confirmed.get(row.id, row.id), row.id)),
            )
            for row in snapshot.rows(query.order_by(RunRow.id))
        ]
    return sorted(heads, key=lambda head: (head.night, head.id))


def read_numbers(store: Store, run_ids: Sequence[int]) -> list[RunNumbers]:
    """The numbers of these runs, in this order; missing runs are skipped."""

    def read(session: Session) -> list[RunNumbers]:
        runs = {row.id: rows.run(row) for row in session.scalars(select(RunRow).where(RunRow.id.in_(run_ids)))}
        cycles, items = _attempts(session, run_ids)
        details = _details(session, run_ids)
        numbers, flagged = _numbers(session, run_ids, items)
        return [
            RunNumbers(
                run,
                numbers.get(run_id, {}),
                {item: sum(not good for good in done.values()) for item, done in cycles.get(run_id, {}).items()},
                details.get(run_id, ()),
                run.provenance.get("virtual") is True or run_id in flagged,
            )
            for run_id in run_ids
            if (run := runs.get(run_id)) is not None
        ]

    return store.read(read)


def item_of(params: Mapping[str, str]) -> Item:
    """Parameters as a hashable key."""
    return tuple(sorted(params.items()))


def _attempts(
    session: Session, run_ids: Sequence[int]
) -> tuple[dict[int, dict[Item, dict[int, bool]]], dict[int, Item]]:
    """Cycles' success by run and item, and attempts' items."""
    row = AttemptRow
    query = select(row.id, row.run_id, row.params, row.cycle, row.outcome).where(row.run_id.in_(run_ids))
    cycles: dict[int, dict[Item, dict[int, bool]]] = {}
    items: dict[int, Item] = {}
    for attempt_id, run_id, params, cycle, outcome in session.execute(query):
        items[attempt_id] = item_of(params)
        done = cycles.setdefault(run_id, {}).setdefault(items[attempt_id], {})
        done[cycle] = done.get(cycle, False) or outcome == OK
    return cycles, items


def _details(session: Session, run_ids: Sequence[int]) -> dict[int, list[Json]]:
    first = select(func.min(AttemptRow.id)).where(AttemptRow.run_id.in_(run_ids), AttemptRow.outcome == OK)
    first = first.group_by(AttemptRow.run_id, AttemptRow.params)
    query = select(AttemptRow.run_id, AttemptRow.details).where(AttemptRow.id.in_(first)).order_by(AttemptRow.id)
    by_run: dict[int, list[Json]] = {}
    for run_id, details in session.execute(query):
        by_run.setdefault(run_id, []).append(details)
    return by_run


def _numbers(
    session: Session, run_ids: Sequence[int], item_of_attempt: Mapping[int, Item]
) -> tuple[dict[int, dict[MeasuredNumber, RunReadings]], set[int]]:
    """(run -> its numbers, runs with samples of a virtual board)."""
    better = {
        (metric, version): better == "higher"
        for metric, version, better in session.execute(
            select(DefinitionRow.metric, DefinitionRow.version, DefinitionRow.better)
        )
    }
    measurement = MeasurementRow
    rows = select(
        measurement.id, measurement.run_id, measurement.metric, measurement.version, measurement.params
    ).where(measurement.run_id.in_(run_ids))
    measured = {row[0]: (row[1], MeasuredNumber(row[2], row[3], item_of(row[4]))) for row in session.execute(rows)}
    taken = (
        select(SampleRow.measurement_id, SampleRow.attempt_id, SampleRow.value, SampleRow.flags)
        .join(SampleRow.measurement)
        .where(measurement.run_id.in_(run_ids))
        .order_by(SampleRow.id)
    )
    values: dict[int, list[float]] = {}
    items: dict[int, Item] = {}
    flagged: set[int] = set()
    for measurement_id, attempt_id, value, flags in session.execute(taken):
        into = values.setdefault(measurement_id, [])
        items.setdefault(measurement_id, item_of_attempt[attempt_id])
        if Flag.UNCERTAIN not in flags:
            into.append(value)
        if Flag.SIMULATED in flags:
            flagged.add(measured[measurement_id][0])
    by_run: dict[int, dict[MeasuredNumber, RunReadings]] = {}
    for measurement_id, some in values.items():
        run_id, number = measured[measurement_id]
        higher = better[number.metric, number.version]
        by_run.setdefault(run_id, {})[number] = RunReadings(tuple(some), items[measurement_id], higher)
    return by_run, flagged
