"""`lab provision`: put a release on a board and verify it.

It asks no questions.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from lab.benchmarks.cycles import AWAY_S
from lab.cli.options import BoardEnv, Database, Wait
from lab.control.provisioning import recover_by
from lab.env import envfile
from lab.env.power_state import parts
from lab.errors import BoardlabError, ConfigurationError
from lab.farm.job_queue import open_queue
from lab.farm.runner import BUSY
from lab.health.reservations import IGNORE
from lab.host import process
from lab.jobs.lease import hold_board, open_results
from lab.jobs.records import BY_PROVISION, Job, Order
from lab.jobs.waiting import BusyBoardError
from lab.places.job_place import PlaceWait, hold_place, other_user
from lab.provision.history import ProvisionBook
from lab.provision.provisioning import MediumResult, ProgressPrinter, Provisioner, describe_plan
from lab.provision.releasefile import find
from lab.results import Store, open_store
from lab.run.board import check_complete
from lab.run.options import PROVISION
from lab.terminal import echo, echo_json, log_to, table

app = typer.Typer(help="Put a release on a board's media, read it back, boot it and compare.")
BootsReserved = Annotated[
    bool, typer.Option(IGNORE, help="Boot although the board is reserved; only for whom it is reserved.")
]


@app.command()
def provision(
    *,
    env: BoardEnv,
    release: Annotated[
        str, typer.Option(metavar="FILE", help="The release file, or `newest in DIR`. docs/releases.md explains both.")
    ] = "",
    medium: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME[,NAME]", help="Media to write, repeatable (default: all of the release)."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Decide everything, say it, and write nothing.")] = False,
    verify_only: Annotated[
        bool, typer.Option("--verify-only", help="Read the media back and compare; write nothing.")
    ] = False,
    forget: Annotated[
        bool, typer.Option("--forget", help="Somebody wrote these media by hand: forget what was provisioned.")
    ] = False,
    from_nothing: Annotated[
        str,
        typer.Option(
            metavar="WAY",
            help="Nothing on the board boots: start it over `uart`, `usb` or `usb:PORT` by the release's recovery set.",
        ),
    ] = "",
    wait: Wait = 0.0,
    ignore: Annotated[
        bool, typer.Option(IGNORE, help="Write although the board is reserved; only for whom it is reserved.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what became of it as JSON.")] = False,
    db: Database = None,
) -> None:
    """Put a release on a board, which is locked meanwhile.

    Without --release, show the releases on it.
    """
    log_to(sys.stderr)
    if dry_run + verify_only + forget > 1:
        raise ConfigurationError("--dry-run, --verify-only and --forget are different things: give one of them")
    if (dry_run or verify_only or from_nothing) and not release:
        raise ConfigurationError("which release? Give --release FILE")
    if forget and (release or from_nothing):
        raise ConfigurationError("--forget writes nothing, so it takes no --release and no --from-nothing")
    asked = [name.strip() for argument in medium or [] for name in argument.split(",")]
    if not all(asked):
        raise ConfigurationError(
            f"--medium {','.join(medium or [])!r}: a name is empty; all media are written only without --medium"
        )
    asked = list(dict.fromkeys(asked))
    path = envfile.find(env, Path.cwd())
    planned_strategy = (
        None if envfile.place_of(path) else strategy_of(env)
    )  # labgrid gives a place's parts to nobody but its holder
    board_type, board = (
        (planned_strategy.type.name, planned_strategy.board) if planned_strategy else envfile.board_of(path)
    )
    writes = release and not dry_run and not verify_only
    with open_results(db, wait, _say) if writes else open_store(db, patience_s=AWAY_S) as store:
        log = ProvisionBook(store)
        if forget or not release:
            _show_known(log, board, asked, forget=forget, as_json=as_json)
            return
        release_file = find(release, board_type, Path.cwd())
        media = asked or list(release_file.media)
        putting = Provisioner(release_file, media, ProgressPrinter(_say), _say, log, person=process.person())
        options = {"medium": media, PROVISION: str(release_file.path)}
        order = Order(board_type, board, ("provision",), str(path), release_file.name, None, options)
        with hold(store, order, wait, ignore) as job:
            strategy = planned_strategy or strategy_of(env)
            putting.job_id = job.id
            if from_nothing:
                recover_by(strategy, release_file, from_nothing, ProgressPrinter(_say))
            try:
                done = _do(strategy, putting, dry_run=dry_run, verify_only=verify_only)
            finally:
                switch_off(strategy)
        _tell(release_file.name, done, as_json=as_json)


def _do(strategy: Any, putting: Provisioner, *, dry_run: bool, verify_only: bool) -> list[MediumResult]:
    strategy.check_lab()
    if dry_run:
        return [MediumResult(plan) for plan in putting.plans(strategy)]
    if verify_only:
        return putting.verify(strategy)
    strategy.putting = putting
    strategy.transition("provisioned")
    return putting.done


def strategy_of(env: str) -> Any:
    _target, strategy, _console = parts(env, "ConsoleProtocol", "console", "console")
    if not hasattr(strategy, "putting"):
        raise ConfigurationError(f"{env}: it has no BoardStrategy, so nothing knows its media: add one to its drivers")
    check_complete(strategy)
    return strategy


@contextmanager
def hold(store: Store, order: Order, wait_s: float, ignore: bool, program: str = BY_PROVISION) -> Iterator[Job]:
    """Hold the board and its labgrid place as a visible job."""
    queue = open_queue(store, program, ignores=ignore)
    place_wait = PlaceWait(queue.monotonic_s + wait_s, _say, lambda: False)  # `hold_board` gives signs of life
    try:
        with (
            hold_board(queue, order, wait_s, _say, other_user) as job,
            hold_place(queue, job, place_wait) as as_user,
        ):
            os.environ.update(as_user)
            yield job
    except BusyBoardError as error:
        _say(str(error))
        raise typer.Exit(BUSY) from None


def switch_off(strategy: Any) -> None:
    try:
        strategy.transition("off")
    except BoardlabError as error:
        _say(f"{strategy.board} could not be switched off: {error}")


def _show_known(log: ProvisionBook, board: str, media: list[str], *, forget: bool, as_json: bool) -> None:
    there = log.current(board)
    if forget:
        for medium in media or list(there):
            _say(f"{medium}: forgotten" if log.forget(board, medium) else f"{medium}: nothing was known of it")
        return
    if as_json:
        echo_json(
            [
                {
                    "board": entry.board,
                    "medium": entry.medium,
                    "release": entry.release,
                    "state": entry.state,
                    "way": entry.way,
                    "digest": entry.digest,
                    "method": entry.method,
                    "bytes": entry.bytes,
                    "software": dict(entry.software),
                    "message": entry.message,
                    "at": entry.at.isoformat(),
                }
                for entry in there.values()
            ]
        )
    elif not there:
        echo(f"boardlab has put nothing on {board}")
    else:
        rows = [[e.medium, e.release, e.state, e.method, f"{e.at:%Y-%m-%d %H:%M}", e.message] for e in there.values()]
        echo(*table(["medium", "release", "state", "read back", "when (UTC)", "message"], rows, "<<<<<<"))


def _tell(release: str, done: list[MediumResult], *, as_json: bool) -> None:
    if as_json:
        echo_json([_medium_document(release, result) for result in done])
        return
    for result in done:
        medium = result.plan.target.medium
        if result.verified is None:
            echo(f"{medium}: would write {release} {describe_plan(result.plan)}")
            for step in result.plan.steps:
                echo(f"  {step.name}: {step.bytes} bytes {step.place.label if step.place else 'as the whole medium'}")
        else:
            booted = ", booted and compared" if result.software else ""
            echo(f"{medium}: {release}, read back{booted}")


def _medium_document(release: str, result: MediumResult) -> dict[str, object]:
    verified = result.verified
    return {
        "release": release,
        "medium": result.plan.target.medium,
        "way": result.plan.way,
        "device": result.plan.target.device,
        "bytes": result.plan.total_bytes,
        "steps": [step.name for step in result.plan.steps],
        "verified": None
        if verified is None
        else {"method": verified.method, "digest": verified.digest, "bytes": verified.bytes},
        "software": dict(result.software),
    }


def _say(line: str) -> None:
    echo(line, err=True)
