"""`lab boards`: the board types that boardlab knows."""

from __future__ import annotations

import typer
from attrs import asdict

from lab.boards.registry import load, names
from lab.cli.options import Json
from lab.terminal import echo, echo_json, table

app = typer.Typer(help="Board types that boardlab knows.")


@app.command()
def boards(*, as_json: Json = False) -> None:
    """List the board types that boardlab knows, with their boot media."""
    types = [load(name) for name in names()]
    if as_json:
        echo_json([asdict(board) for board in types])
        return
    rows = [[board.name, ", ".join(board.media), board.title] for board in types]
    echo(*table(["type", "boots from", "title"], rows, "<<<"))
