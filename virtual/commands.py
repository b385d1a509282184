"""`lab virtual`: bring virtual boards up and down, and look at them."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from lab.errors import ConfigurationError
from virtual import control, pdudaemon
from virtual.environment import DEFAULT_BOARD, DEFAULT_LATENCY_TIMER_MS
from virtual.images import cache
from virtual.qemu import recipe
from virtual.state import ENV, default_folder, expect, running

IDLE_OFF_S = 600.0  # a board that waits at the U-Boot prompt burns a core

app = typer.Typer(
    help="Virtual boards: real U-Boot and Linux on QEMU, powered and wired like real ones.", no_args_is_help=True
)
Folder = Annotated[
    Path | None, typer.Option("--dir", help="the bench's folder [default: $BOARDLAB_VIRTUAL, .lab/virtual]")
]
AsJson = Annotated[bool, typer.Option("--json", help="print JSON")]


@app.command()
def up(
    folder: Folder = None,
    board_type: Annotated[str, typer.Option("--type", help="board type")] = "qemu-virt",
    name: Annotated[str, typer.Option(help="the board's name")] = DEFAULT_BOARD,
    pdu_port: Annotated[int, typer.Option(help="pdudaemon's port; 0: a free one")] = pdudaemon.DEFAULT_PORT,
    idle_off: Annotated[float, typer.Option(help="switch off after so many silent seconds; 0: never")] = IDLE_OFF_S,
    latency_timer_ms: Annotated[float, typer.Option(help="of the USB adapter")] = DEFAULT_LATENCY_TIMER_MS,
    fresh: Annotated[bool, typer.Option("--fresh", help="start from new media")] = False,
) -> None:
    """Bring a virtual board up: its bench, its power switch and pdudaemon. The board itself is off."""
    where = _folder(folder)
    order = control.Order(where, board_type, name, pdu_port, idle_off, latency_timer_ms, fresh)
    state = control.up(order, lambda line: typer.echo(line, err=True))
    board = state.boards[0]
    typer.echo(
        f"{board.name} ({board.type}) is up: console {next(iter(board.uarts.values()))}, pdudaemon {state.pdudaemon}"
    )
    typer.echo(f"measure it: pytest --lg-env {_env(where)}")


@app.command()
def down(folder: Folder = None) -> None:
    """Take the virtual board down; nothing is left running."""
    where = _folder(folder)
    typer.echo("The virtual bench is down." if control.down(where) else f"No virtual bench runs in {where}.")


@app.command()
def status(folder: Folder = None, as_json: AsJson = False) -> None:
    """Say what is up, and how it is."""
    where = _folder(folder)
    state = running(where)
    boards = control.status(state) if state else []
    if as_json:
        bench = {"pid": state.pid, "http": state.http, "pdudaemon": state.pdudaemon} if state else None
        typer.echo(json.dumps({"dir": str(where), "bench": bench, "boards": boards}, indent=2))
        return
    if state is None:
        typer.echo(f"No virtual bench runs in {where}; `lab virtual up` starts one.")
        return
    typer.echo(f"bench in {where}: pid {state.pid}, power switch {state.http}, pdudaemon {state.pdudaemon}")
    table = Table("board", "type", "outlet", "power", "straps", "lost bytes", "")
    for board in boards:
        row = [str(board[key]) for key in ("name", "type", "outlet", "power", "straps", "overruns", "reason")]
        table.add_row(*row)
    Console().print(table)


@app.command()
def console(
    name: Annotated[str, typer.Argument(help="the board's name")] = DEFAULT_BOARD, folder: Folder = None
) -> None:
    """Open a terminal on a board's console, through the console server (`lab console attach`)."""
    state = expect(_folder(folder))
    board = next((board for board in state.boards if board.name == name), None)
    if board is None:
        raise ConfigurationError(f"no board {name!r}; there are: {', '.join(b.name for b in state.boards)}")
    lab = sys.argv[0]
    os.execv(lab, [lab, "console", "attach", next(iter(board.uarts.values()))])  # noqa: S606 - our own command


@app.command()
def images() -> None:
    """Build the boards' images now (`up` does it when they are missing)."""
    found = recipe.obtain(cache.default_root(), lambda line: typer.echo(line, err=True))
    typer.echo(f"Board images: {found}")


def _folder(given: Path | None) -> Path:
    return given.absolute() if given else default_folder()


def _env(where: Path) -> str:
    return "virtual.yaml" if where == Path.cwd() / ".lab" / "virtual" else str(where / ENV)
