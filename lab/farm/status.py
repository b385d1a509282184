"""Current state of a lab host: boards, runs, failures and services.

`look` collects it from the environments, the console server's ports, the results and labgrid's coordinator. `lines` and
`document` write it for a person and for a program.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import functools
import os
import re
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final, TypeAlias

from attrs import asdict, evolve, frozen

from lab import package_data
from lab.console.status import PortStatus, ServerStatus
from lab.env import envfile
from lab.errors import BoardlabError, ConfigurationError, LabTransientError
from lab.farm import services
from lab.farm.board_state import STATES, BoardNow, JobNow, StateName, count_states
from lab.farm.config import Farm
from lab.farm.services import HostFile, Service
from lab.health import DEFAULT_RULE, QuarantineRule
from lab.health.reservations import QUARANTINE, Hold, ReservationBook
from lab.health.store import HealthBook
from lab.host import process
from lab.host.clock import utc_now
from lab.host.runtime import runtime_dir
from lab.jobs import listing as jobs_listing
from lab.jobs.listing import JobView
from lab.jobs.records import call, seems_dead
from lab.judge.latest import LabComparison, LatestJudge
from lab.judge.text import plain_document
from lab.places.records import MissingResource, is_a_program, with_port
from lab.results import listing, retention
from lab.results.formatting import end as end_of
from lab.results.listing import LatestEnded, ListedRun
from lab.results.retention import StoreSizes
from lab.results.store import Store, open_store
from lab.terminal import Marked, bad, doubtful, table

FAILURES_OF: Final = dt.timedelta(hours=24)
OpenStore: TypeAlias = Callable[[str | None], AbstractContextManager[Store]]
_READ: Final = functools.partial(open_store, create=False)
GLANCE_S: Final = 1.0  # wait for a coordinator
_ONE_LOOK_S: Final = 10.0  # for comparisons with earlier runs, where no later look can take them up
SEEN_LATELY: Final = dt.timedelta(days=30)  # a board without an environment is listed if it was measured since
_MOST_FAILURES: Final = 8  # rows of `lines`
_MANY: Final = 24  # of more boards the free ones are only named: the screen of a large lab is for the others
_NO_COORDINATOR: Final = (
    "labgrid's coordinator does not answer: a holder of its place, or a missing exporter, is not seen"
)
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86_400


@frozen
class LabNow:
    """Current state of a lab host.

    Attributes:
        at: the store's time, UTC; this host's if the results cannot be read.
        store: URL of the results, without a password.
        trouble: reason why they cannot be read; empty: none.
        boards: by name, as `name_key` orders them.
        sizes: of the results; None: not asked, as where looks follow one another.
    """

    at: dt.datetime
    host: str
    store: str
    trouble: str
    boards: tuple[BoardNow, ...]
    services: tuple[Service, ...]
    sizes: StoreSizes | None = None

    @property
    def by_state(self) -> list[BoardNow]:
        """The boards, problems first, then by name."""
        return sorted(self.boards, key=lambda board: (STATES.index(board.state.name), name_key(board.board)))

    @property
    def comparisons_left(self) -> int:
        """The number of boards whose latest runs are not judged yet."""
        return sum(not board.is_judged for board in self.boards)

    @property
    def silent(self) -> int:
        """The number of free boards that were silent for a week."""
        return sum(board.is_silent(self.at) for board in self.boards)

    @property
    def counts(self) -> dict[StateName, int]:
        """The number of boards in each state."""
        return count_states(board.state.name for board in self.boards)


def look(
    db: str | None = None,
    farm: Path | None = None,
    runtime: Path | None = None,
    folder: Path | None = None,
    ended: LatestEnded | None = None,
    judge: LatestJudge | None = None,
    *,
    opened: OpenStore = _READ,
) -> LabNow:
    """Look at everything once.

    Nothing is written, and nothing is started.

    Args:
        db: as `--db`; None: farm.yaml's, else the default.
        farm: the farm.yaml; None: here or in /etc/boardlab.
        runtime: the console server's folder; None: the user's.
        folder: of the lab, with `envs/`; None: farm.yaml's, else here.
        ended, judge: of the looks before, so that runs that had ended then are neither read nor judged again; None: no
            other look follows.
        opened: how the results are opened.

    Raises:
        ConfigurationError: the farm.yaml is wrong.
    """
    host = services.host_file(farm)
    server, ports = services.console_server(runtime or runtime_dir())
    lab_now = _boards_of(host, db, ports, folder or host.folder, ended or LatestEnded(), judge, opened)
    sizes = None
    if ended is None and not lab_now.trouble:
        where = services.database(db, host.farm)
        with contextlib.suppress(BoardlabError), opened(where) as store:
            sizes = store.read(lambda session: retention.sizes(session, store.location))
    return evolve(lab_now, services=(server, *services.listening(host)), sizes=sizes)


def boards_of(
    host: HostFile, db: str | None, runtime: Path, ended: LatestEnded, judge: LatestJudge, opened: OpenStore
) -> tuple[BoardNow, ...]:
    """Boards with results, jobs, ports or places, for frequent looks.

    Raises:
        LabTransientError: the results cannot be read.
    """
    lab_now = _boards_of(host, db, services.console_server(runtime)[1], host.folder, ended, judge, opened)
    if lab_now.trouble:
        raise LabTransientError(lab_now.trouble, failure="results")
    return lab_now.boards


def _boards_of(
    host: HostFile,
    db: str | None,
    ports: ServerStatus | None,
    folder: Path,
    ended: LatestEnded,
    judge: LatestJudge | None,
    opened: OpenStore,
) -> LabNow:
    """The boards and the results; no services."""
    now = utc_now()
    boards = {board.board: board for board in boards_in_folder(folder)}
    for name, env in host.farm.environments.items() if host.farm else ():
        if name not in boards:
            board_now = next((board for board in _boards_in_file(Path(env)) if board.board == name), BoardNow(name))
            boards[name] = evolve(board_now, env=env)
    for port in ports.ports if ports else ():
        if port.board:
            boards[port.board] = _with_port(boards.get(port.board, BoardNow(port.board)), port)
    store_url, trouble = "", ""
    try:
        with opened(services.database(db, host.farm)) as store:
            store_url = store.url
            rule = host.farm.health.rule if host.farm else DEFAULT_RULE
            now = store.now()
            boards = _add_results(store, boards, now, ended.of(store), rule)
            boards = _add_verdicts(store, boards, (judge or LatestJudge(_ONE_LOOK_S)).of(store, now))
    except BoardlabError as error:
        trouble = str(error)
        boards = {name: evolve(board, is_reached=None) for name, board in boards.items()}
    holders = find_other_holders(host.farm) if host.farm else {}
    if holders is None:
        for name in boards_by_place(host.farm).values() if host.farm else ():
            boards[name] = evolve(boards.get(name, BoardNow(name)), unseen=_NO_COORDINATOR)
    for name, holder in (holders or {}).items():
        missing, board = MissingResource.of(holder), boards.get(name, BoardNow(name))
        if missing is None:
            boards[name] = evolve(board, place=holder)
        else:  # the janitor holds the place, since a resource of it is away
            boards[name] = evolve(board, away=board.away or missing.described)
    ordered = tuple(boards[name] for name in sorted(boards, key=name_key))
    return LabNow(now, socket.gethostname(), store_url, trouble, ordered, ())


def name_key(board: str) -> tuple[str | int, ...]:
    """The sort key of a board's name: rack4 stands before rack36."""
    return tuple(int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", board))


@functools.lru_cache(maxsize=4096)
def _place_in(env: Path, _state: tuple[int, ...]) -> str:
    """Place of one environment; read again only when the file's state changes."""
    return envfile.place_of(env)


def boards_by_place(farm: Farm) -> dict[str, str]:
    """Place of labgrid -> its board, by farm.yaml's environments on this host."""
    board_of_place = {}
    for board, env in farm.environments.items():
        try:
            path = envfile.find(env, Path(farm.directory))
            state = path.stat()
            name = _place_in(path, (state.st_mtime_ns, state.st_size, state.st_ino))
        except (BoardlabError, OSError):
            continue
        if name:
            board_of_place[name] = board
    return board_of_place


def find_other_holders(farm: Farm) -> dict[str, str] | None:
    """Board -> the holder of its place; None: the coordinator does not answer.

    The holder is a person or the janitor, as "host/user".
    """
    boards = boards_by_place(farm) if farm.coordinator else {}
    if not boards:
        return {}
    from lab.places.coordinator import Coordinator  # noqa: PLC0415 - gRPC takes a while to import

    try:
        holders = Coordinator(with_port(farm.coordinator)).holders(GLANCE_S)
    except BoardlabError:  # `lab status` says so of the coordinator itself
        return None
    return {
        board: holders[place]
        for place, board in boards.items()
        if (holder := holders.get(place)) and (MissingResource.of(holder) is not None or not is_a_program(holder))
    }


def boards_in_folder(folder: Path) -> Iterator[BoardNow]:
    """Boards of a lab folder's environments; unreadable files are skipped."""
    for path in sorted((folder / package_data.ENVS).glob("*.yaml")):
        yield from _boards_in_file(path)


@functools.lru_cache(maxsize=4096)
def _parse_boards(path: Path, _state: tuple[int, ...]) -> tuple[BoardNow, ...]:
    """Boards of one environment; read again only when the file's state changes."""
    try:
        strategies = envfile.strategies(path)
    except ConfigurationError:
        return ()
    named = ((str(strategy.get("board") or ""), str(strategy.get("board_type") or "")) for strategy in strategies)
    return tuple(BoardNow(board, board_type, path.name) for board, board_type in named if board)


def _boards_in_file(path: Path) -> tuple[BoardNow, ...]:
    """Boards of one environment; none if it cannot be read."""
    with contextlib.suppress(OSError):
        state = path.stat()
        return _parse_boards(path, (state.st_mtime_ns, state.st_ctime_ns, state.st_size, state.st_ino))
    return ()


def _with_port(board: BoardNow, port: PortStatus) -> BoardNow:
    """The board with the state of one of its consoles' ports."""
    writer = "" if port.writer is None else process.describe(port.writer)
    away = "" if port.state == "open" else f"port {port.info.name}: {port.state}"
    trouble = f"not recorded: {port.recording_broken}" if port.recording_broken else ""
    return evolve(
        board,
        console=board.console or writer,
        port="; ".join(filter(None, (board.port, trouble))),
        away="; ".join(filter(None, (board.away, away))),
    )


def _add_results(
    store: Store, boards: dict[str, BoardNow], now: dt.datetime, last_ended: Iterable[ListedRun], rule: QuarantineRule
) -> dict[str, BoardNow]:
    """The boards with their runs, jobs, reservations and health.

    Boards that only the store has are added.

    Args:
        last_ended: each board's newest run that has ended.
    """
    ended = {listed.run.board: listed for listed in last_ended}
    running = {listed.run.board: listed for listed in listing.latest(store, running=True)}
    killed = jobs_listing.killed_runs(store) if running else frozenset[int]()
    failed: dict[str, dict[str, int]] = {}
    for (name, outcome), count in listing.failures(store, now - FAILURES_OF).items():
        failed.setdefault(name, {})[outcome] = count
    jobs: dict[str, list[JobNow]] = {}
    for view in jobs_listing.jobs(store, 0, now):
        jobs.setdefault(view.job.board, []).append(_job(view, now))
    newest = [*ended.values(), *running.values()]
    type_of_measured = {
        listed.run.board: listed.run.board_type for listed in newest if now - listed.run.started_at < SEEN_LATELY
    }
    boards_now = {**{name: BoardNow(name, board_type) for name, board_type in type_of_measured.items()}, **boards}
    holds: dict[str, tuple[Hold, ...]] = {}
    for hold in ReservationBook(store).standing():
        holds[hold.board] = (*holds.get(hold.board, ()), hold)
    coming: dict[str, tuple[Hold, ...]] = {}
    for hold in ReservationBook(store).coming():
        coming[hold.board] = (*coming.get(hold.board, ()), hold)
    # Boards of the health rule's window: True if a run that began in it has a good attempt.
    since = now - rule.window
    has_good: dict[str, bool] = {}
    for listed in newest:
        run = listed.run
        if run.finished_at is None or run.finished_at >= since:
            has_good[run.board] = has_good.get(run.board, False) or (listed.good > 0 and run.started_at >= since)
    health = HealthBook(store, rule, lambda: now).all(has_good)
    for name in (*jobs, *holds):
        boards_now.setdefault(name, BoardNow(name))
    for name, board in boards_now.items():
        own_jobs = jobs.get(name, [])
        last, current = ended.get(name), running.get(name)
        if current is not None and last is not None and current.run.id < last.run.id:
            current = None  # it was left behind: a later run has ended
        elif current is not None and current.run.id in killed:
            last, current = current, None
        boards_now[name] = evolve(
            board,
            board_type=board.board_type or type_of_measured.get(name, ""),
            job=next((job for job in own_jobs if job.state == "running"), None),
            waiting=sum(job.state == "queued" and not job.died for job in own_jobs),
            current=current,
            last=last,
            failures=failed.get(name, {}),
            holds=holds.get(name, ()),
            coming=coming.get(name, ()),
            health=health.get(name),
            is_reached=name in ended or name in running or (name in health and health[name].checked_at is not None),
        )
    return boards_now


def _add_verdicts(store: Store, boards: Mapping[str, BoardNow], comparison: LabComparison) -> dict[str, BoardNow]:
    """The boards with their worse numbers and failed runs' causes."""
    failed = [
        board.last.run.id for board in boards.values() if board.last is not None and board.last.run.end == "failed"
    ]
    causes = listing.last_failures(store, failed) if failed else {}
    return {
        name: evolve(
            board,
            worse=comparison.worse.get(name, ()),
            is_judged=name not in comparison.left,
            failed_by=causes.get(board.last.run.id) if board.last is not None else None,
        )
        for name, board in boards.items()
    }


def _job(view: JobView, now: dt.datetime) -> JobNow:
    """A job with its runs.

    `who` names its process, and the person if `lab web` started it for one.
    """
    job = view.job
    died = seems_dead(job, now, process.has_died)
    if process.has_died(job.holder) is None:  # of another host or user
        who = job.who
    elif died:
        who = "nobody"
    else:
        pid = int(job.holder.rsplit("/", 2)[1])
        is_own = job.person in {"", process.person_of(pid), process.user_name(os.getuid())}
        who = process.describe(pid) if is_own else f"{job.person}, {process.describe(pid)}"
    since = job.started_at if job.state == "running" and job.started_at else job.queued_at
    planned = {run.id: run.planned for run in view.runs}
    good = {run.id: run.good for run in view.runs}
    return JobNow(job.id, job.state, ",".join(job.suites), who, since, died, planned, view.expected_end, good)


def lines(now: LabNow, room: int | None = None) -> list[str]:
    """Lines on boards, failures and services; bad states are marked.

    Args:
        room: columns of the screen; None: the terminal's.
    """
    text_lines = [f"lab on {now.host}, {now.at:%Y-%m-%d %H:%M:%S} UTC", f"results: {now.store}" if now.store else ""]
    if now.trouble:
        text_lines += table(["", ""], [[bad("results:"), now.trouble]], "<<", room=room)[1:]
    text_lines.append("")
    if now.boards:
        text_lines += _board_lines(now, room)
    else:
        text_lines.append("no boards: run this in a lab's folder (`lab init` writes one)")
    text_lines += ["", *_failure_lines(now, room), ""]
    states = {"bad": bad("bad"), "ok": "ok", "absent": "-"}
    rows = [
        [service.name, states[service.state], "; ".join(filter(None, (service.said, service.hint)))]
        for service in now.services
    ]
    text_lines += table(["service", "", ""], rows, "<<<", room=room)
    if now.sizes:
        text_lines += ["", f"results: {now.sizes.line}"]
    return [line for number, line in enumerate(text_lines) if line or number != 1]


def _board_lines(now: LabNow, room: int | None) -> list[str]:
    """The boards, problems first; a large lab's idle ones by name."""
    text_lines = [", ".join(f"{count} {name}" for name, count in now.counts.items() if count), ""]
    ordered, idle = now.by_state, dict[str, list[str]]()
    if len(ordered) > _MANY:
        for board in filter(_is_idle, ordered):
            idle.setdefault(board.state.name, []).append(board.board)
        ordered = [board for board in ordered if not _is_idle(board)]
    rows = [
        [board.board, _state_text(board, now.at), _now_text(board, now.at), _last_text(board, now.at)]
        for board in ordered
    ]
    text_lines += table(["board", "state", "now", "last result"], rows, "<<<<", room=room) if rows else []
    if idle:
        listed = [[f"{len(boards)} {state}", ", ".join(boards)] for state, boards in idle.items()]
        text_lines += ["", *table(["", ""], listed, "<<", room=room)[1:]]
    if now.comparisons_left:
        hint = "`lab results show RUN` compares one run"
        text_lines += ["", doubtful(f"not compared with earlier runs yet: {now.comparisons_left} boards; {hint}")]
    return text_lines


def _is_idle(board: BoardNow) -> bool:
    """True if a person needs no line on the board."""
    return board.state.name in {"never reached", "free"} and not (board.failures or _suspect(board))


def _state_text(board: BoardNow, at: dt.datetime) -> str:
    """The state, its age, and whose fault it is."""
    state = board.state
    age = f" {ago((at - state.since).total_seconds())}" if state.since is not None and state.is_problem else ""
    text = f"{state.name}{age}{f' ({state.fault})' if state.fault else ''}"
    return bad(text) if state.is_problem else doubtful(text) if state.explains else text


def document(now: LabNow) -> dict[str, Any]:
    """The state as a JSON document."""
    return {
        "at": now.at.isoformat(),
        "host": now.host,
        "store": now.store,
        "trouble": now.trouble,
        "sizes": None
        if now.sizes is None
        else {"bytes": now.sizes.parts, "week": now.sizes.week, "free": now.sizes.free},
        "boards": [_board_document(board) for board in now.boards],
        "services": [asdict(service) for service in now.services],
    }


def ago(seconds: float) -> str:
    """`42 s`, `5 min`, `3 h` or `6 d`."""
    for unit_s, name in ((_DAY_S, "d"), (_HOUR_S, "h"), (_MINUTE_S, "min")):
        if seconds >= unit_s:
            return f"{int(seconds // unit_s)} {name}"
    return f"{int(max(seconds, 0))} s"


def _now_text(board: BoardNow, at: dt.datetime) -> str:
    """The column `now`: job, run, waiting jobs, and problems."""
    parts: list[str] = []
    if board.job is not None:
        since = f"{board.job.suites} (job {call(board.job.id)}) for {ago((at - board.job.since).total_seconds())}"
        parts.append(since if board.job.died else f"{since}, by {board.job.who}")
    elif board.console:
        parts.append(f"{board.current.run.kind + ': ' if board.current else ''}console held by {board.console}")
    if board.current is not None:
        (good, planned), failed = board.progress, board.current.failed
        progress = f"run {board.current.run.id}: {good}{f' of {planned}' if planned else ''} good"
        parts.append(progress + (doubtful(f", {failed} failed") if failed else ""))
    if board.job is not None and board.job.expected_end is not None:
        parts.append(f"ends about {board.job.expected_end:%H:%M} UTC")
    if board.waiting:
        parts.append(f"{board.waiting} waiting")
    parts += [doubtful(hold.described) for hold in board.holds if hold.described != board.state.cause]
    if _suspect(board) and board.health is not None:
        parts.append(doubtful(f"{board.health.state}: {board.health.gravest}"))
    if board.place:
        parts.append(f"place held by {board.place}")
    state = board.state
    if state.explains and state.cause:
        parts.insert(0, bad(state.cause) if state.is_problem else doubtful(state.cause))
    parts += [bad(problem) for problem in (board.port, board.away) if problem and problem != state.cause]
    text, *others = parts or ["-"]
    for part in others:
        text = text + Marked("; ", ()) + part  # str.join() would lose the marks
    return text


def _suspect(board: BoardNow) -> bool:
    """True if checks or failures speak against a board in service."""
    health = board.health
    return (
        health is not None
        and health.troubled
        and health.gravest not in board.state.cause
        and not any(hold.kind == QUARANTINE for hold in board.holds)
    )


def _last_text(board: BoardNow, at: dt.datetime) -> str:
    """The column `last result`: the newest run that has ended."""
    if board.last is None:
        return "-"
    run = board.last.run
    good, failed = board.last.good, board.last.failed
    end = run.finished_at or run.started_at
    state = end_of(run)
    share = f" {good}/{good + failed}"
    counted = doubtful(share) if failed else share
    return f"{run.id} {run.kind} {run.release} " + state + counted + f", {ago((at - end).total_seconds())} ago"


def _failure_lines(now: LabNow, room: int | None) -> list[str]:
    """The failed attempts of `FAILURES_OF`, the most frequent first."""
    counted = sorted(
        ((count, board.board, outcome) for board in now.boards for outcome, count in board.failures.items()),
        key=lambda row: (-row[0], row[1:]),
    )
    if not counted:
        return ["failed attempts in 24 h: " + (doubtful("not known") if now.trouble else "none")]
    rows = [[bad(outcome), board, str(count)] for count, board, outcome in counted[:_MOST_FAILURES]]
    more = len(counted) - len(rows)
    title = bad(f"failed attempts in 24 h: {sum(count for count, _, _ in counted)}")
    return [
        title,
        *table(["class", "board", "n"], rows, "<<>", indent=2, room=room),
        *([f"  and {more} more"] if more else []),
    ]


def _board_document(board: BoardNow) -> dict[str, Any]:
    return {
        "board": board.board,
        "board_type": board.board_type,
        "env": board.env,
        "job": None if board.job is None else _job_document(board.job),
        "waiting": board.waiting,
        "holds": [_hold_document(hold) for hold in board.holds],
        "coming": [_hold_document(hold) for hold in board.coming],
        "health": None if board.health is None else {"state": board.health.state, "reasons": [*board.health.reasons]},
        "console": board.console,
        "place": board.place,
        "port": "; ".join(filter(None, (board.port, board.away))),
        "state": board.state.name,
        "cause": board.state.cause,
        "fault": board.state.fault,
        "state_since": board.state.since.isoformat() if board.state.since else None,
        "worse": [plain_document(number) for number in board.worse],
        "is_judged": board.is_judged,
        "current": _run_document(board.current),
        "last": _run_document(board.last),
        "failures": dict(board.failures),
    }


def _job_document(job: JobNow) -> dict[str, Any]:
    end = job.expected_end
    return {
        **asdict(job),
        "job": call(job.id),
        "planned": {str(run): count for run, count in job.planned.items()},  # JSON's keys are texts
        "good": {str(run): count for run, count in job.good.items()},
        "since": job.since.isoformat(),
        "expected_end": end.isoformat() if end else None,
    }


def _hold_document(hold: Hold) -> dict[str, Any]:
    return {**asdict(hold), "at": hold.at.isoformat(), "until": hold.until.isoformat() if hold.until else None}


def _run_document(listed: ListedRun | None) -> dict[str, Any] | None:
    if listed is None:
        return None
    run, good, failed = listed.run, listed.good, listed.failed
    return {
        "id": run.id,
        "kind": run.kind,
        "release": run.release,
        "status": run.status,
        "started_at": run.started_at.isoformat(),
        "finished_at": run.finished_at.isoformat() if run.finished_at else None,
        "good": good,
        "failed": failed,
    }
