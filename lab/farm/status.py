"""Current state of a lab host: boards, runs, failures and services."""

from __future__ import annotations

import contextlib
import datetime as dt
import functools
import os
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final

from attrs import asdict, evolve, field, frozen

from exporters.farm.places import MissingResource
from lab import shipped, yamlfile
from lab.console.status import PortStatus
from lab.errors import BoardlabError, ConfigurationError
from lab.farm import services
from lab.farm.labgrid_place import held_by_others
from lab.farm.services import Service
from lab.health import DEFAULT_RULE, Health, QuarantineRule
from lab.health.book import HealthBook
from lab.host import process
from lab.host.clock import utc_now
from lab.host.runtime import runtime_dir
from lab.jobs import listing as jobs_listing
from lab.jobs.listing import JobView
from lab.jobs.records import call, seems_dead
from lab.jobs.reservations import QUARANTINE, Hold, ReservationBook
from lab.results import listing
from lab.results.formatting import status
from lab.results.listing import LatestEnded, ListedRun
from lab.results.store import Store, open_store
from lab.shown import Marked, bad, doubtful, table

FAILURES_OF: Final = dt.timedelta(hours=24)
_READ: Final = functools.partial(open_store, create=False)
SEEN_LATELY: Final = dt.timedelta(days=30)  # a board without an environment is listed if it was measured since


@frozen
class JobNow:
    """A job that waits for a board, or has it.

    Attributes:
        state: "queued" or "running". who: the person and the program. since: start of its lease or its wait.
        died: its process is gone, or its host gives no sign of life.
        planned: cycles of its runs, over all media, modes or sections; 0: unknown. expected_end: None: unknown.
        good: those of them that gave their samples; an attempt at a row of a section is none.
    """

    id: int
    state: str
    suites: str
    who: str
    since: dt.datetime
    died: bool
    planned: Mapping[int, int] = field(factory=dict)
    expected_end: dt.datetime | None = None
    good: Mapping[int, int] = field(factory=dict)


@frozen
class BoardNow:
    """Current state of a board.

    Attributes:
        job: that has it. waiting: number of waiting jobs. console: its writer; empty: none. port: problem of its port or exporter.
        current: the run that is being measured. last: the last one before.
        failures: of its attempts in the last 24 h, by class, the last one's first. holds: its reservation, maintenance
            or quarantine.
        place: "host/user" that acquired its place by hand; empty: none known.
        health: result of its checks and failures; None: unknown.
    """

    board: str
    board_type: str = ""
    env: str = ""
    job: JobNow | None = None
    waiting: int = 0
    console: str = ""
    port: str = ""
    current: ListedRun | None = None
    last: ListedRun | None = None
    failures: Mapping[str, int] = field(factory=dict)
    holds: tuple[Hold, ...] = ()
    place: str = ""
    health: Health | None = None

    @property
    def progress(self) -> tuple[int, int]:
        """Good and planned cycles of the current run; 0 planned: unknown."""
        if self.current is None:
            return 0, 0
        run, job = self.current.run.id, self.job
        planned = job.planned.get(run, 0) if job is not None else 0
        return job.good.get(run, self.current.good) if job is not None and planned else self.current.good, planned


@frozen
class LabNow:
    """Current state of a lab host.

    Attributes:
        store: name of the results. trouble: reason why they cannot be read; empty: none.
    """

    at: dt.datetime
    host: str
    store: str
    trouble: str
    boards: tuple[BoardNow, ...]
    services: tuple[Service, ...]


