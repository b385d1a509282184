"""The judge on failure rates: evidence adds up over nights, with one bound on false alarms."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from support.atlength import either

from lab.judge.rates import RateState, rate_states
from lab.metrics.rates import FailureRate

BOOTS = 20


def nights(*failed: int, boots: int = BOOTS) -> list[FailureRate]:
    return [FailureRate(count, boots) for count in failed]


def states(share: Sequence[float], seed: int) -> list[RateState]:
    """The states of nights of so many boots with these chances of a failure."""
    return rate_states(nights(*np.random.default_rng(seed).binomial(BOOTS, share).tolist()))


GOOD = nights(*[0] * 7, boots=16)  # 112 boots


@pytest.mark.parametrize(
    ("before", "after", "directions", "doubts"),
    [
        (GOOD, nights(*[2, 1, 1] * 3), [0] * 6 + [1, 0, 0], [True] * 6 + [False] * 3),
        (nights(*[0] * 60), nights(2), [1], [False]),
        (nights(*[0] * 9), nights(1, 0, 0), [0, 0, 0], [True, False, False]),
        (nights(*[0] * 60), nights(0, 0), [0, 0], [False, False]),
        (nights(*[4] * 20), nights(0, 0, 0), [0, -1, 0], [False] * 3),
        (nights(*[0] * 60), nights(5, 5, 5, 5), [1, 0, 0, 0], [False] * 4),
        (nights(0, 0, 0, boots=60), nights(4, 4, boots=60), [0, 1], [True, False]),
    ],
)
def test_evidence_adds_up_over_nights_and_a_change_is_called_once(
    before: list[FailureRate], after: list[FailureRate], directions: list[int], doubts: list[bool]
) -> None:
    found = rate_states([*before, *after])[len(before) :]
    assert [state.direction for state in found] == directions
    assert [state.is_doubtful for state in found] == doubts


def test_the_rates_are_those_before_and_since_the_likeliest_night() -> None:
    last = rate_states([*GOOD, *nights(2, 1, 1)])[-1]
    assert (last.before, last.now, last.since) == (FailureRate(0, 112), FailureRate(4, 60), 7)


@pytest.mark.parametrize("share", [0.001, 0.01, 0.05, 0.2])
def test_a_rate_that_does_not_change_is_called_seldom(share: float) -> None:
    """The bound is 3.65 a year each way; a year of 365 nights has a tenth of that at most."""
    years = either(3, 100)
    every = [states([share] * 365, seed) for seed in range(years)]
    rises, falls, asks = (
        sum(predicate(state) for year in every for state in year) / years
        for predicate in (
            lambda state: state.direction > 0,
            lambda state: state.direction < 0,
            lambda state: state.is_doubtful,
        )
    )
    assert rises <= either(1.0, 0.3)
    assert falls <= either(1.0, 0.3)
    assert asks < 20


@pytest.mark.parametrize(
    ("history", "before", "after", "within", "share"),
    [
        (60, 0.002, 0.067, 7, 0.9),
        (60, 0.01, 0.1, 7, 0.8),
        (60, 0.01, 0.05, 30, 0.85),
        (60, 0.05, 0.15, 30, 0.95),
        (6, 0.0001, 0.067, 30, 0.95),
    ],
)
def test_a_rise_is_called_after_some_nights(
    history: int, before: float, after: float, within: int, share: float
) -> None:
    count, delays = either(20, 200), []
    for seed in range(count):
        year = states([before] * history + [after] * 30, seed)
        delays.append(
            next((t - history + 1 for t, state in enumerate(year) if t >= history and state.direction > 0), 99)
        )
    called = sum(delay <= within for delay in delays) / count
    assert called >= share - either(0.2, 0.0)
