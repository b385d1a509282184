"""`lab farm janitor`: labgrid's places that dead jobs hold are released, boards that people reserved are acquired for them, places without exporter for nobody."""

from __future__ import annotations

import logging
import sys
import time
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from exporters.farm.coordinator import Coordinator
from lab.errors import ConfigurationError
from lab.farm.config import load
from lab.farm.labgrid_place import boards_behind, is_at
from lab.farm.loaded import noted, start_anew
from lab.host import process
from lab.host.runtime import runtime_dir
from lab.jobs.queue import JobQueue
from lab.places.holding import with_port
from lab.places.janitor import GRACE_S, LOOK_S, Janitor, patient
from lab.results import open_store
from lab.shown import echo, log_to

app = typer.Typer(no_args_is_help=False)


@app.command()
def janitor(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The farm.yaml, with `coordinator` and `database`.")],
    *,
    once: Annotated[bool, typer.Option("--once", help="Look once, and end.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, do nothing, and end.")] = False,
) -> None:
    """Release labgrid's places that dead jobs hold, acquire those of boards that people reserved, and keep those that are of no use from everybody."""
    log_to(sys.stderr)
    farm = load(file)
    if not farm.coordinator:
        raise ConfigurationError(f"{file}: it names no `coordinator`: there are no places to look after")
    address = with_port(farm.coordinator)
    coordinator = Coordinator(address)
    with open_store(farm.database) as store:
        book = JobQueue(store, process.identity(), process.has_died)
        grace_s = 0.0 if dry_run or once else GRACE_S  # who looks once has not seen since when an exporter is away
        boards, at = partial(boards_behind, farm), partial(is_at, coordinator=address)
        looker = Janitor(coordinator, store, book, boards, at, grace_s)
        if dry_run or once:
            book.settle()
            deeds = looker.due() if dry_run else list(looker.tidy())
            for deed in deeds:
                echo(f"{'would be: ' if dry_run else ''}{deed.described}")
            if not deeds:
                echo("No place is left behind.")
            return
        loaded, told = noted("janitor", file, farm, runtime_dir()), ""
        while True:
            for deed in patient(looker):
                echo(deed.described)
            time.sleep(LOOK_S)
            try:
                if loaded.is_older():
                    break
                told = ""
            except ConfigurationError as error:
                if told != str(error):
                    logging.warning("the janitor goes on with the farm.yaml of before: %s", error)
                told = str(error)
    echo(f"{file} says something else now: it is loaded")
    start_anew()
