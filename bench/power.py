"""What sampling costs and loses: six rails at the sampler's top rate, on the emulated INA231s of a virtual bench.

    uv run python bench/power.py [--minutes 10] [--step 30]

The bench is a process of its own; what is counted is the sampler's: its CPU time by the kernel's accounting, its resident
memory, and the samples in its trace against those that the sensors have completed in the same time. A sample is lost when a
sensor has completed two since the sampler looked. Targets: none lost, at most 15 % of one core, memory flat.

The sampler and its sensors share the last core, and this program leaves it to them. What the kernel does there still
counts, and a hypervisor that takes the core away; afterwards a loop on that core says how long it stands still by itself.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import psutil
from attrs import frozen

from lab.clock import MonotonicRaw
from lab.console.scheduling import raise_priority
from lab.drivers.powercommands import config_of
from lab.power import Range, Sampler, Trace, sampling
from virtual.state import expect

LAB = Path(sys.executable).with_name("lab")
TYPE = "am62xx_lp_sk"  # six rails, each with a sensor
CORE_TARGET = 0.15
PROBE_NS = 60_000_000_000


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


def holes(core: int, least_ns: int) -> list[float]:
    """How often and for how long, in milliseconds, nothing of ours ran on a core: gaps in a loop that does nothing else.

    It pauses a little in each tenth of a second, since the kernel ends a loop of SCHED_FIFO that does not.
    """
    os.sched_setaffinity(0, {core})
    raise_priority()
    clock = MonotonicRaw()
    end_ns = clock.now_ns() + PROBE_NS
    found = []
    while (last_ns := clock.now_ns()) < end_ns:
        pause_ns = last_ns + 90_000_000
        while last_ns < pause_ns:
            now_ns = clock.now_ns()
            if now_ns - last_ns > least_ns:
                found.append((now_ns - last_ns) / 1e6)
            last_ns = now_ns
        time.sleep(0.01)
    return found


def lost(trace: Trace) -> tuple[int, int, float]:
    """Samples that are there, samples that are missing, and the longest time without one in milliseconds, of all rails."""
    there = missing = 0
    longest_ns = 0
    for number, _ in enumerate(trace.meta.channels):
        times = trace.records["t_ns"][trace.records["rail"] == number]
        there += len(times)
        between = np.diff(times)
        longest_ns = max(longest_ns, int(between.max()))
        # The sensors convert on their own clock: over the whole trace each has completed span / period samples.
        missing += max(0, round(int(times[-1] - times[0]) / trace.meta.period_ns) + 1 - len(times))
    return there, missing, longest_ns / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--step", type=float, default=30.0, help="seconds between two rows")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "bench"
        ports = ["--pdu-port", "0", "--switch-port", "0"]
        subprocess.run([LAB, "virtual", "up", "sim", "--type", TYPE, "--dir", folder, *ports], check=True)
        try:
            config = config_of(str(folder / "env.yaml"))
            with sampling(config, Path(name) / "power.trace", Range.ACTIVE) as sampler:
                meta = sampler.trace().meta
                print(f"{len(meta.channels)} rails, {meta.settings}: {1e9 / meta.period_ns:.0f} samples/s each")
                print(f"sampler: {meta.scheduling}")
                core = alone(sampler.pid, expect(folder).pid)
                steps = watch(sampler, given.minutes, given.step)
            trace = Trace.open(Path(name) / "power.trace")
            there, missing, longest_ms = lost(trace)
        finally:
            subprocess.run([LAB, "virtual", "down", "--dir", folder], check=True)
    print(f"{'s':>8}{'samples':>12}{'CPU s':>9}{'of a core':>11}{'RSS MB':>9}")
    for step in steps:
        share = step.cpu_s / step.seconds
        print(f"{step.seconds:8.0f}{step.samples:12}{step.cpu_s:9.2f}{share:11.1%}{step.rss_bytes / 1e6:9.2f}")
    grown = steps[-1].rss_bytes - steps[0].rss_bytes
    share = steps[-1].cpu_s / steps[-1].seconds
    print(f"samples {there}, lost {missing}, longest between two of a rail {longest_ms:.2f} ms")
    still = holes(core, trace.meta.period_ns)
    print(
        f"the core by itself stood still for more than a sample {len(still)} times in {PROBE_NS / 1e9:.0f} s, "
        f"at most {max(still, default=0):.2f} ms"
    )
    print(f"CPU {share:.1%} of one core (target {CORE_TARGET:.0%}), memory grown by {grown / 1e3:.0f} kB")
    print(json.dumps({"samples": there, "lost": missing, "core": share, "rss_grown_bytes": grown}))


if __name__ == "__main__":
    main()
