"""A summary states the mean's uncertainty from the spread and from the bounds of the readings."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import stdtrit

from lab.errors import TestStableError
from lab.metrics import ALL, Flag, Measurement, Sample, by_name, summarise
from lab.metrics.uncertainty import student_t95


def samples(*values: float, uncertainty: float = 0.0) -> list[Sample]:
    return [Sample(value, uncertainty, cycle) for cycle, value in enumerate(values, 1)]


def test_figures_of_a_small_series() -> None:
    summary = summarise(samples(1.0, 2.0, 3.0, 4.0))
    assert (summary.n, summary.mean, summary.median, summary.min, summary.max) == (4, 2.5, 2.5, 1.0, 4.0)
    assert summary.std == pytest.approx(1.2909944)
    assert summary.p95 == pytest.approx(3.85)
    # t(0.975, 3) = 3.18245, the tabulated value
    assert summary.uncertainty == pytest.approx(3.18245 * 1.2909944 / 2, rel=1e-5)


@pytest.mark.parametrize("degrees", [*range(1, 40), 100, 1000, 100_000])
def test_students_t_is_scipys(degrees: int) -> None:
    assert student_t95(degrees) == pytest.approx(stdtrit(degrees, 0.975), rel=1e-6)


def test_a_single_reading_is_as_uncertain_as_its_bound() -> None:
    assert summarise(samples(5.0, uncertainty=0.25)).uncertainty == 0.25


def test_spread_and_bound_add_in_quadrature() -> None:
    spread = summarise(samples(1.0, 2.0, 3.0)).uncertainty
    assert summarise(samples(1.0, 2.0, 3.0, uncertainty=1.0)).uncertainty == pytest.approx(math.hypot(spread, 1.0))


def test_one_wide_reading_widens_the_mean_by_its_share() -> None:
    readings = [Sample(2.0, 0.01, 1), Sample(2.0, 0.01, 2), Sample(2.0, 0.31, 3)]
    assert summarise(readings).uncertainty == pytest.approx(0.11)


def test_nothing_cannot_be_summarised() -> None:
    with pytest.raises(TestStableError):
        summarise([])


@given(st.lists(st.floats(0.001, 1000), min_size=1, max_size=50))
def test_figures_keep_their_order(values: list[float]) -> None:
    summary = summarise(samples(*values))
    tolerance = 1e-9 * summary.max
    assert summary.min <= summary.median <= summary.p95 + tolerance
    assert summary.p95 <= summary.max
    assert summary.min - tolerance <= summary.mean <= summary.max + tolerance


def test_metric_names_are_unique_and_found() -> None:
    assert len({m.name for m in ALL}) == len(ALL)
    assert all(by_name(m.name) is m for m in ALL)
    with pytest.raises(TestStableError, match=r"boot\.time"):
        by_name("boot.tiem")


def test_a_measurement_carries_the_flags_of_all_samples() -> None:
    plain, flagged = Sample(1.0, 0.0, 1), Sample(1.0, 0.0, 2, frozenset({Flag.MEDIUM_UNVERIFIED}))
    assert Measurement(ALL[0], {}, (plain, flagged)).flags == {Flag.MEDIUM_UNVERIFIED}
