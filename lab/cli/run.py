"""`lab run`: measure a board once, as a timer does it: one job at a time per board, resumable after any interruption."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from lab import shipped
from lab.env import envfile
from lab.errors import ConfigurationError
from lab.farm import suites
from lab.farm.runner import Runner, RunnerPaths
from lab.host import process
from lab.results import open_store
from lab.results.jobs import Job, JobQueue, Order
from lab.run.plans import MAX_CYCLES
from lab.shown import echo, log_to

LAST_ID = 2**31 - 1  # of the databases' integers
LONGEST_WAIT_S = 30 * 86_400.0
DEFAULT_SUITE = "boot"

app = typer.Typer(help="Measure a board: one job at a time, resumable after any interruption.")


@app.command()
def run(
    *,
    suite: Annotated[
        str | None,
        typer.Option(
            metavar="NAME[,NAME]",
            help="What to measure: boot, low_power, sections; guide is all of them (default: boot).",
        ),
    ] = None,
    env: Annotated[
        str | None,
        typer.Option(metavar="NAME", envvar="LAB_ENV", help="The board's environment, as of pytest --lg-env."),
    ] = None,
    release: Annotated[str, typer.Option(metavar="R", help="Release of the software on the board.")] = "",
    cycles: Annotated[
        int | None, typer.Option(min=1, max=MAX_CYCLES, metavar="N", help="Power cycles (default: the suite's).")
    ] = None,
    resume: Annotated[
        int | None,
        typer.Option(metavar="ID", min=1, max=LAST_ID, help="Resume a job that was interrupted or failed."),
    ] = None,
    go_on: Annotated[
        bool,
        typer.Option(
            "--continue", help="Resume the last job with these options if it was interrupted, else begin a new one."
        ),
    ] = False,
    wait: Annotated[
        float,
        typer.Option(
            min=0.0, max=LONGEST_WAIT_S, metavar="S", help="How long to wait for a board that another job holds."
        ),
    ] = 0.0,
    tests: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="The folder with the suites (default: tests_perf here, else boardlab's own)."
        ),
    ] = None,
    db: Annotated[
        str | None,
        typer.Option("--db", metavar="URL", help="The results (default: $LAB_DB, else ~/.local/share/boardlab)."),
    ] = None,
) -> None:
    """Measure a board, and lock it meanwhile."""
    log_to(sys.stderr)
    folder = Path.cwd()
    place = RunnerPaths(folder, (folder / tests).absolute() if tests else shipped.tests(folder), db)
    if resume is not None and go_on:
        raise ConfigurationError("--resume names the job, --continue looks for it: give one of them")
    with open_store(db) as store:
        book = JobQueue(store, process.identity(), process.has_died)
        if resume is None:
            job = _begin(book, place, suite or DEFAULT_SUITE, env, release, cycles, go_on)
        else:
            _same_order(book.job(resume), suite, release, cycles)
            job = book.take_up(resume)
        echo(f"job {job.id}: {','.join(job.suites)} on {job.board}, results in {store.url}")
        code = Runner(book, place, echo).run(job, wait)
    raise typer.Exit(code)


def _same_order(job: Job, suite: str | None, release: str, cycles: int | None) -> None:
    """A job has one order: what the options say beside `--resume` is what it has already."""
    given = {
        "--suite": ",".join(suites.expand(suite.split(","))) if suite else None,
        "--release": release or None,
        "--cycles": cycles,
    }
    has = {"--suite": ",".join(job.suites), "--release": job.release or None, "--cycles": job.cycles}
    wrong = [
        f"{option} {value} (it has {has[option] if has[option] is not None else 'none'})"
        for option, value in given.items()
        if value is not None and value != has[option]
    ]
    if wrong:
        raise ConfigurationError(
            f"job {job.id} was begun with another order: {', '.join(wrong)}. Leave that out, or start a new job"
        )


def _begin(
    book: JobQueue, place: RunnerPaths, suite: str, env: str | None, release: str, cycles: int | None, go_on: bool
) -> Job:
    if env is None:
        there = ", ".join(sorted(path.name for path in (place.folder / envfile.FOLDER).glob("*.yaml")))
        raise ConfigurationError(
            f"which board? Give --env NAME or $LAB_ENV; in {envfile.FOLDER}/ there are: {there or 'none (`lab init` writes them)'}"
        )
    wanted = suites.expand(suite.split(","))
    for name in wanted:
        suites.files(place.tests, name)
    path = envfile.find(env, place.folder)
    envfile.check(path)
    strategy = envfile.arguments_of(path, "BoardStrategy")
    if not strategy:
        raise ConfigurationError(
            f"{path} has no BoardStrategy, so nothing names its board; see {shipped.folder(shipped.ENVS)} for examples"
        )
    order = Order(str(strategy["board_type"]), str(strategy["board"]), wanted, str(path), release, cycles)
    unfinished = book.unfinished(order) if go_on else None
    return book.take_up(unfinished.id) if unfinished is not None else book.enqueue(order)
