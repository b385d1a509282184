"""`lab run`: measure a board once, resumable after any interruption.

One job at a time measures a board.
"""

from __future__ import annotations

import inspect
import logging
import operator
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial, wraps
from pathlib import Path
from typing import Annotated, Any, Final, cast, get_type_hints

import typer
from attrs import evolve

from lab import package_data
from lab.cli.jobs import document
from lab.cli.options import Database, Json
from lab.env import envfile
from lab.errors import BoardlabError, ConfigurationError
from lab.farm import job_request, runner, services, status
from lab.farm.capacity import HostCapacity
from lab.farm.job_queue import health_config, open_queue
from lab.farm.runner import BROKEN, BUSY, Runner, RunnerPaths, report_again
from lab.farm.services import HostFile
from lab.health.reservations import IGNORE
from lab.health.store import HealthBook
from lab.jobs import listing
from lab.jobs.lease import open_results
from lab.jobs.queue import PERSONS, TIMERS, JobQueue
from lab.jobs.records import BOARDS, Job, Order, call, number
from lab.provision.releasefile import find
from lab.results import Store
from lab.results.records import LAST_ID
from lab.run import options
from lab.run.options import CONFIRMS, JUDGE, MAX_CYCLES, PROVISION, SECTIONS, RunOption, Value
from lab.terminal import echo, echo_json, log_to, tell

_KINDS: Final[dict[options.Form, Any]] = {
    "flag": bool,
    "number": int | None,
    "word": str | None,
    "names": list[str] | None,
}


