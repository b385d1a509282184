"""Losses, errors and commit times when many programs write to one store.

    uv run python bench/store_load.py [--writers 64] [--attempts 50] [--rate 1.0] [--postgresql]

Each writer is a process that opens the store, begins a run of its own board, and records attempts as a boot does (9 samples,
7 moments), `--rate` of them a second (0: as fast as it can). Then the store is read back and every attempt, sample and moment
is compared with what was written. SQLite is on the disk of the temporary folder; --postgresql starts a server of the
distribution's package on loopback beside it.
Aim: 64 writers, no error, nothing lost, on both.
"""

from __future__ import annotations

import datetime as dt
import multiprocessing
import random
import tempfile
import time
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier

import numpy as np
from attrs import frozen
from common import parser, print_table
from support.postgresql_cluster import cluster
from support.recorded_run import START, boot

from lab.errors import BoardlabError
from lab.results import AttemptRecord, open_store

Result = tuple[int, list[float], list[str]]


@frozen
class Load:
    """What each writer does."""

    url: str
    attempts: int
    rate: float


def attempt(cycle: int, seed: int) -> AttemptRecord:
    """The same for the same writer and cycle, so that it can be compared."""
    good = boot("sd", cycle, random.Random(seed * 10_000 + cycle), frozenset())  # noqa: S311
    at = START + dt.timedelta(seconds=cycle)
    return AttemptRecord(cycle, 1, {"medium": "sd"}, "ok", None, None, "", at, 6.0, good.samples, (), good.moments)


def write(load: Load, number: int, gate: Barrier, results: Queue[Result]) -> None:
    """One writer."""
    gate.wait()
    latencies, errors = [], []
    try:
        with open_store(load.url) as store:
            run = store.begin_run("boot", "am62xx_sk", f"b{number}", "11.01", plan={}, provenance={})
            begun = time.perf_counter()
            for cycle in range(1, load.attempts + 1):
                if load.rate:
                    time.sleep(max(0.0, begun + (cycle - 1) / load.rate - time.perf_counter()))
                start = time.perf_counter()
                store.record_attempt(run.id, attempt(cycle, number))
                latencies.append(time.perf_counter() - start)
            store.finish_run(run.id, "completed")
    except BoardlabError as error:
        errors.append(str(error))
    results.put((number, latencies, errors))


def lost(load: Load, writers: int) -> int:
    """How many attempts are not in the store exactly as they were written."""
    missing = 0
    with open_store(load.url) as store:
        runs = {run.board: run for run in store.runs()}
        for number in range(writers):
            run = runs.get(f"b{number}")
            found = {one.cycle: one for one in store.attempts(run.id)} if run else {}
            for cycle in range(1, load.attempts + 1):
                wanted, got = attempt(cycle, number), found.get(cycle)
                missing += got is None or (got.samples, got.moments) != (wanted.samples, wanted.moments)
    return missing


def measure(name: str, load: Load, writers: int) -> list[str]:
    """Run it; a row of the table."""
    context = multiprocessing.get_context("spawn")
    gate, results = context.Barrier(writers + 1), context.Queue()
    programs = [context.Process(target=write, args=(load, number, gate, results)) for number in range(writers)]
    for program in programs:
        program.start()
    gate.wait()
    start = time.perf_counter()
    found = [results.get() for _ in programs]
    wall_s = time.perf_counter() - start
    for program in programs:
        program.join()
    latencies = [seconds for _, taken, _ in found for seconds in taken]
    errors = [error for _, _, said in found for error in said]
    for error in errors[:3]:
        print(f"    {error}")
    times = [f"{s:.3f}" for s in (*np.percentile(latencies, (50, 99)), max(latencies))]
    counts = [str(writers), str(len(latencies)), f"{len(latencies) / wall_s:.1f}"]
    return [name, *counts, *times, str(len(errors)), str(lost(load, writers))]


def main() -> None:
    """The program."""
    options = parser(__doc__)
    options.add_argument("--writers", type=int, default=64)
    options.add_argument("--attempts", type=int, default=50)
    options.add_argument(
        "--rate", type=float, default=1.0, help="attempts a second of each writer; 0: as fast as it can"
    )
    options.add_argument("--postgresql", action="store_true")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        load = Load(f"sqlite:///{folder}/results.db", given.attempts, given.rate)
        rows = [measure("SQLite, WAL", load, given.writers)]
    if given.postgresql:
        with cluster(fsync=True) as server:
            rows.append(measure("PostgreSQL", Load(server.url, given.attempts, given.rate), given.writers))
    print_table(("store", "writers", "attempts", "per s", "p50 s", "p99 s", "max s", "errors", "lost"), rows)


if __name__ == "__main__":
    main()
