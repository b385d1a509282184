"""Cost and losses of sampling six rails at the sampler's top rate.

    uv run python bench/power.py [--minutes 10] [--step 30]

The bench is a process of its own; what is counted is the sampler's: its CPU time by the kernel's accounting, its resident
memory, and the samples in its trace against those that the sensors have completed in the same time. A sample is lost when a
sensor has completed two since the sampler looked. Targets: none lost, at most 15 % of one core, memory flat.

The sampler and its sensors share the last core, and this program leaves it to them. A core can still stand still by
itself: a hypervisor takes it away, or the kernel does something that it does not interrupt. A witness tells: another
process on that core, of a higher priority than everybody else, that wakes every quarter of a millisecond and notes when
it was woken late. What was lost then is counted on its own.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import psutil
from attrs import asdict, frozen
from common import parser, print_table
from support.virtual_bench import running_bench

from lab.cli.rails import config_of
from lab.host.clock import MonotonicRaw
from lab.rails import AdcRange, Sampler, Trace, sampling

TYPE = "am62xx_lp_sk"  # six rails, each with a sensor
CORE_TARGET = 0.15
INTERVAL_NS = 250_000
LATE_NS = 60_000
PRIORITY = 90
LISTEN = 400  # wake-ups between two looks at stdin
Intervals = npt.NDArray[np.int64]  # of shape (n, 2): from, to; in ns


@frozen
class Step:
    """The sampler since its start, at some instant."""

    seconds: float
    cpu_s: float
    rss_bytes: int
    samples: int


def watch(sampler: Sampler, minutes: float, step_s: float) -> list[Step]:
    """The sampler over time."""
    process = psutil.Process(sampler.pid)
    before = process.cpu_times()
    start = time.monotonic()
    steps = []
    while (passed := time.monotonic() - start) < minutes * 60:
        time.sleep(min(step_s, minutes * 60 - passed))
        now = process.cpu_times()
        cpu_s = now.user + now.system - before.user - before.system
        size = sampler.path.stat().st_size
        steps.append(Step(time.monotonic() - start, cpu_s, process.memory_info().rss, size // 18))
    return steps


def alone(*pids: int) -> int:
    """Give these processes the last core and ourselves the others; returns the core."""
    *others, core = sorted(os.sched_getaffinity(0))
    if others:
        os.sched_setaffinity(0, others)
    for pid in pids:
        os.sched_setaffinity(pid, {core})
    return core


@frozen
class Lost:
    """What is missing in a trace.

    Attributes:
        there, missing: samples of all rails.
        stood_still: how many of the missing were completed while the witness was woken late.
        longest_ms: the longest time without a sample of a rail.
    """

    there: int
    missing: int
    stood_still: int
    longest_ms: float


def lost(trace: Trace, late: Intervals, begin_ns: int, end_ns: int) -> Lost:
    """Compare a trace with what its sensors have completed in this time; they convert without a pause."""
    there = missing = stood_still = 0
    longest_ns = 0
    period_ns = trace.meta.period_ns
    first, last = np.searchsorted(trace.records["t_ns"], (begin_ns, end_ns))
    records = trace.records[first:last]
    for number, _ in enumerate(trace.meta.channels):
        times = records["t_ns"][records["rail"] == number]
        steps = np.diff((times - completed_at(times, period_ns)) // period_ns)  # in the sensor's own count
        holes = np.flatnonzero(steps > 1)
        # A look that begins in a hole may end after it: what it brings is then of the next sample already.
        since, until = times[holes] - period_ns, times[holes + 1] + period_ns
        witnessed = np.searchsorted(late[:, 1], since) < np.searchsorted(late[:, 0], until)
        there += len(times)
        missing += int((steps[holes] - 1).sum())
        stood_still += int((steps[holes] - 1)[witnessed].sum())
        longest_ns = max(longest_ns, int(np.diff(times).max()))
    return Lost(there, missing, stood_still, longest_ns / 1e6)


def completed_at(times: npt.NDArray[np.int64], period_ns: int) -> int:
    """When in its period a sensor completes a sample, at the earliest.

    A sample is found within a part of the period after that, and hardly one in the rest: this is the middle of that rest.
    """
    bins = 100
    counts, edges = np.histogram(times % period_ns, bins, (0, period_ns))
    window = np.ones(bins // 4)
    around = np.convolve(np.tile(counts, 2), window, mode="same")[bins // 2 : bins // 2 + bins]
    return int(edges[(int(around.argmin()) + bins // 2) % bins])


@contextlib.contextmanager
def witness(core: int) -> Iterator[Callable[[], npt.NDArray[np.int64]]]:
    """Run a witness beside the block; the function returns its intervals, shape (n, 2)."""
    process = subprocess.Popen(
        [sys.executable, __file__, "--witness", str(core)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
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
    """Wake each 0.25 ms until stdin ends; print the late wake-ups."""
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


def main() -> None:
    """The program."""
    options = parser(__doc__)
    options.add_argument("--minutes", type=float, default=10.0)
    options.add_argument("--step", type=float, default=30.0, help="seconds between two rows")
    options.add_argument("--witness", type=int, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.witness is not None:
        look(given.witness)
        return
    with tempfile.TemporaryDirectory() as name, running_bench(Path(name) / "bench", "sim", "--type", TYPE) as bench:
        config, path = config_of(str(bench.folder / "env.yaml")), Path(name) / "power.trace"
        with sampling(config, path, AdcRange.ACTIVE) as sampler:
            meta = sampler.trace().meta
            print(f"{len(meta.channels)} rails, {meta.settings}: {1e9 / meta.period_ns:.0f} samples/s each")
            print(f"sampler: {meta.scheduling}")
            with witness(alone(sampler.pid, bench.state.pid)) as late:
                begin_ns = MonotonicRaw().now_ns()
                steps = watch(sampler, given.minutes, given.step)
                end_ns = MonotonicRaw().now_ns()
        found = lost(Trace.open(path), late(), begin_ns, end_ns)
    rows = [
        [
            f"{s.seconds:.0f}",
            str(s.samples),
            f"{s.cpu_s:.2f}",
            f"{s.cpu_s / s.seconds:.1%}",
            f"{s.rss_bytes / 1e6:.2f}",
        ]
        for s in steps
    ]
    print_table(("s", "samples", "CPU s", "of a core", "RSS MB"), rows)
    grown = steps[-1].rss_bytes - steps[0].rss_bytes
    share = steps[-1].cpu_s / steps[-1].seconds
    print(f"samples {found.there}, lost {found.missing}, longest between two of a rail {found.longest_ms:.2f} ms")
    still_ms = np.diff(late()).ravel() / 1e6
    print(
        f"the witness was woken late by more than {LATE_NS / 1e6} ms {len(still_ms)} times, at most {still_ms.max(initial=0):.2f} ms; "
        f"of the lost samples {found.stood_still} were completed then, {found.missing - found.stood_still} were not (target 0)"
    )
    print(f"CPU {share:.1%} of one core (target {CORE_TARGET:.0%}), memory grown by {grown / 1e3:.0f} kB")
    print(json.dumps({**asdict(found), "core": share, "rss_grown_bytes": grown}))


if __name__ == "__main__":
    main()
