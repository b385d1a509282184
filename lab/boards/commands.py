"""`lab boards`: the board types that boardlab knows."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from attrs import asdict

from lab.boards.registry import load, names

app = typer.Typer(help="The board types that boardlab knows.")


@app.command()
def boards(*, as_json: Annotated[bool, typer.Option("--json", help="Print JSON for other programs.")] = False) -> None:
    """List the board types that boardlab knows, with their boot media."""
    types = [load(name) for name in names()]
    if as_json:
        typer.echo(json.dumps([asdict(board) for board in types], indent=2))
        return
    width = max(len(board.name) for board in types)
    for board in types:
        typer.echo(f"{board.name:{width}}  {board.title}; boots from {', '.join(board.media)}")
