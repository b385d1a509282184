"""`lab console attach` and `tail`: a port as it is now. Little is imported here: scripts start it often."""

from __future__ import annotations

import re
import sys
from typing import Annotated, Final

import typer

from lab.cli.options import ServerRuntime
from lab.console.lookup import attached, awaited_writer, last_lines
from lab.console.terminal import LINGER_S, TIMEOUT_S, Ending, LiveText, Terminal
from lab.errors import ConfigurationError
from lab.shown import echo, echo_text

NOT_SEEN: Final = 3  # exit status
app = typer.Typer()

Port = Annotated[
    str,
    typer.Argument(
        metavar="PORT", help="A device, e.g. /dev/ttyUSB0; or a port or a board, as `lab console status` names it."
    ),
]
Backlog = Annotated[
    int, typer.Option(min=0, max=1_000_000, metavar="N", help="Print the last N lines that came before, too.")
]


@app.command()
def tail(
    port: Port,
    *,
    raw: Annotated[bool, typer.Option("--raw", help="The bytes as they come.")] = False,
    backlog: Backlog = 0,
    runtime: ServerRuntime = None,
) -> None:
    """Print what comes from a port, until Ctrl-C. Other readers are not affected."""
    client, info = attached(port, runtime)
    with client:
        text = LiveText()
        data = last_lines(info, backlog) if backlog else b""
        while True:
            if raw:
                sys.stdout.buffer.write(data)
                sys.stdout.flush()
            else:
                echo_text(text.feed(data), end="")
            chunk = client.read(timeout_s=60.0)
            data = b"" if chunk is None else chunk.data


@app.command()
def attach(
    port: Port,
    *,
    speed: Annotated[
        int | None, typer.Option(min=1, max=100_000_000, help="Baud rate (default: as the port is open, else 115200).")
    ] = None,
    backlog: Backlog = 0,
    lines: Annotated[
        bool, typer.Option("--lines", help="Send whole lines, and show text without terminal control sequences.")
    ] = False,
    until: Annotated[
        str | None, typer.Option(metavar="REGEX", help="End when this comes; exit status 3 when it does not.")
    ] = None,
    timeout: Annotated[
        float, typer.Option(min=0.0, metavar="S", help="With --until: wait this long after the last input.")
    ] = TIMEOUT_S,
    linger: Annotated[
        float,
        typer.Option(min=0.0, metavar="S", help="After the end of the input: stay until nothing came for this long."),
    ] = LINGER_S,
    runtime: ServerRuntime = None,
) -> None:
    """Open a terminal on a port, through the server: it goes on recording, and tests can follow. Ctrl-] ends it.

    Exit status: 0 done; 1 the server or the port is gone, or somebody else has it; 2 a wrong word; 3 what --until waits for
    did not come.
    """
    ending = Ending(None if until is None else _compiled(until), timeout, linger)
    client, info = attached(port, runtime, write=True, speed_bd=speed)
    with client:
        terminal = Terminal(client, ending, lines)
        if sys.stdin.isatty():
            echo(f"{info.meta.device} at {info.meta.speed_bd} Bd; {'Ctrl-D' if lines else 'Ctrl-]'} ends", err=True)
        if backlog:
            terminal.show(last_lines(info, backlog))
        seen = terminal.run()
        if sys.stdin.isatty():
            echo("", err=True)
    if not seen:
        echo_text(f"error: {until!r} did not come within {timeout:g} s", err=True)
        raise typer.Exit(NOT_SEEN)


@app.command()
def wait(
    port: Port,
    *,
    timeout: Annotated[float, typer.Option(min=0.0, metavar="S", help="Wait this long at most.")] = TIMEOUT_S,
    runtime: ServerRuntime = None,
) -> None:
    """Wait until somebody can type at a port: `attach`, or a measurement. Then a board may be switched on.

    Exit status: 0 somebody can; 3 nobody came in time.
    """
    writer = awaited_writer(port, timeout, runtime)
    if writer is None:
        echo_text(f"error: nobody has attached to {port} within {timeout:g} s", err=True)
        raise typer.Exit(NOT_SEEN)
    echo(f"process {writer} is attached to {port}")


def _compiled(until: str) -> re.Pattern[bytes]:
    try:
        return re.compile(until.encode(), re.MULTILINE)
    except re.error as error:
        raise ConfigurationError(f"--until {until!r} is no regular expression: {error}") from error
