"""`lab reserve`: reserve a board, or put it in maintenance."""

from __future__ import annotations

import datetime as dt
import socket
from collections.abc import Iterator
from typing import Annotated, Any, Final

import typer

from lab.benchmarks.cycles import AWAY_S
from lab.cli.options import FarmFile, HostDatabase, Json
from lab.errors import ConfigurationError
from lab.farm import reservations, services, status
from lab.farm.job_queue import open_queue
from lab.health.reservations import IGNORE, LONGEST_H, Hold, Kind, ReservationBook
from lab.host import process
from lab.jobs.queue import PERSONS
from lab.results import open_store
from lab.results.audit import Act, Audit
from lab.results.store import Store
from lab.terminal import echo, echo_json, table

app = typer.Typer(help="Reserve a board, or put it in maintenance; show and end that.")
DEFAULT_H: Final = 4.0
_HEADER: Final = ("board", "", "by", "from (UTC)", "until (UTC)", "why")


@app.command()
def reserve(
    board: Annotated[
        str, typer.Argument(metavar="[BOARD]", help="A board of `lab status` (default: show what is reserved).")
    ] = "",
    *,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="The reason, for others who want the board.")] = "",
    hours: Annotated[
        float | None,
        typer.Option(metavar="H", help=f"For how long: {DEFAULT_H:g} unless given, at most {LONGEST_H:g}."),
    ] = None,
    begin: Annotated[
        str, typer.Option("--from", metavar="TIME", help="Begin later, e.g. '2026-03-02 14:00' (UTC).")
    ] = "",
    maintenance: Annotated[
        bool, typer.Option("--maintenance", help="Maintenance, which lasts until somebody ends it.")
    ] = False,
    end: Annotated[bool, typer.Option("--end", help="End the board's reservation or, with it, maintenance.")] = False,
    as_json: Json = False,
    db: HostDatabase = None,
    farm: FarmFile = None,
) -> None:
    """Reserve a board, put it in maintenance, or end that.

    Without BOARD, show what is reserved.
    """
    host_farm = services.host_file(farm).farm
    database = services.database(db, host_farm)
    if not board:
        if reason or begin or hours is not None or maintenance or end:
            raise ConfigurationError("which board? `lab reserve BOARD --reason TEXT`; `lab status` shows the boards")
        with open_store(database, create=False) as store:
            holds = ReservationBook(store)
            _show([*holds.standing(), *holds.coming()], store.now(), as_json=as_json)
        return
    if (begin or hours is not None) and (maintenance or end):
        raise ConfigurationError("--hours and --from are for a new reservation: leave them out")
    at = reservations.read_begin(begin) if begin else None
    kind: Kind = "maintenance" if maintenance else "reserved"
    person, host = process.person(), socket.gethostname()
    with open_store(database, patience_s=AWAY_S) as store:
        audit = Audit(store)
        if end:
            action = reservations.MAINTAINED if maintenance else reservations.RELEASE
            with audit.acting(Act(), action, person=process.actor(), address=host, board=board) as act:
                hold = reservations.end(store, act, board, kind, person)
            lines = [f"{board} is free again; it was {hold.described}"]
        else:
            action = reservations.MAINTAIN if maintenance else reservations.RESERVE
            with audit.acting(Act(), action, person=process.actor(), address=host, board=board) as act:
                board_now = reservations.board_of(status.look(db, farm).boards, board, "`lab status`")
                if maintenance:
                    hold = reservations.maintain(store, act, board_now, person, reason)
                else:
                    hold = reservations.reserve(
                        store, act, board_now, person, reason, DEFAULT_H if hours is None else hours, at
                    )
            lines = [f"{board} is {hold.described}"]
            if hold.at <= store.now():
                lines += _next(store, hold, placed=bool(host_farm and host_farm.coordinator))
            else:
                lines += [
                    f"until {hold.at:%Y-%m-%d %H:%M} UTC others may have it; give it back with: lab reserve {board} "
                    "--end"
                ]
    if as_json:
        echo_json(document(hold) | {"ended": end})
    else:
        echo(*lines)


def document(hold: Hold) -> dict[str, Any]:
    """A reservation or maintenance as a JSON document; times in UTC."""
    until = None if hold.until is None else hold.until.isoformat()
    return {
        "board": hold.board,
        "kind": hold.kind,
        "person": hold.person,
        "reason": hold.reason,
        "at": hold.at.isoformat(),
        "until": until,
    }


def _next(store: Store, hold: Hold, *, placed: bool) -> Iterator[str]:
    """The board's job, and the person's next steps, a line each."""
    job = open_queue(store).holder_of(hold.board)
    if job is not None:
        ends = "goes on to its end" if job.priority >= PERSONS else "gives way after its present cycle"
        yield f"job {job.called} of {job.who} measures on it, and {ends}: lab jobs show {job.called}"
    if placed:
        yield "its labgrid place is acquired for you as soon as it is free (lab farm janitor)"
    if hold.kind == "reserved":
        yield f"measure with: lab run {IGNORE} ...; give it back with: lab reserve {hold.board} --end"
    else:
        yield f"end it with: lab reserve {hold.board} --maintenance --end"


def _show(holds: list[Hold], now: dt.datetime, *, as_json: bool) -> None:
    """Print reservations and maintenance; a present one has no "from"."""
    if as_json:
        echo_json([document(hold) for hold in holds])
    elif not holds:
        echo("No board is reserved, in maintenance or in quarantine.")
    else:
        rows = [
            [
                hold.board,
                hold.kind,
                hold.person,
                f"{hold.at:%Y-%m-%d %H:%M}" if hold.at > now else "-",
                f"{hold.until:%Y-%m-%d %H:%M}" if hold.until else "-",
                hold.reason,
            ]
            for hold in holds
        ]
        echo(*table(_HEADER, rows, "<<<<<<"))
