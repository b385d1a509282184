"""A number that moves within its run."""

from __future__ import annotations

import math
from random import Random

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from lab.metrics import Sample
from lab.metrics.drift import CHANCE, FEWEST, drift


def series(values: list[float]) -> list[Sample]:
    return [Sample(value, 0.001, cycle) for cycle, value in enumerate(values, 1)]


def noise(count: int, seed: int = 1) -> list[float]:
    chance = Random(seed)
    return [5.0 + chance.gauss(0, 0.01) for _ in range(count)]


def test_a_step_is_found_where_it_is_with_both_medians() -> None:
    values = [value + (0.1 if cycle >= 10 else 0.0) for cycle, value in enumerate(noise(20), 1)]
    moved = drift(series(values))
    assert moved is not None
    assert moved.cycle == 10
    assert moved.before == pytest.approx(5.0, abs=0.01)
    assert moved.after == pytest.approx(5.1, abs=0.01)
    assert moved.ratio == pytest.approx(0.02, abs=0.003)


def test_a_climb_from_the_middle_on_is_found() -> None:
    values = [value + 0.01 * max(0, cycle - 10) for cycle, value in enumerate(noise(20), 1)]
    moved = drift(series(values))
    assert moved is not None
    assert 9 <= moved.cycle <= 14


def climbing(seed: int, spreads: float, begin: int = 10) -> list[float]:
    """Twenty boots with a spread of 0.6 %, which take longer and longer from one cycle on."""
    chance = Random(seed)
    return [5.0 * (1 + 0.006 * (chance.gauss(0, 1) + spreads * max(0, cycle - begin + 1))) for cycle in range(1, 21)]


def test_most_climbs_from_the_tenth_cycle_on_are_named() -> None:
    found = [drift(series(climbing(seed, 0.3))) for seed in range(200)]
    named = [each for each in found if each is not None]
    assert len(named) > 200 * 0.8, "a test for a step alone names less of them"
    assert sum(7 <= each.cycle <= 15 for each in named) > 0.8 * len(named)


def test_a_change_near_the_end_is_found() -> None:
    values = [value + (0.1 if cycle >= 17 else 0.0) for cycle, value in enumerate(noise(20), 1)]
    moved = drift(series(values))
    assert moved is not None
    assert moved.cycle == 17


def test_what_nobody_acts_on_is_not_called() -> None:
    values = [5.0 + 1e-4 * cycle for cycle in range(20)]
    assert drift(series(values)) is None
    assert drift(series([value + (0.1 if cycle >= 10 else 0.0) for cycle, value in enumerate(values)])) is not None


def test_single_slow_boots_are_no_drift() -> None:
    values = noise(20)
    values[11] *= 1.3
    values[17] *= 1.2
    assert drift(series(values)) is None


def test_of_series_that_do_not_move_few_are_called() -> None:
    called = sum(drift(series(noise(20, seed))) is not None for seed in range(2000))
    assert called <= 2000 * CHANCE + 3 * math.sqrt(2000 * CHANCE)


def test_nor_are_more_of_those_with_outliers_and_a_second_mode() -> None:
    def run(seed: int) -> list[float]:
        chance = Random(seed)
        return [
            5.0 * (1 + chance.gauss(0, 0.006) + 0.015 * (chance.random() < 0.2) + 0.2 * (chance.random() < 0.03))
            for _ in range(20)
        ]

    called = sum(drift(series(run(seed))) is not None for seed in range(2000))
    assert called <= 2000 * CHANCE + 3 * math.sqrt(2000 * CHANCE)


@pytest.mark.parametrize("count", [FEWEST, 13, 41, 200, 1000])
def test_a_run_of_any_length_is_judged(count: int) -> None:
    values = noise(count)
    half = count // 2
    moved = drift(series([value + (0.1 if place >= half else 0.0) for place, value in enumerate(values)]))
    assert moved is not None
    assert abs(moved.cycle - 1 - half) <= max(1, count // 40)


@pytest.mark.parametrize(
    "values", [[], [5.0], [5.0] * 40, [5.0] * (FEWEST - 1), [math.nan] * 30, [5.0] * 6 + [9.0] * 5]
)
def test_what_says_nothing_is_no_drift(values: list[float]) -> None:
    assert drift(series(values)) is None


@given(st.permutations(range(20)))
def test_the_order_in_which_samples_come_changes_nothing(order: list[int]) -> None:
    samples = series([value + (0.1 if cycle > 8 else 0.0) for cycle, value in enumerate(noise(20), 1)])
    assert drift([samples[place] for place in order]) == drift(samples)


@given(st.floats(1e-9, 1e9))
def test_the_unit_changes_nothing_but_the_medians(scale: float) -> None:
    samples = series([value + (0.1 if cycle > 8 else 0.0) for cycle, value in enumerate(noise(20), 1)])
    plain, scaled = drift(samples), drift([evolve(s, value=s.value * scale) for s in samples])
    assert plain is not None
    assert scaled is not None
    assert (scaled.cycle, scaled.chance) == (plain.cycle, plain.chance)
    assert scaled.ratio == pytest.approx(plain.ratio)