def with_run_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add every option of the table to a command.

    The given ones are in its parameter `options`.
    """
    hints = get_type_hints(command, include_extras=True)
    own = [p for name, p in inspect.signature(command).parameters.items() if name != "options"]
    added = [_parameter(option) for option in options.TABLE]

    @wraps(command)
    def run(**given: Any) -> None:
        chosen = {option.name: given.pop(_variable(option)) for option in options.TABLE}
        command(**given, options=options.read(chosen))

    parameters = [p.replace(annotation=hints[p.name]) for p in own] + added
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    del run.__wrapped__  # inspect.signature() follows it
    return run


def _parameter(option: RunOption) -> inspect.Parameter:
    about = typer.Option(
        option.flag, metavar=option.metavar or None, help=f"{option.help[0].upper()}{option.help[1:]}."
    )
    default = False if option.form == "flag" else None
    annotation: Any = operator.getitem(cast("Any", Annotated), (_KINDS[option.form], about))
    return inspect.Parameter(_variable(option), inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _variable(option: RunOption) -> str:
    return f"option_{option.name}"


LONGEST_WAIT_S: Final = 30 * 86_400.0
DEFAULT_SUITE: Final = "boot"

app = typer.Typer(help="Measure a board: one job at a time, resumable after any interruption.")


@app.command()
@with_run_options
def run(
    *,
    suite: Annotated[
        str | None,
        typer.Option(
            metavar="NAME[,NAME]",
            help=(
                "Measurements: boot, low_power, sections; guide is all of them (default: boot; with --sections: "
                "sections)."
            ),
        ),
    ] = None,
    env: Annotated[
        str | None,
        typer.Option(metavar="NAME", envvar="LAB_ENV", help="The board's environment, as of pytest --lg-env."),
    ] = None,
    board_type: Annotated[
        str | None,
        typer.Option(
            "--type", metavar="TYPE", help="In place of --env: any free board of this type, see `lab boards`."
        ),
    ] = None,
    release: Annotated[str, typer.Option(metavar="R", help="Release of the software on the board.")] = "",
    cycles: Annotated[
        int | None, typer.Option(min=1, max=MAX_CYCLES, metavar="N", help="Power cycles (default: the suite's).")
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option(metavar="JOB", help="Resume a job that ended early, as `lab jobs list` has it, e.g. j12."),
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
            min=0.0,
            max=LONGEST_WAIT_S,
            metavar="S",
            help=(
                "Wait so many seconds at most for a board that another job holds, or whose place another user has; "
                "for results that do not answer 5 minutes at most."
            ),
        ),
    ] = 0.0,
    ignore: Annotated[
        bool, typer.Option(IGNORE, help="Measure although the board is reserved; only for whom it is reserved.")
    ] = False,
    scheduled: Annotated[
        bool,
        typer.Option(
            "--scheduled",
            help="Run as a timer's job: persons come first, and a reservation gets the board after the present cycle.",
        ),
    ] = False,
    request: Annotated[
        str,
        typer.Option(metavar="NAME", help="With --continue, of a queue: a request under this name is measured once."),
    ] = "",
    confirms: Annotated[
        int | None,
        typer.Option(
            min=1, max=LAST_ID, metavar="RUN", help="Measure again what the judge asked for of this run, and judge it."
        ),
    ] = None,
    tests: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="The folder with the suites (default: tests_perf here, else boardlab's own)."
        ),
    ] = None,
    as_json: Json = False,
    db: Database = None,
    options: Mapping[str, Value],
) -> None:
    """Measure a board, and lock it meanwhile."""
    log_to(sys.stderr)
    say = partial(echo, err=as_json)
    folder = Path.cwd()
    place = RunnerPaths(folder, (folder / tests).absolute() if tests else package_data.tests(folder), db)
    if resume is not None and go_on:
        raise ConfigurationError("--resume names the job, --continue looks for it: give one of them")
    if scheduled and ignore:
        raise ConfigurationError(f"--scheduled gives way to reservations, {IGNORE} does not: give one of them")
    if board_type is not None and (resume is not None or go_on or confirms is not None):
        raise ConfigurationError(
            "--type begins a job on any board; --resume, --continue and --confirms go on with one's"
        )
    host = services.host_file()
    limits = host.farm.limits if host.farm is not None else None
    with _exit_unmeasured(), open_results(db, wait, say) as store:
        queue = open_queue(store, ignores=ignore, priority=TIMERS if scheduled else PERSONS, request=request)
        ended = listing.job_of_request(store, request) if go_on and request else None
        if ended is not None:
            job = ended
            say(f"job {job.called}: {job.state} for this request before; nothing is measured again")
            code = report_again(store, job, say)
        else:
            if resume is not None:
                job = _find_job(store, queue, resume)
                _same_order(job, suite, release, cycles, options)
                job = queue.take_up(job.id)
            else:
                if confirms is not None:
                    suite, options = suite or store.run(confirms).kind, {**options, CONFIRMS: confirms, JUDGE: True}
                suites = suite or (SECTIONS if SECTIONS in options else DEFAULT_SUITE)
                if board_type is None:
                    order = _order(place, suites, env, release, cycles, options)
                else:
                    order = _any_order(place, host, store, suites, board_type, release, cycles, options)
                unfinished = queue.unfinished(order) if go_on else None
                job = queue.take_up(unfinished.id) if unfinished is not None else queue.enqueue(order)
            choice = _choice(host, job)
            on = f"any of {', '.join(sorted(choice))}" if choice else job.board
            say(f"job {job.called}: {','.join(job.suites)} on {on}, results in {store.url}")
            capacity = HostCapacity(queue, limits) if scheduled and limits is not None else None
            gap_s = limits.power_on_gap if limits is not None else 0.0
            try:
                measuring = Runner(
                    queue,
                    place,
                    say,
                    capacity=capacity,
                    power_on_gap_s=gap_s,
                    choice=choice,
                    output=sys.stderr if as_json else None,
                )
                code = measuring.run(job, wait)
            finally:
                runner.start_upload(store)
        if as_json:
            now = store.now()
            echo_json(document(listing.view(store, queue.job(job.id), now), now) | {"exit_code": code})
    raise typer.Exit(code)


def _any_order(
    place: RunnerPaths,
    host: HostFile,
    store: Store,
    suite: str,
    board_type: str,
    release: str,
    cycles: int | None,
    options: Mapping[str, Value],
) -> Order:
    """Order for any board of a type that this host reaches.

    A board whose health is bad is left out.

    Raises:
        ConfigurationError: there is none, or the order fits none.
    """
    orders: dict[str, Order] = {}
    refused: list[str] = []
    unfit = {
        name
        for name, board_health in HealthBook(store, health_config().rule).all().items()
        if board_health.state == "bad"
    }
    for board, path in _boards_of_type(host, board_type):
        if board in unfit:
            refused.append(f"{board}: its health is bad: lab health {board}")
            continue
        try:
            orders[board] = _order(place, suite, str(path), release, cycles, options)
        except ConfigurationError as error:
            refused.append(f"{board}: {error}")
    if not orders:
        why = "; ".join(refused) or f"no environment in {host.folder / envfile.FOLDER} or farm.yaml is of one"
        raise ConfigurationError(f"--type {board_type}: no board of that type can be measured from here: {why}")
    first = next(iter(orders.values()))
    return evolve(first, options={**first.options, BOARDS: sorted(orders)})


def _choice(host: HostFile, job: Job) -> dict[str, Path]:
    """Boards that a job may take, with environments; empty: its own."""
    if job.started_at is not None or BOARDS not in job.options:
        return {}
    return {board: env for board, env in _boards_of_type(host, job.board_type) if board in job.options[BOARDS]}


def _boards_of_type(host: HostFile, board_type: str) -> Iterator[tuple[str, Path]]:
    """Boards of a type that this host reaches, with their environments.

    A board of another host is reached if its environment names a labgrid place.
    """
    farm = host.farm
    away = {entry.name for entry in farm.boards if farm.host_of(entry) != host.name} if farm is not None else set()
    named = farm.environments if farm is not None else {}
    for board, env in (
        {board_now.board: board_now.env for board_now in status.boards_in_folder(host.folder)} | named
    ).items():
        try:
            path = envfile.find(env, host.folder)
            if envfile.board_of(path)[0] == board_type and (board not in away or envfile.place_of(path)):
                yield board, path
        except ConfigurationError as error:
            logging.getLogger(__name__).warning("%s: %s", board, error)


@contextmanager
def _exit_unmeasured() -> Iterator[None]:
    """Exit codes of a job that ended before pytest did.

    Transient errors are BUSY, others BROKEN; 1 is pytest's.
    """
    try:
        yield
    except ConfigurationError:
        raise
    except BoardlabError as error:
        tell(error)
        raise typer.Exit(BUSY if error.transient else BROKEN) from error
    except Exception as error:
        traceback.print_exc()
        raise typer.Exit(BROKEN) from error


def _find_job(store: Store, queue: JobQueue, text: str) -> Job:
    """Find the job of `--resume`; an ambiguous number is refused.

    Raises:
        ConfigurationError: it names no job, or perhaps a run; the message says which job that run is of.
    """
    job_id = number(text)
    if not text.strip().isdecimal() or not listing.has_run(store, job_id):
        return queue.job(job_id)
    of = listing.job_of_run(store, job_id)
    if of is not None and of.id == job_id:
        return of
    whose = f"is of job {of.called}: lab run --resume {of.called}" if of else "is of no job"
    raise ConfigurationError(
        f"--resume takes a job, and {job_id} is a run, too, which {whose}. `lab jobs list` shows the jobs; if you "
        "mean job "
        f"{call(job_id)}, write it so"
    )


def _same_order(job: Job, suite: str | None, release: str, cycles: int | None, options: Mapping[str, Value]) -> None:
    """Refuse options beside `--resume` that contradict the job's order."""
    ordered: dict[str, Any] = {
        "--suite": ",".join(job_request.expand(suite.split(","))) if suite else None,
        "--release": release or None,
        "--cycles": cycles,
        **{f"--{name}": value for name, value in options.items()},
    }
    has = {"--suite": ",".join(job.suites), "--release": job.release or None, "--cycles": job.cycles}
    has |= {f"--{name}": value for name, value in job.options.items()}
    wrong = [
        f"{_option_text(option, value)} (it has {_value_text(has.get(option))})"
        for option, value in ordered.items()
        if value is not None and value != has.get(option)
    ]
    if wrong:
        raise ConfigurationError(
            f"job {job.called} was begun with another order: {', '.join(wrong)}. Leave that out, or start a new job"
        )


