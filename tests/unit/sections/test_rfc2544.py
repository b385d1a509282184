"""The search for the highest rate without loss, on links whose capacity is known."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from lab.benchmarks.throughput_search import MAX_TRIALS, Throughput, search
from lab.errors import BoardTransientError

LINE_PPS = 1_488_095.0  # frames of 64 bytes at 1 Gbit/s
STEP = 100.0
TRIALS = 200
JITTER = 0.002  # standard deviation of the capacity from trial to trial, as a share of it


def link(
    capacity: float, dice: random.Random | None = None, background: float = 0.0
) -> Callable[[float, bool], float]:
    """A link that carries so much and loses the rest; with dice its capacity changes from trial to trial.

    Args:
        background: probability that a trial loses a packet for a reason of its own.
    """

    def send(rate: float, _is_long: bool) -> float:
        now = capacity * (1 + (dice.gauss(0, JITTER) if dice else 0.0))
        if dice and dice.random() < background:
            return 1e-6
        return max(0.0, 1 - now / rate)

    return send


def found(capacity: float, dice: random.Random | None = None) -> Throughput:
    return search(link(capacity, dice), lowest=100.0, highest=LINE_PPS, step=STEP)


def test_the_rate_is_within_one_percent_of_the_truth_in_95_percent_of_200_trials_with_jitter() -> None:
    dice = random.Random(2544)
    errors = []
    for _ in range(TRIALS):
        capacity = 10 ** dice.uniform(4.3, 6.1)  # 20 thousand to 1.26 million packets a second
        errors.append(abs(found(capacity, dice).rate / capacity - 1))
    within = sum(error <= 0.01 for error in errors)
    assert within >= 0.95 * TRIALS, f"{within} of {TRIALS}, the worst {max(errors):.2%}"


@pytest.mark.parametrize("capacity", [150.0, 3_000.0, 94_250.0, 812_743.0, 1_480_000.0])
def test_without_jitter_the_truth_lies_between_the_rate_and_its_tolerance(capacity: float) -> None:
    result = found(capacity)
    assert result.rate <= capacity <= result.rate + result.tolerance
    assert result.tolerance <= max(STEP, 0.005 * result.rate)
    assert result.is_monotonic
    assert len(result.trials) <= 20


def test_the_rate_that_is_reported_lost_nothing_in_a_long_trial() -> None:
    result = found(94_250.0, random.Random(1))
    confirming = [trial for trial in result.trials if trial.is_long and trial.rate == result.rate]
    assert confirming
    assert confirming[-1].loss == 0


def test_a_link_that_carries_everything_needs_two_trials() -> None:
    result = found(2 * LINE_PPS)
    assert (result.rate, result.tolerance, len(result.trials)) == (LINE_PPS, 0.0, 2)


def test_a_rate_that_a_long_trial_does_not_confirm_is_given_up_for_a_lower_one() -> None:
    def send(rate: float, is_long: bool) -> float:  # buffers hide the loss of short trials
        return max(0.0, 1 - (90_000 if is_long else 100_000) / rate)

    result = search(send, lowest=100.0, highest=LINE_PPS, step=STEP)
    assert 0.99 * 90_000 <= result.rate <= 90_000


def test_a_link_that_loses_at_any_rate_is_an_error_that_says_where_to_look() -> None:
    with pytest.raises(BoardTransientError, match=r"100 packets.*lost") as caught:
        search(lambda _rate, _is_long: 0.01, lowest=100.0, highest=LINE_PPS, step=STEP)
    assert caught.value.failure == "link_lossy"


def test_losses_that_do_not_depend_on_the_rate_end_the_search_or_are_said() -> None:
    with pytest.raises(BoardTransientError, match=f"after {MAX_TRIALS} trials"):
        search(lambda _rate, is_long: 0.001 if is_long else 0.0, lowest=100.0, highest=LINE_PPS, step=STEP)
    dice = random.Random(7)
    assert any(is_doubtful(link(200_000, dice, background=0.2)) for _ in range(20))


def is_doubtful(send: Callable[[float, bool], float]) -> bool:
    """Whether a search says itself that something else than the capacity loses packets."""
    try:
        return not search(send, lowest=100.0, highest=LINE_PPS, step=STEP).is_monotonic
    except BoardTransientError:
        return True
