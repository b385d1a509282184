"""A store with as many boards as wanted, written in bulk by the database itself: what a farm's looks like after a while."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, bindparam, insert, literal, select, true, union_all

from lab.metrics import by_name
from lab.metrics.catalogue import published
from lab.results import open_store
from lab.results.models import AttemptRow, DefinitionRow, MeasurementRow, RunRow, SampleRow

AT: Final = dt.datetime(2026, 3, 2, 9, 30, tzinfo=dt.UTC)
METRICS: Final = ("boot.time", *(metric.name for metric in published()))
_TOGETHER: Final = 500  # runs in one transaction
_STEP: Final = dt.timedelta(seconds=1)  # from one run to the next


def fill(
    store: Path | str,
    *,
    boards: int,
    metrics: int,
    samples: int,
    releases: int = 1,
    nights: int = 1,
    last: dt.datetime | None = None,
) -> str:
    """Fill a store: each board has a completed run a night, with `metrics` measurements of `samples` samples.

    A run has an attempt a sample. All boards are measured with a release before the next one comes.

    Args:
        store: a file of SQLite, or the URL of an empty database. nights: of each release. last: when the last run began; None: the first began at AT.

    Returns: its URL.
    """
    url = f"sqlite:///{store}" if isinstance(store, Path) else store
    first = AT if last is None else last - boards * releases * nights * _STEP
    runs = [
        _run(number, f"board-{board:04}", f"{release + 1:02}.00", first)
        for number, (release, board) in enumerate(
            ((night // nights, b) for night in range(releases * nights) for b in range(boards)), start=1
        )
    ]
    with open_store(url) as opened:
        engine = opened._engine
        with engine.begin() as connection:
            connection.execute(insert(DefinitionRow), [_definition(name) for name in METRICS])
        for start in range(0, len(runs), _TOGETHER):
            with engine.begin() as connection:
                _add(connection, runs[start : start + _TOGETHER], metrics, samples)
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.exec_driver_sql("ANALYZE")
            if engine.dialect.name == "postgresql":  # the numbers were given, the sequence does not know
                connection.exec_driver_sql(f"ALTER SEQUENCE runs_id_seq RESTART WITH {len(runs) + 1}")
    return url


def _add(connection: Connection, runs: Sequence[dict[str, Any]], metrics: int, samples: int) -> None:
    """Runs with all that belongs to them: the database writes the rows itself, which is ten times as fast."""
    connection.execute(insert(RunRow), runs)
    these = RunRow.id.between(runs[0]["id"], runs[-1]["id"])
    kinds = [_number(number) for number in range(metrics)]
    named = union_all(
        *(
            select(
                literal(place).label("place"),
                literal(metric).label("metric"),
                bindparam(None, params, MeasurementRow.params.type).label("params"),
            )
            for place, (metric, params) in enumerate(kinds)
        )
    ).subquery()
    wanted = select(RunRow.id, named.c.metric, literal(1), named.c.params).join(named, true()).where(these)
    columns = ["run_id", "metric", "version", "params"]
    connection.execute(insert(MeasurementRow).from_select(columns, wanted.order_by(RunRow.id, named.c.place)))
    cycles = union_all(*(select(literal(cycle).label("cycle")) for cycle in range(1, samples + 1))).subquery()
    rest = {"number": 1, "params": {"medium": "sd"}, "outcome": "ok", "message": "", "duration_s": 6.0, "details": {}}
    fixed = [bindparam(None, value, getattr(AttemptRow, name).type) for name, value in rest.items()]
    tried = select(RunRow.id, cycles.c.cycle, RunRow.started_at, *fixed).join(cycles, true()).where(these)
    columns = ["run_id", "cycle", "started_at", *rest]
    connection.execute(insert(AttemptRow).from_select(columns, tried.order_by(RunRow.id, cycles.c.cycle)))
    value = 2.0 + MeasurementRow.id % 7 / 10.0 + AttemptRow.id % 100 * 79 % 100 / 10000.0
    flags = bindparam(None, frozenset({"simulated"}), SampleRow.flags.type)
    taken = select(MeasurementRow.id, AttemptRow.id, value, literal(0.001), flags).where(
        AttemptRow.run_id.between(runs[0]["id"], runs[-1]["id"]), MeasurementRow.run_id == AttemptRow.run_id
    )
    columns = ["measurement_id", "attempt_id", "value", "uncertainty", "flags"]
    connection.execute(insert(SampleRow).from_select(columns, taken.order_by(AttemptRow.id, MeasurementRow.id)))


def _definition(name: str) -> dict[str, Any]:
    metric = by_name(name)
    return {
        "metric": name,
        "version": metric.version,
        "unit": metric.unit,
        "better": metric.better,
        "definition": metric.definition,
        "resolution": metric.resolution,
        "source": metric.source,
    }


def _number(number: int) -> tuple[str, dict[str, str]]:
    """Metric and parameters."""
    size, which = divmod(number, len(METRICS))
    return METRICS[which], {"medium": "sd", "size": f"{size}k"} if size else {"medium": "sd"}


def _run(run_id: int, board: str, release: str, first: dt.datetime) -> dict[str, Any]:
    return {
        "id": run_id,
        "kind": "boot",
        "board_type": "am62xx_sk",
        "board": board,
        "release": release,
        "status": "completed",
        "plan": {},
        "provenance": {},
        "started_at": first + run_id * _STEP,
        "finished_at": first + run_id * _STEP + dt.timedelta(seconds=60),
    }
