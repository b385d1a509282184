"""The strip of a row: this run's number stands where it is among those of the runs before."""

from __future__ import annotations

import pytest
from support.facts import missing_facts

from lab.figures.strips import RowStrip
from lab.judge.baseline import Baseline, JudgedNumber
from lab.judge.compare import Judgement, Verdict
from lab.metrics.catalogue import BOOT_TIME
from lab.report.view import strip_of
from lab.results.sums import Average


def strip(*before: float, was: float, was_pm: float, now: float, pm: float) -> RowStrip:
    average = Average(9, BOOT_TIME, {"medium": "sd"}, 4, now, pm, False)
    old = Baseline(tuple(range(len(before))), before, was, was_pm)
    found = strip_of(JudgedNumber(average, old, Judgement(Verdict.REGRESSION, "slower")))
    assert found is not None
    return found


def test_places_are_in_the_proportion_of_the_values() -> None:
    found = strip(2.0, 2.1, 2.2, was=2.1, was_pm=0.05, now=3.0, pm=0.2)
    low, high = found.dots[0], found.reach[1]  # 2.0 and 3.2 s, the least and the most that there is

    def at(value: float) -> float:
        return low + (high - low) * (value - 2.0) / 1.2

    assert 0 < low < high < 100
    assert found.dots == pytest.approx([at(2.0), at(2.1), at(2.2)], abs=0.1)
    assert found.now == pytest.approx(at(3.0), abs=0.1)
    assert found.band is not None
    assert (*found.reach, *found.band) == pytest.approx([at(2.8), at(3.2), at(2.05), at(2.15)], abs=0.1)
    assert not missing_facts(found.text, "3 runs", "2.000 to 2.200 s", "3.00 ± 0.20 s")


def test_equal_numbers_stand_in_the_middle() -> None:
    found = strip(2.0, was=2.0, was_pm=0.0, now=2.0, pm=0.0)
    assert found.band is not None
    assert {*found.dots, found.now, *found.reach, *found.band} == {50}
    assert found.text.startswith("1 run before: ")


def test_what_there_is_nothing_to_compare_with_has_no_strip() -> None:
    average = Average(9, BOOT_TIME, {}, 4, 2.0, 0.1, False)
    assert strip_of(JudgedNumber(average, None, Judgement(Verdict.NO_HISTORY, ""))) is None
