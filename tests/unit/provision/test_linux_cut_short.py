"""A medium that the board's Linux writes, cut short: by power loss, by kill -9, by a network that carries nothing any more.

Three tenths here, each tenth in the soak run, fifty places in tests/system.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from support.atlength import either
from support.waycuts import ENDS, WAYS, cut, work

pytestmark = pytest.mark.longer


@pytest.mark.parametrize("way", WAYS)
def test_cut_at_a_tenth_the_next_try_does_it(tmp_path: Path, way: str) -> None:
    began, ended = work(tmp_path, way)
    for tenth in range(0, 10, either(4, 1)):
        for end in ENDS:
            cut(tmp_path, way, began + (ended - began) * tenth // 10 + 1, end)
