"""`lab backup` and `lab restore`: a lab's copy on another disk.

A backup is restored on this host or a new one, on SQLite or PostgreSQL.
"""

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
from lab.results.backup import CopyResult
from lab.results.location import locate
from lab.results.store import open_store
from lab.terminal import echo, echo_json
from lab.web.auth import default_file

app = typer.Typer(help="Back up results, recordings, farm.yaml and environments to a folder.")
restore_app = typer.Typer(help="Restore a backup: results, recordings, files; or only check it.")


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
    settings = host.farm.backup if host.farm is not None else None
    if folder is None:
        if settings is None:
            raise ConfigurationError("which folder? lab backup DIR, or `backup: {to: DIR}` in farm.yaml")
        folder = Path(settings.to)
    files = [*labfolder.backup_files(host, services.runtime_of(host) if runtime is None else runtime), default_file()]
    with (
        open_store(services.database(db, host.farm), create=False) as store,
        Audit(store).acting(Act(about=str(folder)), backups.ACTION, person=process.actor()),
    ):
        new_backup, copied = backups.back_up(
            store, folder, files, keep or (settings.keep if settings is not None else backups.KEEP)
        )
    if as_json:
        copies = {"new_artifacts": copied.count, "new_bytes": copied.bytes}
        echo_json({**asdict(new_backup), "path": str(new_backup.path), **copies})
    else:
        echo(
            f"{new_backup.path}: {new_backup.runs} runs, {new_backup.artifacts} artifacts ({copied.count} new, "
            f"{copied.bytes / 1e6:.1f} MB), {len(new_backup.files)} files"
        )
    if new_backup.missing:
        raise LabStableError(
            f"{new_backup.path} lacks {len(new_backup.missing)} of its artifacts, which are missing or damaged here: "
            f"{', '.join(new_backup.missing[:3])}; the rest is complete. The hosts that measured them may have them: "
            "lab results upload --all there, then back up again",
            failure="artifacts",
        )


@restore_app.command()
def restore(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="A folder of backups, whose newest counts, or one backup.")
    ],
    *,
    files: Annotated[
        Path | None,
        typer.Option("--files", metavar="DIR", help="Write only the files, below this folder; `/`: where they were."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check all digests; write nothing.")] = False,
    db: HostDatabase = None,
    farm: FarmFile = None,
) -> None:
    """Restore the results of a backup, or its files.

    Results go to --db, an SQLite file or an empty database of PostgreSQL, whichever they were on. Nothing that is there
    is replaced. All is verified by SHA-256.
    """
    chosen = backups.find_backup(folder)
    about = (
        f"{chosen.path}: of {chosen.at[:19].replace('T', ' ')} UTC, boardlab {chosen.boardlab}, from {chosen.source}"
    )
    if dry_run:
        echo(about)
        _tell(backups.verify(chosen), "intact")
        return
    if files is not None:
        written = backups.write_files(chosen, files)
        echo(about, f"{len(written)} of {len(chosen.files)} files written below {files}; the others are there already")
        return
    target = locate(db) if db else locate(services.database(db, services.host_file(farm).farm))
    copied = backups.restore(chosen, target)
    echo(about, f"{chosen.runs} runs are in {target.name}")
    if chosen.files:
        echo(f"{len(chosen.files)} files: lab restore {chosen.path} --files /")
    _tell(copied, f"in {target.artifacts}")


def _tell(copied: CopyResult, where: str) -> None:
    files = f" and {copied.files} files" if copied.files else ""
    echo(f"{copied.count} artifacts{files}, {copied.bytes / 1e6:.1f} MB, {where}")
    if copied.missing:
        raise LabStableError(
            f"{len(copied.missing)} are missing or damaged in the backup: {', '.join(copied.missing[:3])}; an earlier "
            "backup may have them, or the hosts that measured them: lab results upload --all"
        )
