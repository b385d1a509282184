"""`lab health`: boards' health, and the check that ends a quarantine."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from attrs import evolve

from lab.cli.options import FarmFile, HostDatabase, Json, write_output
from lab.env import envfile
from lab.env.checkup import CheckUp, host_of, part_of
from lab.env.power_state import parts
from lab.errors import BoardlabError, ConfigurationError
from lab.farm import services, status
from lab.farm.job_queue import open_queue
from lab.farm.runner import BUSY
from lab.farm.services import HostFile
from lab.health import DEFAULT_RULE, BoardCheck, CheckedPart, Health, QuarantineRule
from lab.health.reservations import IGNORE
from lab.health.state import counts
from lab.health.store import HealthBook
from lab.host.clock import utc_now
from lab.jobs.lease import hold_board, open_results
from lab.jobs.listing import measuring
from lab.jobs.records import BY_HEALTH, Order
from lab.jobs.waiting import BusyBoardError
from lab.places.job_place import PlaceWait, hold_place, other_user
from lab.results import Store, listing, open_store
from lab.terminal import Marked, bad, doubtful, echo, echo_json, log_to, table

FAILED = 1  # the board must not take runs
SHOWN = 5  # checks of a board
_PART_KEYS: Final = ("name", "outcome", "failure", "fault", "message", "said")  # in the JSON document

app = typer.Typer(help="Boards' health: which can take runs, and why not; check one.")


@app.command()
def health(
    board: Annotated[
        str, typer.Argument(metavar="[BOARD]", help="A board's name, as `lab status` has it (default: all boards).")
    ] = "",
    *,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Check it now: power cycle, console, medium, rails. A check that passes ends its quarantine.",
        ),
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="With --check: write it as one HTML page, too."),
    ] = None,
    env: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The board's environment (default: the one here that names the board)."),
    ] = None,
    wait: Annotated[
        float,
        typer.Option(
            min=0.0,
            metavar="S",
            help=(
                "Wait so many seconds at most for a board that a job holds, or whose place a job of another host "
                "has; for a coordinator, an exporter or results that do not answer 5 minutes at most."
            ),
        ),
    ] = 0.0,
    ignore: Annotated[
        bool, typer.Option(IGNORE, help="Check although the board is reserved; only for whom it is reserved.")
    ] = False,
    as_json: Json = False,
    db: HostDatabase = None,
    farm: FarmFile = None,
) -> None:
    """Show the health of all boards, or of one.

    One board is shown with its last checks; --check checks it now.
    """
    host = services.host_file(farm)
    lab = host.farm
    rule = lab.health.rule if lab is not None else DEFAULT_RULE
    database = services.database(db, lab)
    if not check:
        if output is not None:
            raise ConfigurationError("-o writes a check: give --check, too")
        with open_store(database, create=False) as store:
            _show(HealthBook(store, rule), board, host, as_json=as_json)
        return
    log_to(sys.stderr)
    path = _environment(board, env, host)
    with open_results(database, wait, _say) as store:
        result = _check_board(store, rule, path, wait, ignore=ignore)
        state = HealthBook(store, rule).of(result.board)
    document = {**_health_document(state), "check": check_document(result)}
    if output is not None:
        from lab.report import render_check  # noqa: PLC0415 - its figures load slowly

        write_output(output, render_check(result, document), "-o")
    if as_json:
        echo_json(document)
    else:
        verdict = (str if result.passed else bad)(result.verdict)
        echo(Marked(f"{result.board}: the check ", ()) + verdict + f", in {result.duration_s:.0f} s", *_lines(state))
    if not result.passed:
        raise typer.Exit(FAILED)


def _check_board(store: Store, rule: QuarantineRule, path: Path, wait_s: float, *, ignore: bool) -> BoardCheck:
    """Hold the board, check it, and store the findings."""
    board_type, name = envfile.board_of(path)
    queue = open_queue(store, BY_HEALTH, ignores=ignore, rule=rule)
    order = Order(board_type, name, ("health",), str(path), "", None)
    # No stop condition for the place: `hold_board` ends this process when the job is cancelled.
    place_wait = PlaceWait(queue.monotonic_s + wait_s, _say, lambda: False)
    try:
        with hold_board(queue, order, wait_s, _say, other_user) as job, ExitStack() as stack:
            # The host of a labgrid place's board is known only after its exporter has published the port.
            host = "" if envfile.place_of(path) else socket.gethostname()
            result = BoardCheck(name, board_type, host, utc_now(), (), env=path.name, person=job.person, job_id=job.id)
            stack.enter_context(_record_failure(HealthBook(store, rule), result))
            os.environ.update(stack.enter_context(hold_place(queue, job, place_wait)))
            began = time.monotonic()
            strategy: Any = parts(str(path), "ConsoleProtocol", "console", "console")[1]
            is_alone = measuring(queue, socket.gethostname()) <= 1  # this job
            checked_parts = CheckUp(strategy, _say, loads=is_alone).run()
            duration_s = round(time.monotonic() - began, 1)
            result = evolve(result, host=host_of(strategy), at=utc_now(), parts=checked_parts, duration_s=duration_s)
            return HealthBook(store, rule).record(result)
    except BusyBoardError as error:
        _say(str(error))
        raise typer.Exit(BUSY) from None


@contextmanager
def _record_failure(log: HealthBook, check: BoardCheck) -> Iterator[None]:
    """Record a lab failure that prevents the check."""
    try:
        yield
    except BoardlabError as error:
        if counts(error.fault, error.failure):
            part = CheckedPart(part_of(error.failure), "failed", error.failure, error.fault, str(error))
            log.record(evolve(check, at=utc_now(), parts=(part,)))
        raise


def _environment(board: str, env: str | None, host: HostFile) -> Path:
    """The environment of the board that is to be checked.

    Raises:
        ConfigurationError: none here names it, or the one that is given names another.
    """
    folder = Path.cwd()
    if env is None:
        folder = host.folder
        if not board:
            raise ConfigurationError("which board? `lab health BOARD --check`; `lab health` shows them")
        env = _list_environments(host).get(board)
        if env is None:
            raise ConfigurationError(
                f"no environment in {folder / envfile.FOLDER} names the board {board!r}; give it with --env"
            )
    path = envfile.find(env, folder)
    envfile.check(path)
    named = str(envfile.arguments_of(path, "BoardStrategy").get("board", ""))
    if board and named != board:
        raise ConfigurationError(f"{path} is of board {named!r}, not {board!r}")
    return path


def _list_environments(host: HostFile) -> dict[str, str]:
    """Map boards to environments of the lab's folder and farm.yaml."""
    named = host.farm.environments if host.farm is not None else {}
    return {board_now.board: board_now.env for board_now in status.boards_in_folder(host.folder)} | named


