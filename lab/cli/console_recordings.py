"""`lab console replay` and `show`: recordings."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from lab import boards
from lab.cli.options import Json
from lab.console import terminal
from lab.console.recording import Recording
from lab.console.replay import guess_board
from lab.console.replay import replay as replay_recording
from lab.shown import echo, echo_json

app = typer.Typer()

File = Annotated[Path, typer.Argument(metavar="FILE", help="The .log or the .idx of a recording.")]


@app.command()
def replay(
    file: File,
    *,
    board: Annotated[
        str | None, typer.Option(metavar="TYPE", help="The board type (default: the one that fits best).")
    ] = None,
    as_json: Json = False,
) -> None:
    """Find the moments of a recorded boot, with the times between them."""
    recording = Recording.open(file)
    if board is None:
        kind = guess_board(recording, [boards.load(name) for name in boards.names()])
    else:
        kind = boards.load(board)
    result = replay_recording(recording, kind)
    if as_json:
        echo_json(result.document())
    else:
        echo(*terminal.replay_lines(result))


@app.command()
def show(file: File, *, raw: Annotated[bool, typer.Option("--raw", help="The bytes as they came.")] = False) -> None:
    """Print a recording, each line with the time since the first one."""
    recording = Recording.open(file)
    if raw:
        sys.stdout.buffer.write(recording.log)
        return
    for line in terminal.log_lines(recording):
        echo(line)
