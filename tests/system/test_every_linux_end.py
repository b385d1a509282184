"""The long form of test_linux_cut_short.py and test_card_cut_short.py in tests/unit/provision: all places, not only the tenths."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from support.cardcut import AHEAD, TOTAL, CutCard, kill_at
from support.waycuts import ENDS, WAYS, cut, work

pytestmark = pytest.mark.soak

PLACES = 50


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("way", WAYS)
def test_cut_anywhere_the_next_try_does_it(tmp_path: Path, way: str, end: str) -> None:
    _, ended = work(tmp_path, way)
    for number in range(PLACES):
        cut(tmp_path, way, 1 + (ended - 1) * number // PLACES, end)


@pytest.mark.parametrize("number", range(20))
def test_a_killed_process_leaves_a_card_that_the_next_one_writes(tmp_path: Path, number: int) -> None:
    card, count = CutCard(tmp_path), random.Random(number).randrange(TOTAL)
    before = card.elsewhere()
    kill_at(tmp_path, count)
    assert not card.has_release() or count > TOTAL - AHEAD
    card.provision()
    assert card.has_release()
    assert card.elsewhere() == before