def _show(log: HealthBook, board: str, host: HostFile, *, as_json: bool) -> None:
    if board:
        state, checks = log.of(board), log.checks(board, SHOWN)
        nothing_known = state.state == "suspect" and not state.known and not checks
        if nothing_known and board not in {*listing.column_values(log.store, "board"), *_list_environments(host)}:
            raise ConfigurationError(f"no board {board!r:.200}; `lab health` shows the boards that there are")
        if as_json:
            echo_json({**_health_document(state), "checks": [check_document(last_check) for last_check in checks]})
            return
        echo(*_lines(state))
        rows = []
        for check in checks:
            failures = [f"{part.name}: {part.message} ({part.failure})" for part in check.failed] or [check.verdict]
            verdict = "passed" if check.passed else bad("failed")
            rows.append([str(check.id), f"{check.at:%Y-%m-%d %H:%M}", check.host or "?", verdict, "; ".join(failures)])
        echo("", *(table(["check", "when (UTC)", "host", "", "found"], rows, "<<<<<") if rows else ["never checked"]))
        return
    unchecked = {name: Health(name, "suspect", ("never checked",), known=False) for name in _list_environments(host)}
    states = [state for _, state in sorted({**unchecked, **log.all()}.items())]
    if as_json:
        echo_json([_health_document(state) for state in states])
    elif states:
        rows = [
            [
                state.board,
                _mark_state(state),
                f"{state.checked_at:%Y-%m-%d %H:%M}" if state.checked_at else "-",
                "; ".join(state.reasons),
            ]
            for state in states
        ]
        echo(*table(["board", "state", "checked (UTC)", "why"], rows, "<<<<"))
    else:
        echo("no boards: run this in a lab's folder (`lab init` writes one)")


def _lines(state: Health) -> list[str]:
    return [Marked(f"{state.board} is ", ()) + _mark_state(state), *(f"  {reason}" for reason in state.reasons)]


def _mark_state(state: Health) -> str:
    match state.state:
        case "bad":
            return bad(state.state)
        case "suspect" if state.known:
            return doubtful(state.state)
        case "suspect":
            return "unknown"
    return state.state


def _health_document(state: Health) -> dict[str, object]:
    return {
        "board": state.board,
        "state": state.state,
        "known": state.known,
        "reasons": list(state.reasons),
        "since": state.since.isoformat() if state.since else None,
        "checked_at": state.checked_at.isoformat() if state.checked_at else None,
    }


def check_document(check: BoardCheck) -> dict[str, object]:
    """A check for programs."""
    return {
        "id": check.id,
        "host": check.host,
        "at": check.at.isoformat(),
        "passed": check.passed,
        "duration_s": check.duration_s,
        "env": check.env,
        "person": check.person,
        "job": check.job_id,
        "parts": [{key: getattr(part, key) for key in _PART_KEYS} for part in check.parts],
    }


def _say(line: str) -> None:
    echo(line, err=True)
