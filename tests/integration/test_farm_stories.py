"""The alert holes of a farm, played through with promtool: each failure is told once, in time; a healthy farm is silent."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from support.atlength import LONG, either
from support.rule_stories import (
    DAY_S,
    ENDS_S,
    EVERY_S,
    MEDIA,
    NIGHT_S,
    STEP_S,
    Board,
    Story,
    only,
    promtool,
    told_from,
)

from lab.failures import CATALOGUE

pytestmark = pytest.mark.longer

FAILED, INCOMPLETE, OVERDUE = "BoardlabAttemptFailed", "BoardlabRunIncomplete", "BoardlabRunOverdue"
STAYS_ON = "BoardlabPowerOffIneffective"
BRIDGED_S = 15 * 60 - EVERY_S  # an alert of a cause outlasts a store that cannot be read for so long
WAITED_S = EVERY_S  # until samples that are missing are told: the rule's two minutes, as often as it is evaluated here
CLASSES = sorted(CATALOGUE) if LONG else ["kernel_panic", "power_off_ineffective", "silent"]
BAD_NIGHTS = either(2, 7)
TOGETHER = 24  # promtool bounds the samples of a query
LATER_S = DAY_S + DAY_S // 4  # a success is overdue after one and a quarter of its interval


def test_the_panic_week(tmp_path: Path) -> None:
    """Every boot panics, three media, three attempts each, every night for a week: one alert, and one that it keeps back."""
    ended = BAD_NIGHTS + 1
    story = Story(days=ended + 4)
    board = Board(story).watched()
    board.due(range(ended + 4))
    board.good_night(0)
    for day in range(1, ended):
        at_s = day * DAY_S + ENDS_S
        board.attempted(at_s - 900, "kernel_panic", 9)
        board.failed(at_s)
        for medium in MEDIA:
            board.samples(at_s, medium, 0)
    for day in range(ended, ended + 4):
        board.good_night(day)
    first, mended = DAY_S + ENDS_S, ended * DAY_S + ENDS_S
    board.fails(first, "kernel_panic", mended, MEDIA)
    tests = [
        *told_from(FAILED, 1, first, mended + BRIDGED_S),
        *told_from(OVERDUE, 1, ENDS_S + LATER_S + 2 * EVERY_S, mended - EVERY_S),
        only((FAILED, OVERDUE), (ended + 2) * DAY_S),
    ]
    assert promtool(tmp_path, story.document(tests)) == ""


def test_a_dead_medium_of_three(tmp_path: Path) -> None:
    ended = BAD_NIGHTS + 1
    story = Story(days=ended + 2)
    board = Board(story).watched()
    board.due(range(ended + 2))
    board.good_night(0)
    for day in range(1, ended):
        at_s = day * DAY_S + ENDS_S
        board.attempted(at_s - 900, "silent", 1)
        board.attempted(at_s, "ok", 40)
        board.failed(at_s)
        board.samples(at_s, "ospi", 0)
    for day in range(ended, ended + 2):
        board.good_night(day)
    first, mended = DAY_S + ENDS_S, ended * DAY_S + ENDS_S
    board.fails(first, "silent", mended, ["ospi"])
    tests = [*told_from(FAILED, 1, first, mended + BRIDGED_S), only((FAILED, OVERDUE), (ended + 1) * DAY_S)]
    assert promtool(tmp_path, story.document(tests)) == ""


@pytest.mark.parametrize("part", range(0, len(CLASSES), TOGETHER))
def test_one_single_failure_of_each_class(tmp_path: Path, part: int) -> None:
    """It is tried again and goes well, so the run is complete; each on a board of its own."""
    story, classes = Story(days=4), CLASSES[part : part + TOGETHER]
    for number, outcome in enumerate(classes):
        board = Board(story, f"b{number}", classes=(outcome,)).watched()
        board.due(range(4))
        for day in range(4):
            board.good_night(day)
        board.attempted(DAY_S + NIGHT_S + 900, outcome, 1)
        board.fails(DAY_S + ENDS_S, outcome, 2 * DAY_S)
    first, shown = DAY_S + NIGHT_S + 900, DAY_S + ENDS_S
    its_own = {"power_off_ineffective"} & {*classes}
    tests = [
        *told_from(FAILED, len(classes) - len(its_own), shown, 2 * DAY_S + BRIDGED_S),
        only((FAILED, STAYS_ON) if its_own else (FAILED,), 3 * DAY_S),
    ]
    if its_own:
        tests += told_from(STAYS_ON, 1, first, first + 6 * 3600 - EVERY_S)
    assert promtool(tmp_path, story.document(tests)) == ""


def test_a_run_that_never_started(tmp_path: Path) -> None:
    story = Story(days=6)
    board = Board(story).watched()
    board.due(range(6))
    for day in (0, 4, 5):
        board.good_night(day)
    late = ENDS_S + LATER_S + 2 * EVERY_S
    assert late < DAY_S + NIGHT_S + DAY_S, "within one interval of when it was due"
    tests = [*told_from(OVERDUE, 1, late, 4 * DAY_S + ENDS_S - EVERY_S), only((OVERDUE,), 5 * DAY_S)]
    assert promtool(tmp_path, story.document(tests)) == ""


def test_a_new_schedule_whose_timer_was_never_enabled(tmp_path: Path) -> None:
    story = Story(days=4)
    Board(story).due(range(4))
    first = NIGHT_S + 12 * 3600
    tests = [
        *told_from("BoardlabRunNeverDone", 1, first, 3 * DAY_S - EVERY_S),
        only(("BoardlabRunNeverDone",), 3 * DAY_S),
    ]
    tests[0]["eval_time"] = tests[1]["eval_time"] = f"{3 * DAY_S - EVERY_S}s"
    assert promtool(tmp_path, story.document(tests)) == ""


def test_a_run_that_ended_with_59_of_60(tmp_path: Path) -> None:
    story = Story(days=4)
    board = Board(story).watched()
    board.due(range(4))
    board.good_night(0)
    at_s = DAY_S + ENDS_S
    board.attempted(at_s, "ok", 59)
    board.samples(at_s, "emmc", 19)
    board.failed(at_s)
    for day in (2, 3):
        board.good_night(day)
    mended = 2 * DAY_S + ENDS_S
    tests = [*told_from(INCOMPLETE, 1, at_s + WAITED_S, mended - EVERY_S), only((INCOMPLETE,), at_s + 6 * 3600)]
    assert promtool(tmp_path, story.document(tests)) == ""


@pytest.mark.soak
@pytest.mark.parametrize("boards", [either(16, 64)])
def test_a_healthy_farm_is_silent_for_a_month(tmp_path: Path, boards: int) -> None:
    """Each night's start and length differ, as a board is waited for and its runs take longer or shorter."""
    story, dice = Story(days=30), random.Random(16)
    for number in range(boards):
        board = Board(story, f"b{number}", classes=("silent", "power_off_ineffective")).watched()
        board.due(range(30))
        for day in range(30):
            board.spread_s = dice.randrange(0, 5 * 3600, STEP_S)
            board.good_night(day)
    tests = [only(("none",), 30 * DAY_S - STEP_S)]
    assert promtool(tmp_path, story.document(tests, every_s=900)) == ""