def _option_text(option: str, value: Any) -> str:
    return option if value is True else f"{option} {_value_text(value)}"


def _value_text(value: Any) -> str:
    return "none" if value is None else ",".join(value) if isinstance(value, list) else str(value)


def _order(
    place: RunnerPaths,
    suite: str,
    env: str | None,
    release: str,
    cycles: int | None,
    options: Mapping[str, Value],
) -> Order:
    if env is None:
        there = ", ".join(sorted(path.name for path in (place.folder / envfile.FOLDER).glob("*.yaml")))
        raise ConfigurationError(
            f"which board? Give --env NAME, $LAB_ENV or --type TYPE; in {envfile.FOLDER}/ there are: "
            f"{there or 'none (`lab init` writes them)'}"
        )
    suites = job_request.expand(suite.split(","))
    for name in suites:
        job_request.files(place.tests, name)
    path = envfile.find(env, place.folder)
    envfile.check(path)
    board_type, board = envfile.board_of(path)
    wrong = list(job_request.problems(place.tests, suites, options, path))
    if wrong:
        raise ConfigurationError("; ".join(wrong))
    if PROVISION in options:
        options, release = _with_release(board_type, release, options)
    return Order(board_type, board, suites, str(path), release, cycles, options)


def _with_release(board_type: str, release: str, options: Mapping[str, Value]) -> tuple[Mapping[str, Value], str]:
    """Order of a job that puts a release on its board.

    `newest in DIR` is looked up now, and its name is the label.

    Raises:
        ConfigurationError: there is no such release, or `--release` says something else.
    """
    release_file = find(str(options[PROVISION]), board_type, Path.cwd())
    if release not in {"", release_file.name}:
        raise ConfigurationError(
            f"--release {release}: --provision puts {release_file.name} on the board, and that is the label: leave "
            "--release out"
        )
    return {**options, PROVISION: str(release_file.path)}, release_file.name
