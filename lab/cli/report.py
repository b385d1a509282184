"""`lab report`: a run as one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lab.cli.options import Database, Json, RunName, run_number, write_output
from lab.jobs.listing import whole_run
from lab.judge.boot_breakdown import breakdowns_if_any
from lab.judge.builds import remarks
from lab.report.page import render
from lab.report.view import judge_against, last_of
from lab.results.listing import overview
from lab.results.snapshot import watch
from lab.results.store import open_store
from lab.terminal import echo, echo_json
from lab.web.rails import power_of

app = typer.Typer(help="Write a run as one HTML page that needs no network.")


@app.command()
def report(
    run: RunName,
    *,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="RUN|RELEASE",
            help="Runs to compare with (default: the board's last runs that were not rejected).",
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Default: boardlab-run-RUN.html here.")
    ] = None,
    as_json: Json = False,
    db: Database = None,
) -> None:
    """Write a run as one HTML page that needs no network."""
    with open_store(db, create=False) as store:
        run_id = run_number(store, run)
        measured = whole_run(store, run_id)
        with watch(db).snapshot() as snapshot:
            verdicts, notes = judge_against(snapshot, run_id, against), remarks(snapshot, run_id)
        before = last_of(verdicts)
        earlier = None if before is None else overview(store, before)
        page = render(
            measured,
            store.artifacts,
            verdicts,
            earlier,
            notes,
            power=power_of(measured, store.artifacts),
            where=breakdowns_if_any(store, run_id),
            where_before=[] if before is None else breakdowns_if_any(store, before),
        )
    path = output or Path(f"boardlab-run-{run_id}.html")
    write_output(path, page, "-o")
    if as_json:
        echo_json({"files": [str(path.absolute())]})
    else:
        echo(str(path.absolute()))
