"""A damaged answer of the cross-check costs no cycle, and never becomes the run's software."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from support.simruns import bench
from support.strategies import BoardStrategy

CYCLES = 3


@pytest.mark.parametrize(("damaged", "seed"), [(0, 1), (1, 2), (2, 3)])  # which of the run's answers
def test_a_flipped_bit_in_an_answer_refuses_no_boot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damaged: int, seed: int
) -> None:
    dice, asked, count = random.Random(seed), BoardStrategy.asked, 0

    def flip(board: BoardStrategy, questions: Sequence[str]) -> tuple[int, list[list[str]]] | None:
        nonlocal count
        answer = asked(board, questions)
        if len(questions) > 1 and answer is not None:
            if count == damaged:
                name = dice.choice(["cmdline:", "version:", "/etc/os-release:", "sys/kernel/random/boot_id:"])
                lines = answer[1][1]
                number = next(at for at, line in enumerate(lines) if line.startswith(name))
                place = dice.randrange(len(name), len(lines[number]))
                spoiled = chr(ord(lines[number][place]) ^ 1 << dice.randrange(5))
                lines[number] = lines[number][:place] + spoiled + lines[number][place + 1 :]
            count += 1
        return answer

    monkeypatch.setattr(BoardStrategy, "asked", flip)
    with bench(tmp_path, cycles=CYCLES) as made:
        attempts = made.measure()
    assert [attempt.outcome for attempt in attempts] == ["ok"] * CYCLES
