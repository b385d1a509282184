"""A card of a multiplexer that is cut short: by kill -9 of the whole process, by kill -9 of its writer, by a card that takes no
more, as one whose reader loses its power. The next try does it, and nothing else on the card or beside it was written."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.atlength import LONG, either
from support.cardcut import AHEAD, TOTAL, CutCard, full_at, kill_at, kill_writer

from lab.errors import BoardlabError
from lab.provision.errors import MediaWriteFailedError

pytestmark = pytest.mark.longer


@pytest.mark.parametrize("tenth", range(0, 10, either(3, 1)))
def test_cut_at_a_tenth_the_next_try_does_it(tmp_path: Path, tenth: int) -> None:
    card, count = CutCard(tmp_path), TOTAL * tenth // 10
    before = card.elsewhere()
    if LONG or tenth == 6:  # it starts a Python
        kill_at(tmp_path, count)
        assert not card.has_release() or count > TOTAL - AHEAD
        assert card.elsewhere() == before
    for cut in (kill_writer, full_at):
        card.card.write_bytes(b"\xa5" * card.card.stat().st_size)
        with pytest.raises(BoardlabError) as caught:
            cut(card, count)
        assert type(caught.value) is MediaWriteFailedError
        assert not card.has_release() or count > TOTAL - AHEAD
        assert card.elsewhere() == before
        card.provision()
        assert card.has_release()
        assert card.elsewhere() == before
