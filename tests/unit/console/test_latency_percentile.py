"""How late bytes came in the last minute: the 99th percentile, from counts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lab.console.latency import HALF_NS, LEAST, LatencyPercentile

START_NS = 10**15


@given(st.lists(st.integers(0, 10**10), min_size=LEAST, max_size=LEAST + 300))
def test_the_percentile_is_within_a_step_above_that_of_the_values(late_ns: list[int]) -> None:
    tally = LatencyPercentile()
    for late in late_ns:
        tally.add(START_NS, late)
    true_ns = sorted(late_ns)[len(late_ns) - 1 - len(late_ns) // 100]
    found = tally.p99_ns(START_NS)
    assert found is not None
    assert true_ns <= found <= max(true_ns * 1.25, 8) + 1


def test_a_minute_later_it_is_forgotten_and_half_a_minute_later_it_is_not() -> None:
    tally = LatencyPercentile()
    for _ in range(LEAST):
        tally.add(START_NS, 5_000_000)
    assert tally.p99_ns(START_NS + HALF_NS) is not None
    assert tally.p99_ns(START_NS + 2 * HALF_NS) is None


def test_too_few_bytes_say_nothing() -> None:
    tally = LatencyPercentile()
    for _ in range(LEAST - 1):
        tally.add(START_NS, 5_000_000)
    assert tally.p99_ns(START_NS) is None
