"""Cost of every repeated look at a store, by the number of runs and ended jobs in it.

    uv run python bench/history.py [--runs 1000 200000]

Seconds of a processor of one look after the first, the median of five. Aim: at most 1.2 times as much in the older store.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

from attrs import evolve
from common import parser, print_table
from support.jobbook import ORDER
from support.periodic import LOOKS, PeriodicLook, aged, book

from lab.results import open_store

LOOKS_TIMED = 5


def look_ms(look: PeriodicLook, url: str) -> float:
    """Milliseconds of a processor that a look takes."""
    with open_store(url) as store:
        queue, order = book(store), evolve(ORDER, board="board-0000")
        running, waiting = queue.enqueue(order), queue.enqueue(order)
        queue.start(running.id)
        again, times = look.of(store, running.id, waiting.id), []
        again()
        for _ in range(LOOKS_TIMED):
            begun = time.process_time()
            again()
            times.append(1e3 * (time.process_time() - begun))
        for job in (waiting, running):
            queue.finish(job.id, "interrupted")
        return statistics.median(times)


def main() -> None:
    """The program."""
    options = parser(__doc__)
    options.add_argument("--runs", type=int, nargs=2, default=(1000, 200_000), metavar="N")
    ages = options.parse_args().runs
    with tempfile.TemporaryDirectory() as name:
        urls = [aged(Path(name) / f"{runs}.db", runs) for runs in ages]
        table = []
        for look in LOOKS:
            young, old = (look_ms(look, url) for url in urls)
            cells = (f"{young:.2f}", f"{old:.2f}", f"{old / young:.2f}", look.grows or "-")
            table.append((look.name, look.every, *cells))
    print_table(("Look", "Every", *(f"{runs:,} runs, ms" for runs in ages), "Growth", "It may grow"), table)


if __name__ == "__main__":
    main()
