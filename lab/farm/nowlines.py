"""A lab host at this moment, for a person and for programs."""

from __future__ import annotations

import datetime as dt
from typing import Any, Final

from attrs import asdict

from lab.farm.now import BoardNow, JobNow, LabNow
from lab.jobs.records import call
from lab.jobs.reservations import QUARANTINE, Hold
from lab.results.formatting import status
from lab.results.listing import ListedRun
from lab.shown import Marked, bad, doubtful, table

_MOST_FAILURES: Final = 8
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86_400


def lines(now: LabNow, room: int | None = None) -> list[str]:
    """Boards, failures, services; what is bad is marked.

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
    """For JSON."""
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
    said: list[str] = []
    if board.job is not None:
        since = f"{board.job.suites} (job {call(board.job.id)}) for {_since(board.job, at)}"
        said.append(bad(f"{since}: its process is gone") if board.job.died else f"{since}, by {board.job.who}")
    elif board.console:
        said.append(f"{board.current.run.kind + ': ' if board.current else ''}console held by {board.console}")
    if board.current is not None:
        (good, planned), failed = board.progress, board.current.failed
        progress = f"run {board.current.run.id}: {good}{f' of {planned}' if planned else ''} good"
        said.append(progress + (doubtful(f", {failed} failed") if failed else ""))
    if board.job is not None and board.job.expected_end is not None:
        said.append(f"ends about {board.job.expected_end:%H:%M} UTC")
    if board.waiting:
        said.append(f"{board.waiting} waiting")
    said += [bad(hold.described) if hold.kind == QUARANTINE else doubtful(hold.described) for hold in board.holds]
    if board.health is not None and board.health.troubled and not any(h.kind == QUARANTINE for h in board.holds):
        why = f"{board.health.state}: {board.health.gravest}"
        said.append(bad(why) if board.health.state == "bad" else doubtful(why))
    if board.place:
        said.append(f"place held by {board.place}")
    if board.port:
        said.append(bad(board.port))
    return _joined(said or ["free"])


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
    return [service.name, state, f"{service.said}{'; ' + service.mend if service.mend else ''}"]


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
        "job": None if board.job is None else _job(board.job),
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


def _job(job: JobNow) -> dict[str, Any]:
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
