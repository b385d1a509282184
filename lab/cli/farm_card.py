"""`lab farm card`, without the imports of `lab farm`: another host waits for it, several times a write."""

from __future__ import annotations

from typing import Annotated

import typer

from lab.provision.writers import sd_mux
from lab.terminal import echo_text

app = typer.Typer()


@app.callback()
def farm() -> None:
    """Stands for `lab farm`."""


@app.command(hidden=True)
def card(
    device: Annotated[str, typer.Argument(metavar="DEVICE", help="The card reader's disk, e.g. /dev/sdb.")],
    *,
    write: Annotated[bool, typer.Option("--write", help="Write what comes on standard input.")] = False,
    read: Annotated[bool, typer.Option("--read", help="Read back what is asked for on standard input.")] = False,
    identity: Annotated[str, typer.Option(metavar="TEXT", help="Identity of the disk, as it was read before.")] = "",
    size: Annotated[int, typer.Option("--bytes", metavar="N", help="Size of the disk.")] = 0,
) -> None:
    """Print a card reader's disk as JSON, or write or read it.

    Another host's `lab provision` starts this.
    """
    answer = sd_mux.serve(device, identity, size, writable=write) if write or read else sd_mux.look(device)
    if answer:
        echo_text(answer + "\n", end="")