def look(
    db: str | None = None,
    farm: Path | None = None,
    runtime: Path | None = None,
    folder: Path | None = None,
    ended: LatestEnded | None = None,
    *,
    opened: Callable[[str | None], AbstractContextManager[Store]] = _READ,
) -> LabNow:
    """Look at everything once.

    Nothing is written, and nothing is started.

    Args:
        db: as `--db`; None: farm.yaml's, else the default. farm: the farm.yaml; None: here or in /etc/boardlab.
        runtime: the console server's folder. folder: of the lab, with `envs/`; None: farm.yaml's, else here.
        ended: of the looks before; runs that had ended then are not read again. opened: how the results are opened.

    Raises:
        ConfigurationError: the farm.yaml is wrong.
    """
    now = utc_now()
    host = services.host_file(farm)
    boards = {board.board: board for board in described(folder or host.folder)}
    for name, env in host.farm.environments.items() if host.farm else ():
        if name not in boards:
            its = next((each for each in _described_at(Path(env)) if each.board == name), BoardNow(name))
            boards[name] = evolve(its, env=env)
    server, status = services.console_server(runtime or runtime_dir())
    for port in status.ports if status else ():
        if port.board:
            boards[port.board] = _at_port(boards.get(port.board, BoardNow(port.board)), port)
    name, trouble = "", ""
    try:
        with opened(services.database(db, host.farm)) as store:
            name = store.url
            rule = host.farm.health.rule if host.farm else DEFAULT_RULE
            now = store.now()
            boards = _measured(store, boards, now, (ended or LatestEnded()).of(store), rule)
    except BoardlabError as error:
        trouble = str(error)
    for board, holder in (held_by_others(host.farm) if host.farm else {}).items():
        away, its = MissingResource.of(holder), boards.get(board, BoardNow(board))
        boards[board] = evolve(its, place=holder) if away is None else evolve(its, port=its.port or away.described)
    found = (server, *services.listening(host))
    ordered = tuple(boards[board] for board in sorted(boards))
    return LabNow(now, socket.gethostname(), name, trouble, ordered, found)


def described(folder: Path) -> Iterator[BoardNow]:
    """Boards of a lab folder's environments; unreadable files are skipped."""
    for path in sorted((folder / shipped.ENVS).glob("*.yaml")):
        yield from _described_at(path)


def _described_at(path: Path) -> tuple[BoardNow, ...]:
    """Boards of one environment; none if it cannot be read."""
    with contextlib.suppress(OSError):
        state = path.stat()
        return _described_in(path, (state.st_mtime_ns, state.st_ctime_ns, state.st_size, state.st_ino))
    return ()


@functools.lru_cache(maxsize=4096)
def _described_in(path: Path, _state: tuple[int, ...]) -> tuple[BoardNow, ...]:
    """Boards of one environment, cached by the file's state."""
    try:
        found = list(_strategies(yamlfile.load(path)))
    except ConfigurationError:
        return ()
    named = ((str(each.get("board") or ""), str(each.get("board_type") or "")) for each in found)
    return tuple(BoardNow(board, board_type, path.name) for board, board_type in named if board)


def _strategies(data: object) -> Iterator[dict[str, Any]]:
    """Arguments of every `BoardStrategy` in a document."""
    inner: Iterable[object] = ()
    if isinstance(data, dict):
        inner = data.values()
        if isinstance(found := data.get("BoardStrategy"), dict):
            yield found
    elif isinstance(data, list):
        inner = data
    for each in inner:
        yield from _strategies(each)


def _at_port(board: BoardNow, port: PortStatus) -> BoardNow:
    writer = "" if port.writer is None else process.described(port.writer)
    troubles = [] if port.state == "open" else [f"port {port.info.name}: {port.state}"]
    troubles += [f"not recorded: {port.recording_broken}"] if port.recording_broken else []
    return evolve(board, console=board.console or writer, port="; ".join(filter(None, [board.port, *troubles])))


