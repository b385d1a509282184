"""How long `lab judge run` takes when a run ends: a board with a year of runs in an SQLite store.

python bench/judge_store.py [--nights 365] [--numbers 30] [--boots 20]
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
from sqlalchemy import insert
from sqlalchemy.orm import Session

from lab.judge.run_judge import judge_run
from lab.metrics import by_name
from lab.results import Store, open_store
from lab.results.models import AttemptRow, DefinitionRow, MeasurementRow, RunRow, SampleRow

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
LAST = 10  # runs that are timed
METRIC = by_name("boot.stage")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nights", type=int, default=365)
    parser.add_argument("--numbers", type=int, default=30)
    parser.add_argument("--boots", type=int, default=20)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, open_store(str(Path(folder) / "results.db")) as store:
        rng = np.random.default_rng(1)
        for night in range(options.nights):
            record(store, night, options.numbers, options.boots, rng)
        where = Path(folder) / "judge"
        begin = time.perf_counter()
        judge_run(store, options.nights - LAST, remember=where)
        whole = time.perf_counter() - begin
        taken, cpu = [], []
        for run in range(options.nights - LAST + 1, options.nights + 1):
            begin, used = time.perf_counter(), time.process_time()
            judge_run(store, run, remember=where)
            taken.append(time.perf_counter() - begin)
            cpu.append(time.process_time() - used)
        size = sum(path.stat().st_size for path in where.iterdir())
    print(f"{options.nights} runs of {options.numbers} numbers from {options.boots} boots each")
    print(f"the whole history walked through: {whole:.2f} s")
    print(f"a run's end: median {1000 * statistics.median(taken):.0f} ms, most {1000 * max(taken):.0f} ms")
    print(f"  of a processor: median {1000 * statistics.median(cpu):.0f} ms")
    print(f"remembered: {size / 1e6:.1f} MB")


def record(store: Store, night: int, numbers: int, boots: int, rng: np.random.Generator) -> None:
    """A run, written at once."""
    at = START + dt.timedelta(days=night)
    details = {
        "software": {"kernel": f"Linux version {night // 7}"},
        "port": {"adapter": "ftdi"},
        "filler": "x" * 1500,
    }
    with Session(store._engine) as session, session.begin():
        if not night:
            fields = ("unit", "better", "definition", "resolution", "source", "version")
            session.add(DefinitionRow(metric=METRIC.name, **{name: getattr(METRIC, name) for name in fields}))
        about = {"kind": "boot", "board_type": "am62xx_sk", "board": "1", "release": "11.01", "status": "completed"}
        provenance = {"host": "lab1", "virtual": False, "filler": "x" * 1500}
        run = RunRow(**about, plan={}, provenance=provenance, started_at=at, finished_at=at)
        session.add(run)
        session.flush()
        measured = [
            MeasurementRow(
                run_id=run.id,
                metric=METRIC.name,
                version=METRIC.version,
                params={"medium": "sd", "stage": f"stage {number}"},
            )
            for number in range(numbers)
        ]
        made = {"number": 1, "params": {"medium": "sd"}, "outcome": "ok", "message": "", "duration_s": 40.0}
        attempts = [
            AttemptRow(run_id=run.id, cycle=cycle, started_at=at, details=json.loads(json.dumps(details)), **made)
            for cycle in range(1, boots + 1)
        ]
        session.add_all([*measured, *attempts])
        session.flush()
        values = np.exp(rng.normal(0, 0.006, (boots, numbers)) + rng.normal(0, 0.002, numbers))
        samples = [
            {
                "measurement_id": measured[number].id,
                "attempt_id": attempt.id,
                "value": float(values[row, number]),
                "uncertainty": 1e-4,
                "flags": frozenset(),
            }
            for row, attempt in enumerate(attempts)
            for number in range(numbers)
        ]
        session.execute(insert(SampleRow), samples)


if __name__ == "__main__":
    main()
