"""`lab boards`: the known board types, and drafts of new ones."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import Annotated

import typer
from attrs import asdict

from lab.benchmarks.lowpower.modes import woken_by
from lab.boards.registry import assumptions, load, names
from lab.cli.options import Database, Json, write_output
from lab.errors import ConfigurationError
from lab.terminal import echo, echo_json, table

app = typer.Typer(help="Board types that boardlab knows; a draft of a new one.")


@app.callback(invoke_without_command=True)
def boards(context: typer.Context, *, as_json: Json = False) -> None:
    """List the board types that boardlab knows, with their boot media."""
    if context.invoked_subcommand is not None:
        return
    types = [load(name) for name in names()]
    if as_json:
        echo_json([{**asdict(board), "assumptions": assumptions(board)} for board in types])
        return
    rows = [[board.name, ", ".join(board.media), str(len(assumptions(board))), board.title] for board in types]
    echo(*table(["type", "boots from", "assumed", "title"], rows, "<<><"))


@app.command()
def show(
    board_type: Annotated[str, typer.Argument(metavar="TYPE", help="A board type.")],
    *,
    db: Database = None,
    as_json: Json = False,
) -> None:
    """Show a board type: media, low-power modes, and which of its values are assumed.

    A good run on a real board in the results database confirms its medium, its mode, its console's moments.
    """
    board = load(board_type)
    assumed = assumptions(board)
    if assumed:
        from lab.results.listing import still_assumed  # noqa: PLC0415 - SQLAlchemy takes a while to import
        from lab.results.store import open_store  # noqa: PLC0415

        with (
            contextlib.suppress(ConfigurationError) if db is None else contextlib.nullcontext(),
            open_store(db, create=False) as store,
        ):
            assumed = still_assumed(store, board.name, assumed)
    if as_json:
        values = {name: medium.boot_mode for name, medium in board.media.items()} | dict(board.recovery)
        switches = {name: board.switches(value) for name, value in values.items()}
        echo_json({**asdict(board), "switches": switches, "assumptions": assumed})
        return
    echo(f"{board.name}: {board.title} ({board.soc})", "")
    media = [(name, medium.boot_mode, medium.title) for name, medium in board.media.items()]
    media += [(way, value, "the ROM waits for a program") for way, value in board.recovery.items()]
    rows = [[name, f"{value:#06x}", board.switches(value), title] for name, value, title in media]
    echo(*table(["medium", "straps", "switches, B0 first", "title"], rows, "<><<"), "")
    modes = [(mode, board.low_power.modes[mode]) for mode in board.sleep]
    if modes:
        rows = [
            [
                mode,
                low_power_mode.title,
                "boot" if low_power_mode.boots else "resume",
                ", ".join(woken_by(board, mode)),
                low_power_mode.jumper,
            ]
            for mode, low_power_mode in modes
        ]
        echo(*table(["mode", "title", "comes back by", "woken by", "jumper"], rows, "<<<<<"), "")
    echo("assumed, until a run on a real board confirms it:" if assumed else "nothing is assumed")
    echo(*(f"  {place}" for place in assumed))


@app.command()
def learn(
    logs: Annotated[
        list[str],
        typer.Argument(metavar="[MEDIUM=]LOG...", help="Console logs, one boot each, and what each booted from."),
    ],
    *,
    name: Annotated[str, typer.Option(metavar="NAME", help="The type's name (default: that of --output).")] = "",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write it there (default: print it).")
    ] = None,
) -> None:
    """Draft a board type from the logs of its boots.

    What the logs leave open is marked UNSURE. Then `lab console check FILE LOG...` says how well it reads them.
    """
    from lab.run.check.learn import draft  # noqa: PLC0415 - only this command reads logs

    if output is not None and output.exists():
        raise ConfigurationError(f"{output} exists already; name another file with --output, or delete it")
    name = name or (output.stem if output else "my_board")
    drafted = draft(name, [_pair(log) for log in logs])
    if output is None:
        echo(*drafted.text.splitlines())
    else:
        write_output(output, drafted.text, "-o")
    unsure = drafted.text.count("UNSURE")
    echo(f"{name}: {unsure} places are UNSURE" if unsure else f"{name}: nothing is unsure", err=True)
    for path, verdict in drafted.verdicts.items():
        echo(
            f"{path}: {verdict.fit}{': ' * bool(verdict.reasons)}{'; '.join(r.why for r in verdict.reasons)}", err=True
        )


def _pair(argument: str) -> tuple[str, Path]:
    """The medium, if one is given, and the log."""
    match = re.fullmatch(r"([a-z][a-z0-9_]*)=(.+)", argument)
    if match is None or Path(argument).exists():
        return "", Path(argument)
    return match[1], Path(match[2])
