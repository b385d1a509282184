"""Boards with a boot ROM, SPL, and straps or media that are read by real code: two power cycles from each medium.

`./run test -e boards` measures twenty.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import qemu_boards
from measuring_lab import running_lab


@pytest.mark.parametrize("board_type", qemu_boards.TYPES)
def test_every_medium_is_booted_verified_and_timed_like_any_board_s(board_type: str, tmp_path: Path) -> None:
    with running_lab(tmp_path, *qemu_boards.up_words(board_type)) as lab:
        qemu_boards.measure(lab, 2, board_type)
        assert lab.bench.status()["power"] == "off"
