"""Removal of a year from a large store, and its backup.

    uv run python bench/store_age.py [--runs 110000] [--samples 20]

The store has `--runs` runs of 100 boards with five numbers of `--samples` samples each (11 million by default), the older half of
them from before the year that is kept. A writer records ten attempts a second meanwhile. `cp` and the backup end when their copy
is on the disk; a cold copy begins with an empty page cache, which needs root.
Aims: removal at most 60 s, no commit above 1 s, backup at least at half of `cp`'s speed.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Callable
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Event
from pathlib import Path

import numpy as np
from common import parser, print_table
from store_load import attempt
from support.farm_store import fill

from lab.host.clock import utc_now
from lab.results import open_store, retention
from lab.results.backup import back_up
from lab.results.records import Retention

BOARDS, METRICS = 100, 5
PAUSE_S = 0.1  # of the writer
POLL_S = 0.1
KEPT_DAYS = 365
CACHES = Path("/proc/sys/vm/drop_caches")


def write(url: str, stop: Event, results: Queue[list[float]]) -> None:
    """Record attempts, and time each commit."""
    times = []
    with open_store(url) as store:
        run = store.begin_run("boot", "am62xx_sk", "busy", "11.01", plan={}, provenance={})
        while not stop.is_set():
            each, begun = attempt(len(times) + 1, 1), time.perf_counter()
            store.record_attempt(run.id, each)
            times.append(time.perf_counter() - begun)
            time.sleep(max(0.0, PAUSE_S - times[-1]))
    results.put(times)


def prune(url: str) -> None:
    """Remove what is too old.

    Sums come behind it: these runs lack them, as those of an older boardlab do.
    """
    with open_store(url) as store:
        retention.prune(store, Retention(runs=KEPT_DAYS))


def make(path: Path, runs: int, samples: int) -> None:
    """Fill the store, and make the older half of it 400 days older."""
    fill(path, boards=BOARDS, metrics=METRICS, samples=samples, releases=runs // BOARDS, last=utc_now())
    with sqlite3.connect(path) as connection:
        older = ", ".join(
            f"{c} = datetime({c}, '-400 days') || substr({c}, 20)" for c in ("started_at", "finished_at")
        )
        connection.execute(f"UPDATE runs SET {older} WHERE id <= ?", (runs // 2,))  # noqa: S608 - both are ours
    connection.close()


def removed(path: Path) -> int:
    """Number of runs that the audit says were removed."""
    with sqlite3.connect(path) as connection:
        found = connection.execute("SELECT about FROM audit WHERE action = 'prune'").fetchone()
    connection.close()
    return int(found[0].split()[0]) if found else 0


def timed(work: Callable[[], object], *, cold: bool) -> float:
    """Seconds that it takes."""
    os.sync()
    if cold:
        CACHES.write_text("3", encoding="ascii")
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def copies(path: Path, folder: Path) -> list[tuple[str, ...]]:
    """`cp` and a backup, with the store in memory and not."""

    def copy() -> None:
        subprocess.run(["cp", path, folder / "copy.db"], check=True)
        with (folder / "copy.db").open("rb") as file:
            os.fsync(file.fileno())

    def back() -> None:
        with open_store(f"sqlite:///{path}") as store:
            back_up(store, folder, ())

    found = []
    for cold in (False, True) if os.access(CACHES, os.W_OK) else (False,):
        took = []
        for work in (copy, back):
            took.append(timed(work, cold=cold))
            shutil.rmtree(folder)
            folder.mkdir()
        found.append(("cold" if cold else "in memory", f"{took[0]:.2f}", f"{took[1]:.2f}", f"{took[0] / took[1]:.0%}"))
    return found


def main() -> None:
    """The program."""
    options = parser(__doc__)
    options.add_argument("--runs", type=int, default=110_000)
    options.add_argument("--samples", type=int, default=20, help="of each number")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as name:
        path, folder = Path(name) / "results.db", Path(name) / "backups"
        folder.mkdir()
        make(path, given.runs, given.samples)
        million, size = given.runs * METRICS * given.samples / 1e6, path.stat().st_size / 1e9
        table = copies(path, folder)
        print_table((f"{million:.1f} million samples, {size:.2f} GB", "cp, s", "Backup, s", "Of cp's speed"), table)
        stop = multiprocessing.Event()
        results: Queue[list[float]] = multiprocessing.Queue()
        url = f"sqlite:///{path}"
        writer = multiprocessing.Process(target=write, args=(url, stop, results))
        remover = multiprocessing.Process(target=prune, args=(url,))
        writer.start()
        begun = time.perf_counter()
        remover.start()
        while not (runs := removed(path)) and remover.is_alive():
            time.sleep(POLL_S)
        took_s = time.perf_counter() - begun
        remover.terminate()
        stop.set()
        commits = results.get()
        writer.join()
        cells = (
            f"{runs:,}",
            f"{took_s:.1f}",
            str(len(commits)),
            f"{np.percentile(commits, 99):.2f}",
            f"{max(commits):.2f}",
        )
        print_table(("Runs removed", "s", "Commits beside", "p99, s", "Max, s"), [cells])


if __name__ == "__main__":
    main()
