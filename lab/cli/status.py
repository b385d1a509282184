"""`lab status`: the lab on one screen."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lab.farm import now, nowlines
from lab.shown import echo, echo_json

app = typer.Typer(help="The lab on one screen: boards, who holds them, results, failures, services.")

Database = Annotated[
    str | None,
    typer.Option(
        "--db", metavar="URL", help="The results (default: $LAB_DB, farm.yaml's, else ~/.local/share/boardlab)."
    ),
]
FarmFile = Annotated[
    Path | None,
    typer.Option("--farm", metavar="FILE", help="The host's farm.yaml (default: here, or in /etc/boardlab)."),
]
Runtime = Annotated[
    Path | None,
    typer.Option("--runtime", metavar="DIR", help="The console server's folder (default: as `lab console`)."),
]


@app.command()
def status(
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for other programs.")] = False,
    db: Database = None,
    farm: FarmFile = None,
    runtime: Runtime = None,
) -> None:
    """Show boards and who holds them, what they measure and gave last, failures of 24 h, services."""
    found = now.look(db, farm, runtime)
    if as_json:
        echo_json(nowlines.document(found))
    else:
        echo(*nowlines.lines(found))
