"""A store with as many boards as wanted, written in bulk: what a farm's looks like after a while."""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine, insert

from lab.metrics import by_name
from lab.metrics.catalogue import published
from lab.results import open_store
from lab.results.models import AttemptRow, DefinitionRow, MeasurementRow, RunRow, SampleRow

AT = dt.datetime(2026, 3, 2, 9, 30, tzinfo=dt.UTC)
_TOGETHER = 100  # runs in one insert
METRICS = ("boot.time", *(metric.name for metric in published()))


def fill(path: Path, *, boards: int, metrics: int, samples: int, releases: int = 1) -> str:
    """Make the store: each board has one completed run a release, with `metrics` measurements of `samples` samples.

    Returns: its URL.
    """
    url = f"sqlite:///{path}"
    open_store(url).close()
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(insert(DefinitionRow), [_definition(name) for name in METRICS])
        ids = itertools.count(1)
        measurement_ids = itertools.count(1)
        wanted = [(board, release) for board in range(boards) for release in range(releases)]
        for start in range(0, len(wanted), _TOGETHER):
            runs = {
                next(ids): (f"board-{board:04}", f"{release + 1:02}.00")
                for board, release in wanted[start : start + _TOGETHER]
            }
            rows = [row for run_id in runs for row in _measurements(run_id, metrics, measurement_ids)]
            connection.execute(insert(RunRow), [_run(run_id, *names) for run_id, names in runs.items()])
            connection.execute(insert(AttemptRow), [_attempt(run_id, run_id) for run_id in runs])
            connection.execute(insert(MeasurementRow), rows)
            connection.execute(
                insert(SampleRow),
                [_sample(row["id"], row["run_id"], number) for row in rows for number in range(samples)],
            )
    engine.dispose()
    return url


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


def _measurements(run_id: int, count: int, ids: Iterator[int]) -> Iterator[dict[str, Any]]:
    for number in range(count):
        size, which = divmod(number, len(METRICS))
        params: Mapping[str, str] = {"medium": "sd", "size": f"{size}k"} if size else {"medium": "sd"}
        yield {"id": next(ids), "run_id": run_id, "metric": METRICS[which], "version": 1, "params": params}


def _run(run_id: int, board: str, release: str) -> dict[str, Any]:
    return {
        "id": run_id,
        "kind": "boot",
        "board_type": "am62xx_sk",
        "board": board,
        "release": release,
        "status": "completed",
        "plan": {},
        "provenance": {},
        "started_at": AT + dt.timedelta(seconds=run_id),
        "finished_at": AT + dt.timedelta(seconds=run_id + 60),
    }


def _attempt(attempt_id: int, run_id: int) -> dict[str, Any]:
    return {
        "id": attempt_id,
        "run_id": run_id,
        "cycle": 1,
        "number": 1,
        "params": {"medium": "sd"},
        "outcome": "ok",
        "message": "",
        "started_at": AT,
        "duration_s": 6.0,
        "details": {},
    }


def _sample(measurement_id: int, attempt_id: int, number: int) -> dict[str, Any]:
    value = 2.0 + measurement_id % 7 / 10 + number / 100
    return {
        "measurement_id": measurement_id,
        "attempt_id": attempt_id,
        "value": value,
        "uncertainty": 0.001,
        "flags": frozenset({"simulated"}),
    }
