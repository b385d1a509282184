"""Cost of every repeated look at a store, by the number of runs and ended jobs in it.

    uv run python bench/history.py [--runs 1000 200000]

Seconds of a processor of one look after the first, the median of five. Aim: at most 1.2 times as much in the older store.
Then the share of a core that 100 jobs take that wait for ten held boards, each with a store of its own as in a process
of its own: the median of intervals. Aim: 1 %.
"""

from __future__ import annotations

import statistics
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path

from attrs import evolve
from common import parser, print_table
from support.jobbook import ORDER
from support.periodic import LOOKS, PeriodicLook, aged, book

from lab.jobs.queue import JobQueue
from lab.jobs.records import Job
from lab.jobs.waiting import JobWaiter
from lab.results import open_store

LOOKS_TIMED = 5
WAITING, HELD = 100, 10  # jobs, boards
INTERVALS, INTERVAL_S = 6, 20.0  # each has a sign of life of every job


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


def waiting_share(url: str) -> float:
    """Share of a core that `WAITING` jobs take together while nothing changes at their boards."""
    is_over, orders = threading.Event(), [evolve(ORDER, board=f"held-{number:02}") for number in range(HELD)]
    with ExitStack() as stack:
        queues = [book(stack.enter_context(open_store(url))) for _ in range(WAITING + 1)]
        holder, *waiting = queues
        held = [holder.enqueue(order) for order in orders]
        for job in held:
            holder.start(job.id)

        def wait(queue: JobQueue, job: Job) -> None:
            JobWaiter(queue, lambda _line: None, is_over=is_over.is_set).wait(job, 3600.0)

        jobs = [queue.enqueue(orders[number % HELD]) for number, queue in enumerate(waiting)]
        threads = [threading.Thread(target=wait, args=pair) for pair in zip(waiting, jobs, strict=True)]
        for thread in threads:
            thread.start()
        shares = []
        for _ in range(INTERVALS + 1):
            cpu_s, begun_s = time.process_time(), time.monotonic()
            time.sleep(INTERVAL_S)
            shares.append((time.process_time() - cpu_s) / (time.monotonic() - begun_s))
        is_over.set()
        for thread in threads:
            thread.join()
        for job in (*held, *jobs):
            holder.finish(job.id, "interrupted")
    return statistics.median(shares[1:])


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
        share = waiting_share(urls[-1])
    print_table(("Look", "Every", *(f"{runs:,} runs, ms" for runs in ages), "Growth", "It may grow"), table)
    print(f"{WAITING} jobs that wait for {HELD} boards: {share:.2%} of a core, over {ages[-1]:,} ended ones")


if __name__ == "__main__":
    main()
