"""`lab virtual tester`: a command on the played tester of a simulated board, for the TesterDriver of its environment."""

from __future__ import annotations

import sys
import time
from typing import NoReturn

import typer

from lab.virtual.sim.dice import dice
from lab.virtual.sim.model import model
from lab.virtual.sim.sample_outputs.tester import Tester


def answer(command: str, board_type: str, release: str, seed: int | None) -> NoReturn:
    """Answer a command as the tester of a simulated board would. Its numbers are drawn from published ones.

    Args:
        release: of its software; "": the newest. seed: of its chance; None: another one each time.
    """
    chance = dice(time.monotonic_ns() if seed is None else seed, command)
    text, status = Tester(model(board_type, release or None), chance).run(command)
    sys.stdout.write(text)
    raise typer.Exit(status)
