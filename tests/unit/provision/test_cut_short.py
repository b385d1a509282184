"""A release that is put on a board and cut short at each tenth: the next try does it, and nothing beside the target was written.

Each way, cut by each end at each tenth, and fifty random ends: tests/system.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.simcuts import ENDS, WAYS, cut, duration_ns
from support.simprovision import NEW, OLD, provisioning

from lab.errors import BoardlabError


@pytest.fixture(scope="module")
def durations(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], tuple[int, int]]:
    return {way: duration_ns(tmp_path_factory.mktemp("whole"), *way) for way in WAYS}


@pytest.mark.parametrize("tenth", range(10))
def test_cut_at_each_tenth_the_next_try_does_it(
    tmp_path: Path, durations: dict[tuple[str, str], tuple[int, int]], tenth: int
) -> None:
    way, end = WAYS[tenth % len(WAYS)], list(ENDS)[tenth // len(WAYS) % len(ENDS)]
    began_ns, ended_ns = durations[way]
    first, second = cut(tmp_path, *way, began_ns + (ended_ns - began_ns) * tenth // 10, end)
    assert second == "ok", f"{end} of {way}: first {first}"


def test_a_flash_whose_first_stage_was_cut_boots_nothing_and_the_next_try_does_it(tmp_path: Path) -> None:
    with provisioning(tmp_path, "ospi") as made:
        made.lab.cut_after = "sf update 0x9fe00000 0x0 "  # the first stage, which is written last
        with pytest.raises(BoardlabError):
            made.provision()
        made.end()
        assert made.told(tries=1)[0].outcome == "ok"
        assert made.boots(NEW)
        assert not made.boots(OLD)


def test_the_first_stage_is_written_last(tmp_path: Path) -> None:
    with provisioning(tmp_path, "ospi") as made:
        made.provision()
        written = re.findall(r"; sf update 0x[0-9a-f]+ (0x[0-9a-f]+) ", made.lab.said())
    assert written == ["0x280000", "0x80000", "0x0"]
