"""`lab backup`: the measuring lab in a folder of another disk."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from attrs import asdict

from lab.cli.options import FarmFile, HostDatabase, Json, Runtime
from lab.errors import ConfigurationError, LabStableError
from lab.farm import labfolder, services
from lab.host import process
from lab.results import backup as backups
from lab.results.audit import Act, Audit
from lab.results.store import open_store
from lab.terminal import echo, echo_json
from lab.web.auth import default_file

app = typer.Typer(help="Back up results, recordings, farm.yaml and environments to a folder.")


@app.command()
def backup(
    folder: Annotated[
        Path | None,
        typer.Argument(metavar="[DIR]", help="The folder of backups (default: `backup: to` of farm.yaml)."),
    ] = None,
    *,
    keep: Annotated[
        int | None, typer.Option(min=1, help="Keep so many backups (default: farm.yaml's, else 7).")
    ] = None,
    as_json: Json = False,
    db: HostDatabase = None,
    farm: FarmFile = None,
    runtime: Runtime = None,
) -> None:
    """Back up the lab to a folder, also while boards measure.

    It has the results with all recordings and traces, farm.yaml and the files that it names, environments, strategies,
    tests_perf, users, labgrid's places and live recordings; no ssh keys, no passwords of databases, no images.
    """
    host = services.host_file(farm)
    wanted = host.farm.backup if host.farm is not None else None
    if folder is None:
        if wanted is None:
            raise ConfigurationError("which folder? lab backup DIR, or `backup: {to: DIR}` in farm.yaml")
        folder = Path(wanted.to)
    files = [*labfolder.backed_up(host, services.runtime_of(host) if runtime is None else runtime), default_file()]
    with (
        open_store(services.database(db, host.farm), create=False) as store,
        Audit(store).acting(Act(about=str(folder)), backups.ACTION, person=process.actor()),
    ):
        made, copied = backups.back_up(
            store, folder, files, keep or (wanted.keep if wanted is not None else backups.KEEP)
        )
    if as_json:
        echo_json({**asdict(made), "path": str(made.path), "new_artifacts": copied.count, "new_bytes": copied.bytes})
    else:
        echo(
            f"{made.path}: {made.runs} runs, {made.artifacts} artifacts ({copied.count} new, {copied.bytes / 1e6:.1f} MB), "
            f"{len(made.files)} files"
        )
    if made.missing:
        raise LabStableError(
            f"{made.path} lacks {len(made.missing)} of its artifacts, which are missing or damaged here: {', '.join(made.missing[:3])}; the rest is "
            "complete. The hosts that measured them may have them: lab results upload --all there, then back up again",
            failure="artifacts",
        )
