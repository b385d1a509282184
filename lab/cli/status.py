"""`lab status`: the lab on one screen."""

from __future__ import annotations

import typer

from lab.cli.options import FarmFile, HostDatabase, Json, Runtime
from lab.farm import status as farm_status
from lab.terminal import echo, echo_json

app = typer.Typer(help="The lab on one screen: boards, their jobs, results, failures, services.")


@app.command()
def status(
    *,
    as_json: Json = False,
    db: HostDatabase = None,
    farm: FarmFile = None,
    runtime: Runtime = None,
) -> None:
    """Show boards, their jobs, last results, failures and services.

    The failures are those of 24 h.
    """
    lab_now = farm_status.look(db, farm, runtime)
    if as_json:
        echo_json(farm_status.document(lab_now))
    else:
        echo(*farm_status.lines(lab_now))
