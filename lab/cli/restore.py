"""`lab restore`: a backup as it was, on this host or a new one, on SQLite or PostgreSQL."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lab.cli.options import FarmFile, HostDatabase
from lab.errors import LabStableError
from lab.farm import services
from lab.results import backup as backups
from lab.results.backup import Copied
from lab.results.location import locate
from lab.terminal import echo

app = typer.Typer(help="Restore a backup: results, recordings, files; or only check it.")


@app.command()
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
    found = backups.chosen(folder)
    about = f"{found.path}: of {found.at[:19].replace('T', ' ')} UTC, boardlab {found.boardlab}, from {found.source}"
    if dry_run:
        echo(about)
        _tell(backups.verified(found), "intact")
        return
    if files is not None:
        new = backups.write_files(found, files)
        echo(about, f"{len(new)} of {len(found.files)} files written below {files}; the others are there already")
        return
    target = locate(db) if db else locate(services.database(db, services.host_file(farm).farm))
    copied = backups.restore(found, target)
    echo(about, f"{found.runs} runs are in {target.name}")
    if found.files:
        echo(f"{len(found.files)} files: lab restore {found.path} --files /")
    _tell(copied, f"in {target.artifacts}")


def _tell(copied: Copied, where: str) -> None:
    echo(f"{copied.count} artifacts, {copied.bytes / 1e6:.1f} MB, {where}")
    if copied.missing:
        raise LabStableError(
            f"{len(copied.missing)} are missing or damaged in the backup: {', '.join(copied.missing[:3])}; an earlier backup may have "
            "them, or the hosts that measured them: lab results upload --all"
        )
