"""`lab console tls`: the console server for other hosts."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from lab.cli.exporter import address
from lab.console.tlsfront import TlsFront
from lab.host.runtime import prepare, runtime_dir, socket_path
from lab.host.tls import FOLDER, VARIABLE, Identity
from lab.shown import echo, log_to

app = typer.Typer()


@app.command()
def tls(
    *,
    listen: Annotated[str, typer.Option(metavar="ADDRESS:PORT", help="Where to listen, e.g. 10.0.0.1:7443.")],
    certificates: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help=f"With ca.crt, host.crt and host.key (default: ${VARIABLE}, then {FOLDER})."),
    ] = None,
    runtime: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The console server's folder (default: as `lab console serve`).")
    ] = None,
) -> None:
    """Serve the console server's ports to other hosts, until SIGTERM or Ctrl-C: TCP with TLS 1.3.

    Only who shows a certificate of the lab's own authority gets in; that one may read every port and type at it.
    """
    host, port = address(listen)
    folder = prepare((runtime or runtime_dir()).absolute())
    log_to(sys.stderr)
    front = TlsFront(socket_path(folder), host, port, Identity(certificates) if certificates else Identity.found())
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: front.stop())
    shown = f"[{host}]" if ":" in host else host
    echo(f"serving {socket_path(folder)} at {shown}:{front.port} (TLS)")
    front.run()
