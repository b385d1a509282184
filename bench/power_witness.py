"""The witness of bench/power.py: it says when a core stood still, whoever took it.

A process of its own, on that core and of the highest priority there. It prints "ready", wakes every quarter of a
millisecond until stdin ends, and prints each time at which it was woken late: when it should have been, and when it was,
in nanoseconds of CLOCK_MONOTONIC_RAW.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from lab.host.clock import MonotonicRaw

INTERVAL_NS = 250_000
LATE_NS = 60_000
PRIORITY = 90
LISTEN = 400  # wake-ups between two looks at stdin


@contextlib.contextmanager
def witness(core: int) -> Iterator[Callable[[], npt.NDArray[np.int64]]]:
    """Let it look while the block runs; afterwards the function gives the intervals, of shape (n, 2)."""
    process = subprocess.Popen(
        [sys.executable, __file__, str(core)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n", "the witness did not start"
    said: list[int] = []
    try:
        yield lambda: np.array(said, dtype=np.int64).reshape(-1, 2)
    finally:
        said += map(int, process.communicate()[0].split())


def look(core: int) -> None:
    """The process."""
    os.sched_setaffinity(0, {core})
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))
    gc.disable()
    clock = MonotonicRaw()
    late: list[tuple[int, int]] = []
    print("ready", flush=True)
    due_ns = clock.now_ns()
    rounds = 0
    while True:
        due_ns += INTERVAL_NS
        time.sleep(max(0, due_ns - clock.now_ns()) / 1e9)
        now_ns = clock.now_ns()
        if now_ns - due_ns > LATE_NS:
            late.append((due_ns, now_ns))
            due_ns = now_ns
        rounds += 1
        if rounds % LISTEN == 0 and select.select([sys.stdin], [], [], 0)[0]:
            break
    for due, woken in late:
        print(due, woken)


if __name__ == "__main__":
    look(int(sys.argv[1]))