def _measured(
    store: Store, boards: dict[str, BoardNow], now: dt.datetime, last_ended: Iterable[ListedRun], rule: QuarantineRule
) -> dict[str, BoardNow]:
    """Add the store's knowledge to the boards, and boards of its own."""
    ended = {each.run.board: each for each in last_ended}
    running = {each.run.board: each for each in listing.latest(store, running=True)}
    failed: dict[str, dict[str, int]] = {}
    for (name, outcome), count in listing.failures(store, now - FAILURES_OF).items():
        failed.setdefault(name, {})[outcome] = count
    jobs: dict[str, list[JobNow]] = {}
    for name, job in _jobs(store, now):
        jobs.setdefault(name, []).append(job)
    lately = {
        run.board: run.board_type
        for run in (each.run for each in (*ended.values(), *running.values()))
        if now - run.started_at < SEEN_LATELY
    }
    found = {**{name: BoardNow(name, board_type) for name, board_type in lately.items()}, **boards}
    holds: dict[str, tuple[Hold, ...]] = {}
    for hold in ReservationBook(store).standing():
        holds[hold.board] = (*holds.get(hold.board, ()), hold)
    health = HealthBook(store, rule, lambda: now).all(_lately((*ended.values(), *running.values()), now - rule.window))
    for name in (*jobs, *holds):
        found.setdefault(name, BoardNow(name))
    for name, board in found.items():
        its = jobs.get(name, [])
        having = next((job for job in its if job.state == "running"), None)
        last, current = ended.get(name), running.get(name)
        if current is not None and (last is None or current.run.id > last.run.id):
            if having is None and not board.console:
                last, current = current, None  # the run was killed
        else:
            current = None
        found[name] = evolve(
            board,
            board_type=board.board_type or lately.get(name, ""),
            job=having,
            waiting=sum(job.state == "queued" and not job.died for job in its),
            current=current,
            last=last,
            failures=failed.get(name, {}),
            holds=holds.get(name, ()),
            health=health.get(name),
        )
    return found


def _lately(last: Iterable[ListedRun], since: dt.datetime) -> dict[str, bool]:
    """Boards with a recent run -> it has good attempts since then."""
    found: dict[str, bool] = {}
    for each in last:
        run = each.run
        if run.finished_at is None or run.finished_at >= since:
            found[run.board] = found.get(run.board, False) or (each.good > 0 and run.started_at >= since)
    return found


def _through(person: str, pid: int) -> str:
    """Person and process of a job, which `lab web` may have started."""
    known, described = process.person_of(pid), process.described(pid)
    return described if person in {"", known, process.user_name(os.getuid())} else f"{person}, {described}"


def _jobs(store: Store, now: dt.datetime) -> list[tuple[str, JobNow]]:
    return [(each.job.board, _job(each, now)) for each in jobs_listing.jobs(store, 0, now)]


def _job(seen: JobView, now: dt.datetime) -> JobNow:
    job = seen.job
    died = seems_dead(job, now, process.has_died)
    if process.has_died(job.holder) is None:  # of another host or user
        who = job.who
    else:
        who = "nobody" if died else _through(job.person, int(job.holder.rsplit("/", 2)[1]))
    since = job.started_at if job.state == "running" and job.started_at else job.queued_at
    planned = {run.id: run.planned for run in seen.runs}
    good = {run.id: run.good for run in seen.runs}
    return JobNow(job.id, job.state, ",".join(job.suites), who, since, died, planned, seen.expected_end, good)


# --- A lab host at this moment, for a person and for programs ---


_MOST_FAILURES: Final = 8
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86_400


def lines(now: LabNow, room: int | None = None) -> list[str]:
    """Lines on boards, failures and services; bad states are marked.

    Args:
        room: columns of the screen; None: the terminal's.
    """
    found = [f"lab on {now.host}, {now.at:%Y-%m-%d %H:%M:%S} UTC", f"results: {now.store}" if now.store else ""]
    if now.trouble:
        found += table(["", ""], [[bad("results:"), now.trouble]], "<<", room=room)[1:]
    found.append("")
    if now.boards:
        rows = [[board.board, _doing(board, now.at), _last(board, now.at)] for board in now.boards]
        found += table(["board", "now", "last result"], rows, "<<<", room=room)
    else:
        found.append("no boards: run this in a lab's folder (`lab init` writes one)")
    found += ["", *_failures(now, room), ""]
    found += table(["service", "", ""], [_service(each) for each in now.services], "<<<", room=room)
    return [line for number, line in enumerate(found) if line or number != 1]


def document(now: LabNow) -> dict[str, Any]:
    """The state as a JSON document."""
    return {
        "at": now.at.isoformat(),
        "host": now.host,
        "store": now.store,
        "trouble": now.trouble,
        "boards": [_board(board) for board in now.boards],
        "services": [asdict(service) for service in now.services],
    }


