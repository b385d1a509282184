"""`lab farm card`: the card of this host's multiplexer, for `lab provision` of another host, which starts it through ssh."""

from __future__ import annotations

from typing import Annotated

import typer

from lab.provision.ways import sd_mux
from lab.shown import echo_text

app = typer.Typer(no_args_is_help=False)


@app.command()
def card(
    device: Annotated[str, typer.Argument(metavar="DEVICE", help="The card reader's disk, e.g. /dev/sdb.")],
    *,
    write: Annotated[bool, typer.Option("--write", help="Write what comes on standard input.")] = False,
    read: Annotated[bool, typer.Option("--read", help="Read back what is asked for on standard input.")] = False,
    identity: Annotated[str, typer.Option(metavar="TEXT", help="What the disk must be, as looked at before.")] = "",
    size: Annotated[int, typer.Option("--bytes", metavar="N", help="How large it must be.")] = 0,
) -> None:
    """Say as JSON which disk it is, and whether a card may be written there; for other programs."""
    said = sd_mux.serve(device, identity, size, writable=write) if write or read else sd_mux.looked(device)
    if said:
        echo_text(said + "\n", end="")
