"""The figures of the page: round ticks, a shared time axis, differences that are told from noise."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.figures import ticks
from lab.figures.bars import StageKey, waterfalls
from lab.metrics import Summary
from lab.results.listing import Stage


@pytest.mark.parametrize(
    ("low", "high", "about", "texts"),
    [
        (2.432, 2.53, 5, ["2.44", "2.46", "2.48", "2.50", "2.52"]),
        (0, 6.3, 6, ["0", "2", "4", "6"]),
        (0, 5.9, 6, ["0", "1", "2", "3", "4", "5"]),
        (-0.01, 0.01, 4, ["-0.010", "-0.005", "0.000", "0.005", "0.010"]),
        (9_600, 48_000, 4, ["10000", "20000", "30000", "40000"]),
    ],
)
def test_ticks_are_round(low: float, high: float, about: int, texts: list[str]) -> None:
    assert [text for _, text in ticks(low, high, about)] == texts


@given(
    low=st.floats(-1e9, 1e9),
    span=st.floats(1e-6, 1e9),
    about=st.integers(2, 8),
)
def test_ticks_are_within_their_axis_and_no_two_have_one_text(low: float, span: float, about: int) -> None:
    high = low + span
    if high - low < 1e-9 * max(abs(low), abs(high)):
        return  # closer than floating-point numbers can tell
    found = ticks(low, high, about)
    assert len(found) <= about + 1
    assert all(low - 1e-6 * span <= value <= high + 1e-6 * span for value, _ in found)
    assert len({text for _, text in found}) == len(found)


def stage(name: str, start_s: float, length_s: float, bound_s: float = 0.01) -> Stage:
    return Stage(name, start_s, Summary(5, length_s, length_s, length_s, length_s, length_s, 0.0, bound_s))


def test_a_stage_is_worse_or_better_by_the_judges_word_and_bold_beyond_both_uncertainties() -> None:
    before = {"sd": [stage("a", 0, 1.0), stage("b", 1, 1.0), stage("c", 2, 1.0), stage("e", 3, 1.0)]}
    after = {
        "sd": [
            stage("a", 0, 1.1),
            stage("b", 1.1, 1.01),
            stage("c", 2.11, 0.9),
            stage("d", 3, 1.0),
            stage("e", 3, 1.0001),
        ]
    }
    (found,) = waterfalls(after, {"sd": "SD card"}, before, {StageKey("sd", "a"): "worse"})
    assert found.title == "SD card"
    assert [(row.difference, row.beyond, row.moved) for row in found.rows] == [
        ("+0.100 ± 0.014", True, "worse"),
        ("+0.010 ± 0.014", False, ""),
        ("-0.100 ± 0.014", True, ""),
        ("", False, ""),
        ("0.000 ± 0.014", False, ""),
    ]
    assert found.rows[3].before is None


def test_all_media_have_one_time_axis_with_room_for_the_run_before() -> None:
    stages = {"sd": [stage("a", 0, 2.0)], "emmc": [stage("a", 0, 1.0)]}
    sd, emmc = waterfalls(stages, {}, {"emmc": [stage("a", 0, 4.0)]})
    assert sd.axis == emmc.axis
    assert [(row.left, row.width) for row in (*sd.rows, *emmc.rows)] == [(0, 50), (0, 25)]
    assert emmc.rows[0].before == (0, 100)
    assert waterfalls({}, {}) == []
