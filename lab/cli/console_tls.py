"""`lab console tls`: the console server, and what else measures here, for other hosts."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from lab.cli.exporter import address
from lab.console.tlsfront import TlsFront
from lab.console.tlsservices import Pdudaemon, Services
from lab.host.runtime import prepare, runtime_dir, socket_path
from lab.host.tls import FOLDER, VARIABLE, Identity
from lab.rails.server import rails_socket
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
    pdudaemon: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ADDRESS:PORT",
            help="Of a pdudaemon on this host's loopback, e.g. 127.0.0.1:16421. No other port is reached.",
        ),
    ] = None,
    runtime: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The console server's folder (default: as `lab console serve`).")
    ] = None,
) -> None:
    """Serve consoles, rails and power to other hosts, until SIGTERM or Ctrl-C: TCP with TLS 1.3.

    Only who shows a certificate of the lab's own authority gets in; that one may read every port of the console server and type at it, sample
    what `lab rails serve` samples, and switch what each pdudaemon that is named switches.
    """
    host, port = address(listen)
    folder = prepare((runtime or runtime_dir()).absolute())
    log_to(sys.stderr)
    named = tuple(Pdudaemon(*address(each, "--pdudaemon")) for each in pdudaemon or ())
    services = Services(socket_path(folder), rails_socket(folder), named)
    front = TlsFront(services, host, port, Identity(certificates) if certificates else Identity.found())
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: front.stop())
    shown = f"[{host}]" if ":" in host else host
    more = f", with pdudaemon at {', '.join(each.shown for each in named)}" if named else ""
    echo(f"serving {folder} at {shown}:{front.port} (TLS){more}")
    front.run()
