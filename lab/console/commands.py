"""`lab console`: the console server, a live view, recordings and their replay."""

from __future__ import annotations

import json
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
    typer.echo(json.dumps(result.document(), indent=2) if as_json else "\n".join(display.replay_lines(result)))


@app.command()
def show(file: File, *, raw: Annotated[bool, typer.Option("--raw", help="The bytes as they came.")] = False) -> None:
    """Print a recording, each line with the time since the first one."""
    recording = Recording.open(file)
    if raw:
        typer.echo(recording.log, nl=False)
        return
    for line in display.log_lines(recording):
        typer.echo(line)


@app.command()
def tail(
    port: Annotated[str, typer.Argument(metavar="PORT", help="Its name, as `lab console status` has it.")],
    *,
    runtime: Runtime = None,
) -> None:
    """Print what comes from a port, until Ctrl-C. Nobody is disturbed."""
    with _connect(runtime) as client:
        client.attach(port)
        while True:
            chunk = client.read(timeout_s=60.0)
            if chunk is not None:
                typer.echo(chunk.data, nl=False)


@app.command()
def attach(
    device: Annotated[str, typer.Argument(metavar="DEVICE", help="The serial port, e.g. /dev/ttyUSB0.")],
    *,
    speed: Annotated[int, typer.Option(help="Baud rate.")] = 115200,
    runtime: Runtime = None,
) -> None:
    """Open a terminal on a port, through the server: it goes on recording, and tests can follow. Ctrl-] ends it."""
    with ConsoleClient(ensure_server(runtime)) as client:
        client.attach(client.open(device, speed_bd=speed).name, write=True)
        typer.echo(f"{device} at {speed} Bd; Ctrl-] ends", err=True)
        interact(client)
        typer.echo("", err=True)


@app.command()
def status(*, as_json: Json = False, runtime: Runtime = None) -> None:
    """Show the server and its ports."""
    with _connect(runtime) as client:
        state = client.status()
    typer.echo(json.dumps(asdict(state), indent=2) if as_json else "\n".join(display.status_lines(state)))


@app.command()
def serve(*, runtime: Runtime = None) -> None:
    """Run the server here, until Ctrl-C. Measuring starts one by itself when it finds none."""
    folder = prepare(runtime or runtime_dir())
    serve_here(folder, ready=lambda: typer.echo(f"serving {socket_path(folder)}"))


@app.command()
def stop(*, runtime: Runtime = None) -> None:
    """End the server; its recordings stay."""
    try:
        client = _connect(runtime)
    except LabTransientError:
        typer.echo("no console server runs")
        return
    with client:
        client.stop()
    typer.echo("stopped")


def _connect(runtime: Path | None) -> ConsoleClient:
    return ConsoleClient(socket_path(runtime or runtime_dir()))
