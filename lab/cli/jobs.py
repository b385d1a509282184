"""`lab jobs`: jobs that measure or wait; show and cancel them."""

from __future__ import annotations

import datetime as dt
import shlex
from typing import Annotated, Any, Final

import typer

from lab.cli.options import Database, Json
from lab.host import process
from lab.jobs import listing
from lab.jobs.listing import JobView, moment
from lab.jobs.queue import JobQueue
from lab.jobs.records import BY_HEALTH, BY_LAB_RUN, BY_PROVISION, BY_WEB, Job, number, seems_dead
from lab.results import open_store
from lab.results.records import LAST_ID
from lab.run import options
from lab.run.options import PROVISION
from lab.terminal import echo, echo_json, table

_HEADER: Final = ("job", "state", "board", "what", "who", "begun (UTC)", "end")

app = typer.Typer(help="Jobs that measure or wait for a board: list, show and cancel them.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="JOB", help="A job of `lab jobs list`, e.g. j12.")]


@app.command("list")
def list_jobs(
    *,
    as_json: Json = False,
    limit: Annotated[
        int, typer.Option(min=1, max=LAST_ID, help="Jobs at most; those that have not ended are always listed.")
    ] = 20,
    db: Database = None,
) -> None:
    """List jobs, the newest first."""
    with open_store(db, create=False) as store:
        now = store.now()
        views = listing.jobs(store, limit, now)
        url = store.url
    if as_json:
        echo_json([document(view, now) for view in views])
    elif not views:
        echo(f"no jobs yet in {url}")
    else:
        echo(*table(_HEADER, [_row(view, now) for view in views], "<" * len(_HEADER)))


@app.command()
def show(name: Name, *, as_json: Json = False, db: Database = None) -> None:
    """Show a job: person, board, times, measurements, next steps."""
    with open_store(db, create=False) as store:
        now = store.now()
        view = listing.view(store, listing.job(store, number(name)), now)
    if as_json:
        echo_json(document(view, now))
    else:
        echo(*_lines(view, now))


@app.command()
def cancel(name: Name, *, as_json: Json = False, db: Database = None) -> None:
    """End a job that waits or measures.

    Its board is switched off first, and its measurements stay.
    """
    with open_store(db, create=False) as store:
        queue = JobQueue(store, process.identity(), process.has_died)
        job = queue.cancel(number(name), process.person())
        here = job.program != BY_WEB  # whose process is the whole site, for everybody
        signalled = job.state != "cancelled" and here and process.ask_to_end(job.holder)
        now = store.now()
        view = listing.view(store, job, now)
    if as_json:
        echo_json(document(view, now) | {"told": signalled})
        return
    if job.state == "cancelled":
        echo(f"job {job.called} is cancelled; its process had died")
    elif signalled:
        echo(
            f"job {job.called} ({job.who}) ends now: it switches {job.board} off first. See: lab jobs show {job.called}"
        )
    elif job.program == BY_WEB:
        echo(
            f"job {job.called} ({job.who}) is of {BY_WEB}, which stops it within seconds; {job.board} may be off or "
            "on then. "
            f"See: lab jobs show {job.called}"
        )
    else:
        echo(
            f"job {job.called} ({job.who}) is another host's or user's: it sees within seconds that it shall end, and "
            f"switches {job.board} off first. See: lab jobs show {job.called}"
        )


def state_of(job: Job, now: dt.datetime) -> str:
    """State of a job for a person; `now` is the store's."""
    if job.ended:
        return job.state
    if seems_dead(job, now, process.has_died):
        return "died"
    return "ending" if job.cancelled_by else job.state


def document(view: JobView, now: dt.datetime) -> dict[str, Any]:
    """A job for other programs; times as ISO 8601, in UTC."""
    job = view.job
    times = {
        "queued_at": job.queued_at,
        "started_at": job.started_at,
        "heartbeat_at": job.heartbeat_at,
        "finished_at": job.finished_at,
        "expected_end": view.expected_end,
    }
    return {
        "job": job.called,
        "state": state_of(job, now),
        "program": job.program,
        "board_type": job.board_type,
        "board": job.board,
        "suites": list(job.suites),
        "done": job.done,
        "options": dict(job.options),
        "env": job.env,
        "release": job.release,
        "cycles": job.cycles,
        "person": job.person,
        "host": job.host,
        "cancelled_by": job.cancelled_by,
        "priority": job.priority,
        "yields_to": job.yields_to,
        "request": job.request,
        **{name: None if at is None else at.isoformat() for name, at in times.items()},
        "runs": [
            {"run": run.id, "kind": run.kind, "status": run.status, "good": run.good, "planned": run.planned}
            for run in view.runs
        ],
    }


def _row(view: JobView, now: dt.datetime) -> list[str]:
    job = view.job
    begun = job.started_at or job.queued_at
    state = state_of(job, now)
    end = job.finished_at or (view.expected_end if state == "running" else None)
    about = "" if job.finished_at else "~"
    ended = "" if end is None else f"{about}{end:%H:%M}" if end.date() == begun.date() else f"{about}{end:%m-%d %H:%M}"
    what = ",".join(job.suites)
    at = f"{begun:%m-%d %H:%M}" if begun.year == now.year else f"{begun:%Y-%m-%d}"
    who = f"{job.person}@{job.host}" if job.person else job.host
    return [job.called, state, job.board, what, who, at, ended]


def _lines(view: JobView, now: dt.datetime) -> list[str]:
    job, state = view.job, state_of(view.job, now)
    release = f", release {job.release}" if job.release else ""
    lines = [f"job {job.called}: {','.join(job.suites)} on {job.board} ({job.board_type}){release}, {state}"]
    lines.append(f"  {job.program} of {job.who}, queued {moment(job.queued_at)} UTC")
    if job.started_at:
        if job.finished_at:
            end = f", ended {moment(job.finished_at)} UTC"
        else:
            end = f", ends about {moment(view.expected_end)} UTC" if view.expected_end else ""
        lines.append(f"  begun {moment(job.started_at)} UTC{end}")
    if job.yields_to and not job.ended:
        waits = "waits again, it gave way" if job.started_at else "waits"
        lines.append(f"  {waits if state == 'queued' else 'gives way after this cycle'}: {job.yields_to}")
    if job.cancelled_by:
        lines.append(f"  cancelled by {job.cancelled_by}")
    how = [*([f"--cycles={job.cycles}"] if job.cycles is not None else []), *options.arguments(job.options)]
    if how:
        lines.append(f"  with {' '.join(how)}")
    lines += [f"  env {job.env}"]
    for run in view.runs:
        of = f" of {run.planned}" if run.planned else ""
        lines.append(f"  run {run.id}: {run.kind}, {run.status}, {run.good}{of} good")
    return [*lines, *_next(job, state)]


def _next(job: Job, state: str) -> list[str]:
    if state in {"queued", "running"}:
        return [f"end it with: lab jobs cancel {job.called}"]
    if state in {"interrupted", "failed", "died", "cancelled"} and job.program != BY_WEB:
        if job.program == BY_HEALTH:
            return [f"check it again with: lab health {job.board} --check"]
        if job.program == BY_PROVISION:
            release, media = str(job.options.get(PROVISION, "FILE")), ",".join(job.options.get("medium", []))
            argv = ["lab", "provision", "--env", job.env, "--release", release, "--medium", media]
            return [f"write it again with: {shlex.join(argv)}"]
        again = "lab run" if job.program == BY_LAB_RUN else f"pytest {shlex.quote(f'--lg-env={job.env}')}"
        return [f"go on with: {again} --resume {job.called}"]
    return []
