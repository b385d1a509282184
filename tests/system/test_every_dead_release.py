"""The long form of tests/unit/provision/test_switched_back.py: a release that does not boot, cut at each tenth by each end."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.deadrelease import cut, duration_ns
from support.simcuts import ENDS

pytestmark = pytest.mark.soak


@pytest.fixture(scope="module")
def duration(tmp_path_factory: pytest.TempPathFactory) -> tuple[int, int]:
    return duration_ns(tmp_path_factory.mktemp("whole"))


@pytest.mark.parametrize("percent", range(0, 100, 10))
@pytest.mark.parametrize("end", ENDS)
def test_cut_at_each_tenth_the_old_release_stays_and_the_next_try_does_it(
    tmp_path: Path, duration: tuple[int, int], end: str, percent: int
) -> None:
    cut(tmp_path, duration[0] + (duration[1] - duration[0]) * percent // 100, end)
