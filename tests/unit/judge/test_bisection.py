"""Bisection over builds by paired boots: right, cheap, resumable, and honest where it cannot tell."""

from __future__ import annotations

import statistics

import numpy as np
import pytest
from support.atlength import either
from support.paired_boots import DRIFTS, DriftingBoard

from lab.errors import ConfigurationError
from lab.judge.bisection import Answer, BisectionResult, BuildPair, following

BUILDS = 32
STEP = 0.015


def search(
    seed: int, drift: str, spread: float = 0.0, size: float = STEP, dead: frozenset[int] = frozenset()
) -> tuple[BisectionResult, int, DriftingBoard]:
    """A whole search; its result, the first bad build, and the board."""
    rng = np.random.default_rng(1_000_000 + seed)
    culprit = int(rng.integers(1, BUILDS))
    offsets = [float(rng.normal(0, spread)) + size * (build >= culprit) for build in range(BUILDS)]
    board = DriftingBoard(seed, drift, offsets)
    answers: list[tuple[BuildPair, Answer]] = []
    while True:
        asked = following(BUILDS, answers)
        if isinstance(asked, BisectionResult):
            return asked, culprit, board
        answers.append((asked, None if asked.build in dead else board.pair(asked.reference, asked.build)))


@pytest.mark.parametrize("drift", DRIFTS)
def test_the_first_bad_build_is_found_with_a_fifth_of_the_boots(drift: str) -> None:
    made = [search(seed, drift, 0.002) for seed in range(either(6, 100))]
    right = sum(found.first_bad == culprit for found, culprit, _ in made)
    boots = [board.boots for _, _, board in made]
    assert right >= (0.95 * len(made) if len(made) > 20 else len(made) - 1)
    assert statistics.mean(boots) <= 0.2 * 20 * BUILDS * (1.0 if len(made) > 20 else 1.3), boots


def test_without_a_difference_there_is_nothing_to_find() -> None:
    found, _, board = search(1, "walk", size=0.0)
    assert found.first_bad is None
    assert not found.is_undecided
    assert board.boots <= 120


def test_a_small_difference_that_the_pairs_do_not_tell_is_undecided() -> None:
    """All that is known of it is that it is neither excluded nor sure."""
    found, _, _ = search(0, "none", size=0.0035)
    assert (found.first_bad, found.is_undecided) == (None, True)


def test_builds_that_do_not_boot_are_skipped_and_may_be_the_first_bad_one() -> None:
    for seed in range(4):
        rng = np.random.default_rng(1_000_000 + seed)
        culprit = int(rng.integers(1, BUILDS))
        dead = frozenset({culprit} if 0 < culprit < BUILDS - 1 else ())
        found, _, _ = search(seed, "none", dead=dead)
        if dead:
            assert found.first_bad == culprit + 1
            assert set(found.candidates) >= {culprit, culprit + 1}
            assert not found.sure


def test_a_wrong_build_is_not_called_sure_where_builds_differ_too_much_to_tell() -> None:
    """By the share of the step: none, 40 % and 60 %; half of the names and more are wrong then."""
    count = either(5, 100)
    alike, *apart = ([search(seed, "none", spread) for seed in range(count)] for spread in (0.0, 0.006, 0.009))
    assert sum(found.sure for found, _, _ in alike) >= 0.4 * count
    for made in apart:
        wrong = [found for found, culprit, _ in made if found.first_bad not in {culprit, None}]
        assert len(wrong) >= 0.4 * count
        assert sum(found.sure for found in wrong) <= max(1, 0.06 * count)


def test_a_search_goes_on_from_its_stored_pairs() -> None:
    board = DriftingBoard(5, "none", [STEP * (build >= 3) for build in range(6)])
    answers: list[tuple[BuildPair, Answer]] = []
    for _ in range(20):
        asked = following(6, answers)
        assert isinstance(asked, BuildPair)
        assert following(6, list(answers)) == asked
        answers.append((asked, board.pair(asked.reference, asked.build)))


def test_pairs_of_another_list_of_builds_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="another search"):
        following(6, [(BuildPair(0, 4), 0.01)])
    with pytest.raises(ConfigurationError, match="does not boot"):
        following(6, [(BuildPair(0, 5), None)])
