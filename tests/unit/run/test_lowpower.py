"""A run's suspends are compared with each other: what the host measured beside the kernel is nearly the same each time."""

from __future__ import annotations

import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab import boards
from lab.benchmarks.lowpower.kernellog import read_log
from lab.benchmarks.lowpower.modes import SuspendPlan
from lab.benchmarks.lowpower.preflight import PrintkSettings
from lab.benchmarks.lowpower.result import SuspendResult
from lab.benchmarks.lowpower.watch import WakeEdge
from lab.host.clock import MonotonicRaw
from lab.metrics import Flag, Moment
from lab.results import open_store
from lab.run import lowpower
from lab.run.progress import Progress

S, MS = 1_000_000_000, 1_000_000
AM62 = boards.load("am62xx_sk")


def suspend(plan: SuspendPlan, kernel_ms: float, host_ms: float) -> SuspendResult:
    log = read_log(
        [
            "<6>[   45.548480] PM: suspend entry (deep)",
            "<6>[   45.700000] Enabling non-boot CPUs ...",
            f"<6>[{45.7 + kernel_ms / 1e3:12.6f}] PM: suspend exit",
        ],
        AM62,
    )
    answer = Moment("answer", 5 * S + round(host_ms * MS), MS, 100, "boardlab: back 0")
    found = PrintkSettings("7 4 1 7", ("ttyS2",))
    return SuspendResult(plan, log, WakeEdge("uart", 5 * S, 5 * S), None, answer, 4.0, found, (), "", "", None)


@pytest.mark.parametrize("seed", range(5))
def test_a_resume_whose_host_and_kernel_differ_by_an_unusual_time_is_flagged(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    outside_ms = dice.uniform(20, 900)
    usual = [(kernel := dice.uniform(100, 400), kernel + outside_ms + dice.uniform(-40, 40)) for _ in range(6)]
    odd_ms = dice.uniform(550, 9000)
    given = iter([*usual, (150.0, 150.0 + outside_ms + odd_ms), *usual[:1]])
    console = SimpleNamespace(
        capture=[], info=None, overruns=lambda: 0, captured=lambda: b"", blame_sharing=lambda error: error
    )
    board: Any = SimpleNamespace(
        type=AM62,
        console=console,
        low_power=SimpleNamespace(cycle=lambda plan, _trace: suspend(plan, *next(given)), release=""),
        software={},
        wired=[],
        select_medium=lambda _medium: None,
    )
    plan = {"cycles": 8, "modes": ["deep_sleep"], "wake": "uart", "sleep_s": 5, "medium": "sd"}
    with open_store(f"sqlite:///{tmp_path / 'results.db'}") as store:
        begun = store.begin_run(lowpower.KIND, "am62xx_sk", "sk-1", "11.01", plan=plan, provenance={})
        clock = MonotonicRaw()
        progress = Progress(lambda _line: None, clock, 8)
        lowpower.LowPowerRun(store, begun, board, progress, clock, lambda _s: None, 0).measure("deep_sleep")
        flags = [attempt.samples[0].flags for attempt in store.attempts(begun.id)]
    assert flags == [*[frozenset()] * 6, {Flag.CLOCK_DISAGREES}, frozenset()]
