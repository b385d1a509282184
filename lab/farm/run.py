"""`lab run`: measure a board once, as a timer does it: one job at a time per board, resumable after any interruption."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Annotated

import typer

from lab.drivers import envfile
from lab.errors import ConfigurationError
from lab.farm import holder, suites
from lab.farm.runner import Place, Runner
from lab.results import open_store
from lab.results.jobs import Job, JobBook, Order

LAST_ID = 2**31 - 1  # of the databases' integers

app = typer.Typer(help="Measure a board: one job at a time, resumable after any interruption.")


@app.command()
def run(
    *,
    suite: Annotated[
        str,
        typer.Option(metavar="NAME[,NAME]", help="What to measure: boot, power, sections; guide is all of them."),
    ] = "boot",
    env: Annotated[
        str | None,
        typer.Option(metavar="NAME", envvar="LAB_ENV", help="The board's environment, as of pytest --lg-env."),
    ] = None,
    release: Annotated[str, typer.Option(metavar="R", help="Release of the software on the board.")] = "",
    cycles: Annotated[int | None, typer.Option(min=1, metavar="N", help="Power cycles [default: the suite's]")] = None,
    resume: Annotated[
        int | None,
        typer.Option(metavar="ID", min=1, max=LAST_ID, help="Go on with a job that was interrupted or failed."),
    ] = None,
    go_on: Annotated[
        bool,
        typer.Option("--continue", help="Go on with the last such job if it was interrupted, else begin a new one."),
    ] = False,
    wait: Annotated[
        float, typer.Option(min=0.0, metavar="S", help="How long to wait for a board that another job has.")
    ] = 0.0,
    tests: Annotated[Path, typer.Option(metavar="DIR", help="The folder with the suites.")] = Path("tests_perf"),
    db: Annotated[
        str | None, typer.Option("--db", metavar="URL", help="The results (default: $LAB_DB, else yours).")
    ] = None,
) -> None:
    """Measure a board, and keep others from measuring it meanwhile."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(levelname)s %(message)s")
    folder = Path.cwd()
    place = Place(folder, (folder / tests).absolute(), db)
    if resume is not None and (release or cycles is not None or go_on):
        raise ConfigurationError(
            "--resume goes on with the job's own order; leave out --release, --cycles, --continue"
        )
    with open_store(db) as store:
        book = JobBook(store, holder.me(), holder.gone)
        job = book.take_up(resume) if resume is not None else _begin(book, place, suite, env, release, cycles, go_on)
        typer.echo(f"job {job.id}: {','.join(job.suites)} on {job.board}, results in {store.url}")
        code = Runner(book, place, typer.echo).run(job, wait)
    raise typer.Exit(code)


def _begin(
    book: JobBook, place: Place, suite: str, env: str | None, release: str, cycles: int | None, go_on: bool
) -> Job:
    if env is None:
        there = ", ".join(sorted(path.name for path in (place.folder / envfile.FOLDER).glob("*.yaml")))
        raise ConfigurationError(f"which board? Give --env NAME or $LAB_ENV; in {envfile.FOLDER}/ there are: {there}")
    wanted = suites.expand(suite.split(","))
    for name in wanted:
        suites.files(place.tests, name)
    path = envfile.find(env, place.folder)
    envfile.check(path)
    strategy = envfile.arguments_of(path, "BoardStrategy")
    if not strategy:
        raise ConfigurationError(f"{path} has no BoardStrategy, so nothing names its board; see envs/ for examples")
    order = Order(str(strategy["board_type"]), str(strategy["board"]), wanted, str(path), release, cycles)
    unfinished = book.unfinished(order) if go_on else None
    return book.take_up(unfinished.id) if unfinished is not None else book.enqueue(order)
