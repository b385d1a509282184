"""`lab farm export`: this host's boards for labgrid's coordinator."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from socket import getfqdn, gethostname
from typing import Annotated

import typer

from lab.cli.options import Runtime
from lab.host.runtime import runtime_dir
from lab.places.exporter import LOOPBACK, ExporterOptions, run
from lab.shown import log_to

app = typer.Typer(no_args_is_help=False)


@app.command()
def export(
    resources: Annotated[Path, typer.Argument(metavar="FILE", help="What to export, as labgrid's exporter has it.")],
    *,
    coordinator: Annotated[
        str, typer.Option(envvar="LG_COORDINATOR", metavar="HOST:PORT", help="labgrid's coordinator.")
    ] = "127.0.0.1:20408",
    name: Annotated[str, typer.Option(metavar="NAME", help="Of this exporter (default: the host's).")] = "",
    hostname: Annotated[
        str, typer.Option(metavar="NAME", help="By which other hosts reach this one (default: its full name).")
    ] = "",
    listen: Annotated[
        str,
        typer.Option(metavar="ADDRESS", help="Of the TCP ports for labgrid's own clients, which know no password."),
    ] = LOOPBACK,
    isolated: Annotated[bool, typer.Option("--isolated", help="Let labgrid's own clients come through ssh.")] = False,
    runtime: Runtime = None,
) -> None:
    """Export this host's boards to labgrid's coordinator, with the console server behind their serial ports."""
    log_to(sys.stderr)
    options = ExporterOptions(
        resources,
        coordinator,
        (runtime or runtime_dir()).absolute(),
        name or gethostname(),
        hostname or getfqdn(),
        listen,
        isolated,
    )
    if not options.on_loopback:
        logging.warning(
            "--listen %s: every console is served without any authentication: whoever reaches this address reads it and types at it",
            listen,
        )
    raise typer.Exit(run(options))
