"""`lab farm add` and `lab farm qualify`: new boards, from a CSV file to their first night."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from attrs import asdict, evolve

from lab import boards, package_data
from lab.cli.options import FarmFile, HostDatabase, Json, Wait
from lab.env import envfile
from lab.errors import ConfigurationError
from lab.farm import inventory, qualification, services, status
from lab.farm.config import Farm, load
from lab.farm.inventory import Addition
from lab.farm.job_queue import open_queue
from lab.farm.qualification import BOOTS, Qualification
from lab.farm.runner import BROKEN, BUSY, INTERRUPTED, Runner, RunnerPaths
from lab.farm.services import HostFile
from lab.health.reservations import QUALIFYING, ReservationBook
from lab.health.store import HealthBook
from lab.host import process
from lab.jobs.lease import open_results
from lab.jobs.listing import latest_run
from lab.jobs.records import BY_QUALIFY, HEALTH, Order
from lab.places.coordinator import Coordinator
from lab.places.records import with_port
from lab.results import open_store
from lab.results.audit import Act, Audit
from lab.results.location import DATABASE_VARIABLE, locate
from lab.results.store import Store
from lab.run.options import BOOT
from lab.terminal import echo, echo_json, log_to, table

ADDED: Final = "add board"  # names of the audit log
ACCEPTED: Final = "accept board"
NOT_QUALIFIED: Final = 1
_AT_ONCE: Final = 8  # boards, where farm.yaml's limits say nothing


def add(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE.csv", help=f"A row for each board, with a header: {', '.join(inventory.COLUMNS)}."
        ),
    ],
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be written, and write nothing.")] = False,
    as_json: Json = False,
    db: HostDatabase = None,
    farm: FarmFile = None,
) -> None:
    """Add boards: environments, places, entries of farm.yaml.

    Prints a wiring sheet, and what the file does not say. What is there stays: a second time nothing changes. A new
    board serves when it has qualified.
    """
    host = services.host_file(farm)
    if host.farm is None or host.file is None:
        raise ConfigurationError(
            "no farm.yaml is here; `lab init DIR` writes one, then: cd DIR, or name it with --farm"
        )
    addition = inventory.plan(file, host.farm, host.file)
    written = list(addition.new) if dry_run else inventory.write(addition, host.file)
    held: list[str] = []
    places: list[str] = []
    where = ""
    if not dry_run:
        places = _places(addition, load(host.file))
        with open_store(_database(db, host.farm)) as store:
            held, where = _keep_new_boards(store, addition), store.url
    sheet = inventory.sheet(addition.rows, host.farm)
    if as_json:
        rows = [dict(zip(inventory.SHEET, cells, strict=True)) for cells in sheet]
        unknown = {board: notes for board, notes in addition.unknown.items() if notes}
        echo_json(
            {
                "written": [str(path) for path in written],
                "places": places,
                "qualifying": held,
                "wiring": rows,
                "unknown": unknown,
            }
        )
        return
    done = [f"{'would write' if dry_run else 'wrote'} {path}" for path in written]
    done += [f"made the place {place}" for place in places]
    echo(
        *(done or ["All is there already; nothing was changed."]),
        "",
        "Wiring:",
        *table(list(inventory.SHEET), sheet, "<" * len(inventory.SHEET)),
    )
    whose: dict[str, list[str]] = {}
    for board, notes in addition.unknown.items():
        for note in notes:
            whose.setdefault(note, []).append(board)
    if whose:
        echo("", "Not in the file:", *(f"  {note} ({', '.join(names)})" for note, names in whose.items()))
    for path in written if host.farm.coordinator else ():
        if path.parent.name == inventory.EXPORTS:
            echo(f"On {path.stem}: copy {path} to {host.farm.exports or '/etc/boardlab/exports.yaml'}")
    if held:
        echo(
            "",
            f"New, until they have qualified: {', '.join(held)}, in {where}",
            f"Next: {package_data.program('lab')} farm qualify",
        )


def _database(db: str | None, farm: Farm) -> str | None:
    """The results as other commands have them; else farm.yaml's, if this user's."""
    named = services.database(db, farm)
    if named is not None or os.environ.get(DATABASE_VARIABLE):
        return named
    path = locate(farm.database).path
    return farm.database if path is not None and path.parent.stat().st_uid == os.getuid() else None


def _places(addition: Addition, farm: Farm) -> list[str]:
    """Make the places that the coordinator lacks; return them."""
    if not farm.coordinator:
        return []
    coordinator = Coordinator(with_port(farm.coordinator))
    holders = coordinator.holders()
    new_places = []
    for row in addition.rows:
        name = row["name"]
        if name not in holders:
            where = inventory.host_of(row, farm)
            coordinator.create(name, f"{where}/{name}/*", {"board": name, "type": row["type"]})
            new_places.append(name)
    return new_places


def _keep_new_boards(store: Store, addition: Addition) -> list[str]:
    """Keep new boards until they have qualified; return them."""
    reservations, person, new_boards = ReservationBook(store), process.person(), []
    for row in addition.rows:
        if reservations.qualify(row["name"], person, "new: `lab farm qualify` measures it first"):
            Audit(store).note(
                ADDED, person=process.actor(), address=socket.gethostname(), board=row["name"], about=row["type"]
            )
            new_boards.append(row["name"])
    return new_boards


def qualify(
    board: Annotated[
        list[str] | None, typer.Argument(metavar="[BOARD]...", help="Boards (default: all that have not qualified).")
    ] = None,
    *,
    release: Annotated[str, typer.Option(metavar="R", help="Release of the software on the boards.")] = "",
    boots: Annotated[
        int, typer.Option("--cycles", min=2, max=1000, metavar="N", help="Boots of each medium.")
    ] = BOOTS,
    accept: Annotated[
        str, typer.Option(metavar="REASON", help="Let a board serve without; the reason is in the audit log.")
    ] = "",
    wait: Wait = 0.0,
    as_json: Json = False,
    db: HostDatabase = None,
    farm: FarmFile = None,
) -> None:
    """Qualify new boards: health check, boots from all media, spread.

    Several are measured at a time, as many as `limits` of farm.yaml allows. A failed board stays kept, with the
    reasons.
    """
    log_to(sys.stderr)
    host = services.host_file(farm)
    database = services.database(db, host.farm)
    with open_store(database, create=bool(board)) as store:
        unqualified = [hold.board for hold in ReservationBook(store).standing() if hold.kind == QUALIFYING]
        names = list(dict.fromkeys(board or unqualified))
        if not names:
            echo(
                "No board waits to qualify; `lab status` names those that were never reached." if not as_json else "[]"
            )
            return
        if accept:
            if not board:
                raise ConfigurationError("--accept: of which board?")
            for name in names:
                act = Act(about=accept)
                with Audit(store).acting(
                    act, ACCEPTED, person=process.actor(), address=socket.gethostname(), board=name
                ):
                    ReservationBook(store).end(name, QUALIFYING, process.person())
                echo(f"{name} serves: {accept}")
            return
    if len(names) > 1:
        shared = ["--cycles", str(boots), "--wait", str(wait), *(["--release", release] if release else [])]
        shared += [*(["--db", db] if db else []), *(["--farm", str(farm)] if farm else [])]
        raise typer.Exit(_side_by_side(names, shared, host, as_json=as_json))
    say = partial(echo, err=as_json)
    with open_results(database, wait, say) as store:
        result, code = _qualify_one(store, host, database, names[0], release, boots, wait, as_json=as_json)
    if as_json:
        echo_json([{**asdict(result), "passed": result.passed}] if result is not None else [])
    elif result is not None:
        echo(*_lines(result))
    raise typer.Exit(code)


def _qualify_one(
    store: Store,
    host: HostFile,
    database: str | None,
    name: str,
    release: str,
    boots: int,
    wait_s: float,
    *,
    as_json: bool,
) -> tuple[Qualification | None, int]:
    """Measure one board and judge it; None: its measurement did not end."""
    say = partial(echo, err=as_json)
    path = _environment(host, name)
    board_type, board = envfile.board_of(path)
    if board != name:
        raise ConfigurationError(f"{path} is of board {board!r}, not {name!r}")
    queue = open_queue(store, BY_QUALIFY)
    order = Order(board_type, name, (BOOT,), str(path), release, boots, {HEALTH: True})
    unfinished = queue.unfinished(order)
    job = queue.take_up(unfinished.id) if unfinished is not None else queue.enqueue(order)
    say(f"job {job.called}: {name} qualifies by {boots} boots of each medium, results in {store.url}")
    place = RunnerPaths(host.folder, package_data.tests(host.folder), database)
    code = Runner(queue, place, say, output=sys.stderr if as_json else None).run(job, wait_s)
    if code in {BUSY, INTERRUPTED}:
        return None, code
    check = next(iter(HealthBook(store).checks(name, 1)), None)
    run = latest_run(store, evolve(queue.job(job.id), after_run=0), BOOT)  # its only suite is behind it
    result = qualification.judge(store, boards.load(board_type), name, run, check, boots)
    qualification.finish(store, result, process.person(), process.actor(), socket.gethostname())
    return result, 0 if result.passed else BROKEN if code == BROKEN else NOT_QUALIFIED


def _environment(host: HostFile, board: str) -> Path:
    named = host.farm.environments if host.farm is not None else {}
    env = ({board_now.board: board_now.env for board_now in status.boards_in_folder(host.folder)} | named).get(board)
    if env is None:
        raise ConfigurationError(f"no environment in {host.folder / envfile.FOLDER} or farm.yaml names {board!r}")
    path = envfile.find(env, host.folder)
    envfile.check(path)
    return path


def _side_by_side(names: Sequence[str], shared: Sequence[str], host: HostFile, *, as_json: bool) -> int:
    """Qualify several boards, a process for each; return the worst exit code."""
    most = (host.farm.limits.max_boards if host.farm is not None else 0) or _AT_ONCE
    program = [sys.executable, "-P", "-c", "import sys; from lab.cli import main; sys.exit(main())"]

    living: list[subprocess.Popen[str]] = []
    ends = threading.Event()

    def one(name: str) -> tuple[int, str]:
        if ends.is_set():
            return INTERRUPTED, ""
        command = [*program, "farm", "qualify", name, *shared, "--json"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
            living.append(child)
            echo(f"{name}: begins", err=True)
            output, errors = child.communicate()
        last = (errors.strip().splitlines() or ["it printed nothing"])[-1]
        outcomes = [_outcome(qualified_board["passed"]) for qualified_board in _documents(output)] or [last]
        echo(f"{name}: {outcomes[0]}", err=True)
        return child.returncode, output

    def end(_number: int, _frame: object) -> None:
        ends.set()
        for child in living:
            child.terminate()  # each switches its board off; its job can be resumed

    with process.handling(dict.fromkeys(process.ENDING, end)), ThreadPoolExecutor(most) as pool:
        ended = list(pool.map(one, names))
    results = [result for _code, output in ended for result in _documents(output)]
    if as_json:
        echo_json(results)
    else:
        for result in results:
            fields: dict[str, Any] = {
                key: tuple(value) if isinstance(value, list) else value for key, value in result.items()
            }
            fields.pop("passed")
            echo(*_lines(Qualification(**fields)))
    return max(code for code, _output in ended)


def _outcome(passed: bool) -> str:
    return "qualified" if passed else "did not qualify"


def _documents(text: str) -> list[dict[str, Any]]:
    return list(json.loads(text)) if text.strip() else []


def _lines(result: Qualification) -> Iterable[str]:
    kin = f", beside {', '.join(result.kin)}" if result.kin else ""
    run = f"by run {result.run}" if result.run is not None else "without a run"
    yield f"{result.board}: {_outcome(result.passed)} {run}{kin}"
    yield from (f"  {reason}" for reason in result.reasons)
    yield from (f"  note: {note}" for note in result.notes)
