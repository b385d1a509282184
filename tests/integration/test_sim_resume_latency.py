"""Both resume latencies of a simulated board against the truth, over 60 cycles in virtual time, a thousand with `./run soak`."""

from __future__ import annotations

import pytest
from support.atlength import either
from support.napping import kernel_error, napper, prompt_error

from lab.benchmarks.lowpower.modes import SuspendPlan

pytestmark = pytest.mark.longer

CYCLES = either(60, 1000)
SEEDS = range(either(4, 10))
ADAPTER_NS = 1_000_000  # an FTDI adapter in low-latency mode
PLANS = (SuspendPlan("deep_sleep", "uart", 1), SuspendPlan("mcu_only", "mcu", 1), SuspendPlan("deep_sleep", "gpio", 1))


@pytest.mark.timeout(1200)
def test_at_least_95_percent_of_the_latencies_are_within_their_uncertainty() -> None:
    kernel, prompt = [], []
    for seed in SEEDS:
        with napper(seed=seed, adapter_latency_ns=ADAPTER_NS) as board:
            done = [board.strategy.low_power.cycle(PLANS[cycle % len(PLANS)]) for cycle in range(CYCLES // len(SEEDS))]
            true = board.wakeups()
        kernel += [kernel_error(one, woken) for one, woken in zip(done, true, strict=True)]
        prompt += [prompt_error(one, woken) for one, woken in zip(done, true, strict=True)]
        assert {flag for one in done for flag in one.flags} == set()
    assert len(kernel) == len(prompt) == CYCLES
    assert sum(error <= 1 for error in kernel) >= 0.95 * CYCLES, f"the worst: {max(kernel):.2f} of its ±"
    assert sum(error <= 1 for error in prompt) >= 0.95 * CYCLES, f"the worst: {max(prompt):.2f} of its ±"
