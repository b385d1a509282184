"""`lab console`: the console server, a live view, recordings and their replay."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from attrs import asdict

from lab import boards
from lab.console import display
from lab.console.client import ConsoleClient
from lab.console.recording import Recording
from lab.console.replay import guess_board
from lab.console.replay import replay as replay_recording
from lab.console.runtime import prepare, runtime_dir, socket_path
from lab.console.server import serve as serve_here
from lab.console.spawn import ensure_server
from lab.console.terminal import interact
from lab.errors import LabTransientError
from lab.shown import echo, echo_json, echo_text

app = typer.Typer(help="Serial consoles: server, live view, recordings and their replay.", no_args_is_help=True)

Json = Annotated[bool, typer.Option("--json", help="Print JSON for other programs.")]
File = Annotated[Path, typer.Argument(metavar="FILE", help="The .log or the .idx of a recording.")]
Runtime = Annotated[
    Path | None,
    typer.Option("--runtime", metavar="DIR", help="The server's folder (default: $BOARDLAB_RUNTIME, else yours)."),
]


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
        echo(*display.replay_lines(result))


@app.command()
def show(file: File, *, raw: Annotated[bool, typer.Option("--raw", help="The bytes as they came.")] = False) -> None:
    """Print a recording, each line with the time since the first one."""
    recording = Recording.open(file)
    if raw:
        sys.stdout.buffer.write(recording.log)
        return
    for line in display.log_lines(recording):
        echo(line)


@app.command()
def tail(
    port: Annotated[str, typer.Argument(metavar="PORT", help="Its name, as `lab console status` has it.")],
    *,
    raw: Annotated[bool, typer.Option("--raw", help="The bytes as they come.")] = False,
    runtime: Runtime = None,
) -> None:
    """Print what comes from a port, until Ctrl-C. Nobody is disturbed."""
    with _connect(runtime) as client:
        client.attach(port)
        text = display.LiveText()
        while True:
            chunk = client.read(timeout_s=60.0)
            if chunk is None:
                continue
            if raw:
                sys.stdout.buffer.write(chunk.data)
                sys.stdout.flush()
            else:
                echo_text(text.feed(chunk.data), end="")


@app.command()
def attach(
    device: Annotated[str, typer.Argument(metavar="DEVICE", help="The serial port, e.g. /dev/ttyUSB0.")],
    *,
    speed: Annotated[int, typer.Option(min=1, max=100_000_000, help="Baud rate.")] = 115200,
    runtime: Runtime = None,
) -> None:
    """Open a terminal on a port, through the server: it goes on recording, and tests can follow. Ctrl-] ends it."""
    with ConsoleClient(ensure_server(runtime)) as client:
        client.attach(client.open(device, speed_bd=speed).name, write=True)
        echo(f"{device} at {speed} Bd; Ctrl-] ends", err=True)
        interact(client)
        echo("", err=True)


@app.command()
def status(*, as_json: Json = False, runtime: Runtime = None) -> None:
    """Show the server and its ports."""
    with _connect(runtime) as client:
        state = client.status()
    if as_json:
        echo_json(asdict(state))
    else:
        echo(*display.status_lines(state))


@app.command()
def serve(*, runtime: Runtime = None) -> None:
    """Run the server here, until Ctrl-C. Measuring starts one by itself when it finds none."""
    folder = prepare(runtime or runtime_dir())
    serve_here(folder, ready=lambda: echo(f"serving {socket_path(folder)}"))


@app.command()
def stop(*, runtime: Runtime = None) -> None:
    """End the server; its recordings stay."""
    try:
        client = _connect(runtime)
    except LabTransientError:
        echo("no console server runs")
        return
    with client:
        client.stop()
    echo("stopped")


def _connect(runtime: Path | None) -> ConsoleClient:
    return ConsoleClient(socket_path(runtime or runtime_dir()))
