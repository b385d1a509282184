"""`lab virtual tester`: a command on the played tester of a simulated board, for the TesterDriver of its environment."""

from __future__ import annotations

import sys
import time
from typing import Annotated

import typer

from virtual.sim.dice import dice
from virtual.sim.model import model
from virtual.sim.played.tester import Tester


def answer(
    command: Annotated[str, typer.Argument(help="the command line")],
    board_type: Annotated[str, typer.Option("--type", help="type of the board at the other end")],
    release: Annotated[str, typer.Option(help="of its software [default: the newest]")] = "",
    seed: Annotated[int | None, typer.Option(help="of its chance [default: another one each time]")] = None,
) -> None:
    """Answer a command as the tester of a simulated board would. Its numbers are drawn from published ones."""
    chance = dice(time.monotonic_ns() if seed is None else seed, command)
    text, status = Tester(model(board_type, release or None), chance).run(command)
    sys.stdout.write(text)
    raise typer.Exit(status)
