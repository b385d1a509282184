"""A medium that the board's Linux writes, cut short at each tenth: by power loss, by kill -9, by a network that carries nothing any more.

At every 500th byte of it: tests/system.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from support.waycuts import ENDS, WAYS, cut, work


@pytest.mark.parametrize("way", WAYS)
def test_cut_at_each_tenth_the_next_try_does_it(tmp_path: Path, way: str) -> None:
    began, ended = work(tmp_path, way)
    for tenth in range(10):
        for end in ENDS:
            cut(tmp_path, way, began + (ended - began) * tenth // 10 + 1, end)
