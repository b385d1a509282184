"""The numbers of a board's many runs for the judge: values without their evidence."""

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

Item = tuple[tuple[str, str], ...]  # sorted parameters of an attempt, which name its item of the run's plan


@frozen
class MeasuredNumber:
    """The identity of a number that a board's runs measure.

    Attributes:
        version: version of the metric's definition.
        params: sorted parameters.
    """

    metric: str
    version: int
    params: Item


@frozen
class HistoryRunHead:
    """A run's place in its board's history, and its last change.

    Attributes:
        night: id of the run that this one confirms, else its own.
    """

    id: int
    status: str
    finished_at: dt.datetime | None
    night: int


@frozen
class RunReadings:
    """The readings of a number in one run.

    Attributes:
        values: values in the metric's unit, without those flagged `uncertain`.
        item: item of the attempts that measured them.
        higher_is_better: the metric's direction.
    """

    values: tuple[float, ...]
    item: Item
    higher_is_better: bool


@frozen
class RunNumbers:
    """All numbers of a run.

    Attributes:
        failed: tried item -> number of its cycles without a good attempt.
        details: details of the first good attempt at each item.
        simulated: True if the board is virtual.
    """

    run: Run
    numbers: Mapping[MeasuredNumber, RunReadings] = field(factory=dict)
    failed: Mapping[Item, int] = field(factory=dict)
    details: Sequence[Json] = ()
    simulated: bool = False


def run_heads(store: Store, like: Run) -> list[HistoryRunHead]:
    """Return all runs of the same kind and board as one run, the oldest first.

    A run that confirms another one follows it directly.
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
    """Read the numbers of these runs, in this order; ids without a run are skipped."""

    def read(session: Session) -> list[RunNumbers]:
        runs = {row.id: rows.run(row) for row in session.scalars(select(RunRow).where(RunRow.id.in_(run_ids)))}
        cycles, items = _read_attempts(session, run_ids)
        details = _read_details(session, run_ids)
        numbers, flagged = _read_readings(session, run_ids, items)
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
    """Return an attempt's parameters as a hashable key."""
    return tuple(sorted(params.items()))


def _read_attempts(
    session: Session, run_ids: Sequence[int]
) -> tuple[dict[int, dict[Item, dict[int, bool]]], dict[int, Item]]:
    """Read the outcomes of attempts.

    Returns:
        Run -> item -> cycle -> whether it has a good attempt; id of an attempt -> its item.
    """
    row = AttemptRow
    query = select(row.id, row.run_id, row.params, row.cycle, row.outcome).where(row.run_id.in_(run_ids))
    cycles: dict[int, dict[Item, dict[int, bool]]] = {}
    items: dict[int, Item] = {}
    for attempt_id, run_id, params, cycle, outcome in session.execute(query):
        items[attempt_id] = item_of(params)
        done = cycles.setdefault(run_id, {}).setdefault(items[attempt_id], {})
        done[cycle] = done.get(cycle, False) or outcome == OK
    return cycles, items


def _read_details(session: Session, run_ids: Sequence[int]) -> dict[int, list[Json]]:
    """Read for each run the details of the first good attempt at each item."""
    first = select(func.min(AttemptRow.id)).where(AttemptRow.run_id.in_(run_ids), AttemptRow.outcome == OK)
    first = first.group_by(AttemptRow.run_id, AttemptRow.params)
    query = select(AttemptRow.run_id, AttemptRow.details).where(AttemptRow.id.in_(first)).order_by(AttemptRow.id)
    by_run: dict[int, list[Json]] = {}
    for run_id, details in session.execute(query):
        by_run.setdefault(run_id, []).append(details)
    return by_run


def _read_readings(
    session: Session, run_ids: Sequence[int], item_of_attempt: Mapping[int, Item]
) -> tuple[dict[int, dict[MeasuredNumber, RunReadings]], set[int]]:
    """Read the samples of runs.

    Returns:
        Run -> its numbers; ids of the runs with samples of a virtual board.
    """
    higher_is_better = {
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
    samples = (
        select(SampleRow.measurement_id, SampleRow.attempt_id, SampleRow.value, SampleRow.flags)
        .join(SampleRow.measurement)
        .where(measurement.run_id.in_(run_ids))
        .order_by(SampleRow.id)
    )
    values: dict[int, list[float]] = {}
    items: dict[int, Item] = {}
    simulated_runs: set[int] = set()
    for measurement_id, attempt_id, value, flags in session.execute(samples):
        certain_values = values.setdefault(measurement_id, [])
        items.setdefault(measurement_id, item_of_attempt[attempt_id])
        if Flag.UNCERTAIN not in flags:
            certain_values.append(value)
        if Flag.SIMULATED in flags:
            simulated_runs.add(measured[measurement_id][0])
    by_run: dict[int, dict[MeasuredNumber, RunReadings]] = {}
    for measurement_id, certain_values in values.items():
        run_id, number = measured[measurement_id]
        higher = higher_is_better[number.metric, number.version]
        by_run.setdefault(run_id, {})[number] = RunReadings(tuple(certain_values), items[measurement_id], higher)
    return by_run, simulated_runs