def ago(seconds: float) -> str:
    """`42 s`, `5 min`, `3 h` or `6 d`."""
    for unit_s, name in ((_DAY_S, "d"), (_HOUR_S, "h"), (_MINUTE_S, "min")):
        if seconds >= unit_s:
            return f"{int(seconds // unit_s)} {name}"
    return f"{int(max(seconds, 0))} s"


def _doing(board: BoardNow, at: dt.datetime) -> str:
    parts: list[str] = []
    if board.job is not None:
        since = f"{board.job.suites} (job {call(board.job.id)}) for {_since(board.job, at)}"
        parts.append(bad(f"{since}: its process is gone") if board.job.died else f"{since}, by {board.job.who}")
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
    parts += [bad(hold.described) if hold.kind == QUARANTINE else doubtful(hold.described) for hold in board.holds]
    if board.health is not None and board.health.troubled and not any(h.kind == QUARANTINE for h in board.holds):
        why = f"{board.health.state}: {board.health.gravest}"
        parts.append(bad(why) if board.health.state == "bad" else doubtful(why))
    if board.place:
        parts.append(f"place held by {board.place}")
    if board.port:
        parts.append(bad(board.port))
    return _joined(parts or ["free"])


def _last(board: BoardNow, at: dt.datetime) -> str:
    if board.last is None:
        return "-"
    run = board.last.run
    good, failed = board.last.good, board.last.failed
    end = run.finished_at or run.started_at
    state = doubtful("killed") if run.status == "running" else status(run)
    share = f" {good}/{good + failed}"
    counted = doubtful(share) if failed else share
    return f"{run.id} {run.kind} {run.release} " + state + counted + f", {ago((at - end).total_seconds())} ago"


def _failures(now: LabNow, room: int | None) -> list[str]:
    counted = sorted(
        ((count, board.board, outcome) for board in now.boards for outcome, count in board.failures.items()),
        key=lambda each: (-each[0], each[1:]),
    )
    if not counted:
        return ["failed attempts in 24 h: none"]
    rows = [[bad(outcome), board, str(count)] for count, board, outcome in counted[:_MOST_FAILURES]]
    more = len(counted) - len(rows)
    title = bad(f"failed attempts in 24 h: {sum(count for count, _, _ in counted)}")
    return [
        title,
        *table(["class", "board", "n"], rows, "<<>", indent=2, room=room),
        *([f"  and {more} more"] if more else []),
    ]


def _service(service: Any) -> list[str]:
    state = bad("bad") if service.state == "bad" else {"ok": "ok", "absent": "-"}[service.state]
    return [service.name, state, f"{service.said}{'; ' + service.hint if service.hint else ''}"]


def _since(job: JobNow, at: dt.datetime) -> str:
    return ago((at - job.since).total_seconds())


def _joined(parts: list[str]) -> str:
    joined: str = parts[0]
    for part in parts[1:]:
        joined = joined + Marked("; ", ()) + part
    return joined


def _board(board: BoardNow) -> dict[str, Any]:
    return {
        "board": board.board,
        "board_type": board.board_type,
        "env": board.env,
        "job": None if board.job is None else _job_document(board.job),
        "waiting": board.waiting,
        "holds": [_hold(hold) for hold in board.holds],
        "health": None if board.health is None else {"state": board.health.state, "reasons": [*board.health.reasons]},
        "console": board.console,
        "place": board.place,
        "port": board.port,
        "current": _run(board.current),
        "last": _run(board.last),
        "failures": dict(board.failures),
    }


def _job_document(job: JobNow) -> dict[str, Any]:
    end = job.expected_end
    times = {"since": job.since.isoformat(), "expected_end": end.isoformat() if end else None}
    counts = {
        name: {str(run): n for run, n in of_run.items()}
        for name, of_run in (("planned", job.planned), ("good", job.good))
    }
    return {**asdict(job), "job": call(job.id), **counts, **times}


def _hold(hold: Hold) -> dict[str, Any]:
    return {**asdict(hold), "at": hold.at.isoformat(), "until": hold.until.isoformat() if hold.until else None}


def _run(listed: ListedRun | None) -> dict[str, Any] | None:
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
