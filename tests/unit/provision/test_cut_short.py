"""A release that is put on a board and cut short: the next try does it, and nothing beside the target was written.

Each way, cut by each end at each tenth, and fifty random ends: tests/system.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.simcuts import WAYS, cut, duration_ns
from support.simprovision import NEW, OLD, provisioning

from lab.errors import BoardlabError


@pytest.mark.parametrize(
    ("way", "tenth", "end"),
    [(WAYS[0], 8, "console"), (WAYS[1], 5, "power"), (WAYS[2], 6, "power"), (WAYS[3], 3, "killed")],
)
def test_cut_short_the_next_try_does_it(tmp_path: Path, way: tuple[str, str], tenth: int, end: str) -> None:
    began_ns, ended_ns = duration_ns(tmp_path, *way)
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
