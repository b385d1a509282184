"""The sequential comparison of two builds: its errors, its power and its cost, by simulated sessions."""

from __future__ import annotations

import math
import statistics
from collections import Counter

import numpy as np
import pytest
from support.paired_boots import DRIFTS, DriftingBoard

from lab.judge.paired import LOOKS, PairedOutcome, PairedPlan, PairedVerdict, judge_pairs, order, signed_rank

PLAN = PairedPlan()


def session(seed: int, drift: str, effect: float) -> tuple[PairedVerdict, int]:
    """A session to its decision; its verdict and boots."""
    board = DriftingBoard(seed, drift, [0.0, math.log1p(effect)])
    found: list[float] = []
    while True:
        found.append(board.pair(0, 1))
        if PLAN.look_after(len(found)) is not None:
            verdict = judge_pairs(found, PLAN)
            if verdict.outcome is not PairedOutcome.UNDECIDED or len(found) == PLAN.pairs:
                return verdict, board.boots


def sessions(count: int, drift: str, effect: float, first: int = 0) -> tuple[Counter[PairedOutcome], list[int]]:
    made = [session(first + seed, drift, effect) for seed in range(count)]
    return Counter(verdict.outcome for verdict, _ in made), [boots for _, boots in made]


def test_a_clear_difference_is_found_early_and_equal_builds_are_equal() -> None:
    outcomes, boots = sessions(12, "walk", 0.02)
    assert outcomes == {PairedOutcome.DIFFERENT: 12}
    assert statistics.median(boots) <= 45
    outcomes, boots = sessions(12, "walk", 0.0)
    assert outcomes[PairedOutcome.EQUAL] >= 9
    assert max(boots) <= 120


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("drift", DRIFTS)
def test_a_thousand_sessions_keep_the_errors_and_the_boots(drift: str) -> None:
    count = 1000
    equal, boots = sessions(count, drift, 0.0, 10_000)
    half, half_boots = sessions(count, drift, 0.005, 20_000)
    whole, whole_boots = sessions(count, drift, 0.01, 30_000)
    figures = (equal, half, whole, *(statistics.median(each) for each in (boots, half_boots, whole_boots)))
    assert equal[PairedOutcome.DIFFERENT] <= 0.05 * count, figures
    assert half[PairedOutcome.DIFFERENT] >= 0.95 * count, figures
    assert whole[PairedOutcome.DIFFERENT] >= 0.99 * count, figures
    assert max(boots) <= 120
    assert statistics.median(half_boots) <= 70, figures
    assert statistics.median(whole_boots) <= 45, figures


def test_the_interval_holds_the_difference_and_fits_the_outcome() -> None:
    held = 0
    for seed in range(20):
        verdict, _ = session(seed, "straight", 0.01)
        assert verdict.low is not None
        assert verdict.high is not None
        held += verdict.low <= 0.01 <= verdict.high
        assert (verdict.low > 0) == (verdict.outcome is PairedOutcome.DIFFERENT)
        assert verdict.low <= verdict.estimate <= verdict.high
    assert held >= 18


def test_gross_differences_are_dropped_and_counted() -> None:
    pairs = [0.01 + 0.001 * (-1) ** number for number in range(29)] + [-0.3]
    verdict = judge_pairs(pairs, PLAN)
    assert (verdict.outcome, verdict.dropped) == (PairedOutcome.DIFFERENT, 1)
    assert verdict.estimate == pytest.approx(0.01, abs=0.001)


def test_before_the_first_look_nothing_is_decided() -> None:
    verdict = judge_pairs([0.1, 0.1], PLAN)
    assert (verdict.outcome, verdict.low, verdict.high, verdict.findable) == (
        PairedOutcome.UNDECIDED,
        None,
        None,
        None,
    )


def test_the_findable_effect_shrinks_with_the_pairs() -> None:
    board = DriftingBoard(3, "none", [0.0, 0.0])
    found = [board.pair(0, 1) for _ in range(PLAN.pairs)]
    few, many = judge_pairs(found[:30], PLAN).findable, judge_pairs(found, PLAN).findable
    assert few is not None
    assert many is not None
    assert 0.003 < many < few


def test_a_noisier_board_or_a_smaller_effect_needs_more_pairs_in_whole_looks() -> None:
    assert PairedPlan.of(0.005, 0.006).pairs == 60
    assert PairedPlan.of(0.005, 0.012).pairs == 240
    assert PairedPlan.of(0.02, 0.006).pairs == LOOKS
    assert PairedPlan.of(0.0049).pairs % LOOKS == 0
    assert [pairs for pairs in range(1, 61) if PLAN.look_after(pairs) is not None] == list(range(5, 61, 5))
    with pytest.raises(ValueError, match="multiple"):
        PairedPlan(50)


def test_the_order_of_a_pair_is_a_coin_that_is_the_same_again() -> None:
    orders = [order(7, pair) for pair in range(1, 401)]
    assert orders == [order(7, pair) for pair in range(1, 401)]
    assert 150 < orders.count(("a", "b")) < 250
    assert set(orders) == {("a", "b"), ("b", "a")}


def test_the_signed_rank_is_that_of_wilcoxon() -> None:
    differences = np.array([[1.0, -2.0, 3.0, 4.0]])
    assert signed_rank(differences)[0] == pytest.approx((1 - 2 + 3 + 4) / math.sqrt(1 + 4 + 9 + 16))
