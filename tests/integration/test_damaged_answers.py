"""A damaged answer of the cross-check costs no cycle, and never becomes the run's software."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from support.random_boots import damaged
from support.simruns import bench
from support.strategies import BoardStrategy

from lab.metrics import Flag
from lab.metrics.catalogue import BOOT_TIME

CYCLES = 2


@pytest.mark.parametrize(
    ("spoiled", "seed", "unknown"),
    [({0}, 1, False), ({1}, 2, False), ({0, 1}, 3, False), ({1, 2}, 4, True), ({2, 3}, 5, False)],
)
def test_a_damaged_answer_refuses_no_boot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoiled: set[int], seed: int, *, unknown: bool
) -> None:
    """The first cycle asks for the software and the facts; each is asked for once more."""
    dice, asked, count = random.Random(seed), BoardStrategy.asked, 0

    def spoil(
        board: BoardStrategy, question: str, is_whole: Callable[[Sequence[str]], bool]
    ) -> tuple[int, list[str]] | None:
        nonlocal count
        answer = asked(board, question, is_whole)
        if answer is not None:
            if count in spoiled:
                text = damaged(dice, "\n".join(answer[1]).encode())
                answer = answer[0], text.decode("latin-1").split("\n")
            count += 1
        return answer

    monkeypatch.setattr(BoardStrategy, "asked", spoil)
    with bench(tmp_path, cycles=CYCLES) as made:
        attempts = made.measure()
        assert [attempt.outcome for attempt in attempts] == ["ok"] * CYCLES
        assert ("boot_id" in attempts[0].details["cross_check"]) != unknown
        first = made.store.samples(made.run.run.id, metric=BOOT_TIME.name)[0]
        assert not unknown or Flag.NOT_CROSS_CHECKED in first.flags
    assert count > len(spoiled)
