"""Boards with a boot ROM, SPL, and straps or media that are read by real code: a power cycle from each medium. One of them has two,
and its session is killed in between.

`./run soak` measures twenty, and kills everything.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from support import qemu_boards
from support.killing import DEADLINE_S, assert_run_survives_a_kill
from support.measuring_lab import running_lab

from lab import boards

KILLED = "bpim2u"


@pytest.mark.timeout(DEADLINE_S * 4)  # a busy host holds up a number now and then: then enough of them are measured
@pytest.mark.parametrize("board_type", [pytest.param(KILLED, marks=pytest.mark.soak), "sifive_u"])
def test_every_medium_is_booted_verified_and_timed_like_any_board_s(board_type: str, tmp_path: Path) -> None:
    board = boards.load(board_type)
    cycles = 2 if board_type == KILLED else 1
    with running_lab(tmp_path, *qemu_boards.up_words(board_type)) as lab:
        if board_type == KILLED:
            assert_run_survives_a_kill(lab, cycles, "starting_kernel")
        else:
            assert lab.pytest("--lab-cycles", str(cycles)).wait(DEADLINE_S) == pytest.ExitCode.OK, lab.log
        qemu_boards.assert_cycles(lab, board, cycles, tuple(board.media))
        assert lab.bench.status()["power"] == "off"
