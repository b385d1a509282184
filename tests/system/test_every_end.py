"""The long form of tests/unit/provision/test_cut_short.py: each way, cut at each tenth by each end, and fifty random ends."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from support.simcuts import ENDS, WAYS, cut, duration_ns

pytestmark = pytest.mark.soak

RANDOM_ENDS = 50


@pytest.fixture(scope="module")
def durations(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], tuple[int, int]]:
    return {way: duration_ns(tmp_path_factory.mktemp("whole"), *way) for way in WAYS}


@pytest.mark.parametrize("percent", range(0, 100, 10))
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize(("medium", "over"), WAYS)
def test_cut_at_each_tenth_by_each_end_the_next_try_does_it(
    tmp_path: Path, durations: dict[tuple[str, str], tuple[int, int]], medium: str, over: str, end: str, percent: int
) -> None:
    began_ns, ended_ns = durations[medium, over]
    first, second = cut(tmp_path, medium, over, began_ns + (ended_ns - began_ns) * percent // 100, end)
    assert second == "ok", f"first {first}"


@pytest.mark.parametrize("number", range(RANDOM_ENDS))
def test_a_random_end_leaves_a_board_that_the_next_try_provisions(
    tmp_path: Path, durations: dict[tuple[str, str], tuple[int, int]], number: int
) -> None:
    dice = random.Random(number)
    medium, over = dice.choice(WAYS)
    began_ns, ended_ns = durations[medium, over]
    end = dice.choice(list(ENDS))
    first, second = cut(tmp_path, medium, over, dice.randrange(began_ns, ended_ns), end)
    assert second == "ok", f"{end} of {medium} over {over}: first {first}"
