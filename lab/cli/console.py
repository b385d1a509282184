"""`lab console status`, `serve` and `stop`: the console server."""

from __future__ import annotations

from pathlib import Path

import typer
from attrs import asdict

from lab.cli.options import Json, ServerRuntime
from lab.console import terminal
from lab.console.client import ConsoleClient
from lab.console.server import serve as serve_here
from lab.errors import LabTransientError
from lab.host.runtime import prepare, runtime_dir, socket_path
from lab.shown import echo, echo_json

app = typer.Typer(help="Serial consoles: server, live view, recordings and their replay.", no_args_is_help=True)


@app.command()
def status(*, as_json: Json = False, runtime: ServerRuntime = None) -> None:
    """Show the server and its ports."""
    with _connect(runtime) as client:
        state = client.status()
    if as_json:
        echo_json(asdict(state))
    else:
        echo(*terminal.status_lines(state))


@app.command()
def serve(*, runtime: ServerRuntime = None) -> None:
    """Run the server here, until Ctrl-C. Measuring starts one by itself when it finds none."""
    folder = prepare(runtime or runtime_dir())
    serve_here(folder, ready=lambda: echo(f"serving {socket_path(folder)}"))


@app.command()
def stop(*, runtime: ServerRuntime = None) -> None:
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
