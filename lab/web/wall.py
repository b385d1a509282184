"""The wall of boards: a tile for each, what needs a person first."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal

from attrs import frozen

from lab.console.lookup import last_lines
from lab.console.status import PortStatus
from lab.console.terminal import LiveText
from lab.errors import BoardlabError
from lab.farm.status import BoardNow, LabNow, ago
from lab.jobs.records import call
from lab.jobs.reservations import QUARANTINE, Hold
from lab.results.listing import ListedRun
from lab.web.sparks import Spark

State = Literal["needs a person", "measures", "held", "waiting", "free"]
STATES: Final[tuple[State, ...]] = ("needs a person", "measures", "held", "waiting", "free")
_LONGEST_LINE: Final = 120


@frozen
class Tile:
    """A board on the wall.

    Attributes:
        who: holds it; empty: nobody. since: for how long, e.g. `5 min`. doing: suites or the kind of the run.
        run: that goes on, else the last one; None: none. release: of that run.
        medium: that was booted last in the run that goes on. good, planned: its cycles; planned is 0 where nobody knows.
        eta: UTC, e.g. `14:05`. trouble: what needs a person. failed: attempts of 24 h that failed; failure: the class of the last one.
        last: how the last run ended. line: the last one of its console. holds: whose it is, reserved or in maintenance.
        spark: its last boot times.
    """

    board: str
    board_type: str
    state: State
    who: str = ""
    since: str = ""
    doing: str = ""
    run: int | None = None
    release: str = ""
    medium: str = ""
    good: int = 0
    planned: int = 0
    eta: str = ""
    trouble: str = ""
    failed: int = 0
    failure: str = ""
    last: str = ""
    line: str = ""
    holds: tuple[Hold, ...] = ()
    spark: Spark | None = None

    @property
    def share(self) -> int:
        """How much of the run is done, in percent."""
        return min(100, 100 * self.good // self.planned) if self.planned else 0


@frozen
class Filter:
    """Which boards are wanted; an empty field asks for nothing.

    Attributes:
        failed: something of theirs failed in 24 h. mine: of this person alone, whose whole name it is.
    """

    board: str = ""
    board_type: str = ""
    release: str = ""
    who: str = ""
    failed: bool = False
    mine: str = ""

    def takes(self, tile: Tile) -> bool:
        """Whether a tile is wanted."""
        wanted = (
            (self.board, tile.board),
            (self.board_type, tile.board_type),
            (self.release, tile.release),
            (self.who, " ".join([tile.who, *(hold.person for hold in tile.holds)])),
        )
        named = all(text.casefold() in value.casefold() for text, value in wanted)
        own = not self.mine or self.mine in {
            *(word.rstrip(",") for word in tile.who.split()[:1]),
            *(hold.person for hold in tile.holds),
        }
        return named and own and (not self.failed or tile.failed > 0 or tile.state == "needs a person")


def tiles(
    found: LabNow, lines: Mapping[str, str] = {}, wanted: Filter = Filter(), sparks: Mapping[str, Spark] = {}
) -> list[Tile]:
    """The tiles, what needs a person first, then by name.

    Args:
        lines: board -> the last line of its console. sparks: board -> its last boot times.
    """
    made = [_tile(board, found.at, lines.get(board.board, ""), sparks.get(board.board)) for board in found.boards]
    kept = [tile for tile in made if wanted.takes(tile)]
    return sorted(kept, key=lambda tile: (tile.state != "needs a person", tile.board))


def counted(shown: Iterable[Tile]) -> dict[State, int]:
    """How many tiles are in each state."""
    counts: dict[State, int] = dict.fromkeys(STATES, 0)
    for tile in shown:
        counts[tile.state] += 1
    return counts


def console_lines(ports: Sequence[PortStatus]) -> dict[str, str]:
    """Board -> the last line that came from its console, as text without control characters."""
    found: dict[str, str] = {}
    for port in ports:
        if port.board:
            try:
                text = LiveText().feed(last_lines(port.info, 2)).strip()
            except BoardlabError:
                continue
            found[port.board] = text.splitlines()[-1][:_LONGEST_LINE] if text else ""
    return found


def _tile(board: BoardNow, at: dt.datetime, line: str, spark: Spark | None) -> Tile:
    job, run = board.job, board.current or board.last
    good, planned = board.progress
    troubles = [board.port] if board.port else []
    troubles += [f"job {call(job.id)}: its process is gone"] if job is not None and job.died else []
    troubles += [f"bad: {board.health.gravest}"] if board.health is not None and board.health.state == "bad" else []
    troubles += [f"run {board.last.run.id} {board.last.run.status}"] if _ended_badly(board) and board.last else []
    return Tile(
        board=board.board,
        board_type=board.board_type,
        state=_state(board, troubles),
        who=job.who if job is not None else board.console or (f"{board.place} (labgrid)" if board.place else ""),
        since=ago((at - job.since).total_seconds()) if job is not None else "",
        doing=job.suites if job is not None else board.current.run.kind if board.current else "",
        run=run.run.id if run else None,
        release=run.run.release if run else "",
        medium=_medium(board.current),
        good=good,
        planned=planned,
        eta=f"{job.expected_end:%H:%M}" if job is not None and job.expected_end is not None else "",
        trouble="; ".join(troubles),
        failed=sum(board.failures.values()),
        failure=next(iter(board.failures), ""),
        last=_last(board.last, at),
        line=line,
        holds=tuple(hold for hold in board.holds if hold.kind != QUARANTINE),  # which is among the troubles
        spark=spark,
    )


def _state(board: BoardNow, troubles: Sequence[str]) -> State:
    if troubles:
        return "needs a person"
    if board.current is not None:
        return "measures"
    if board.job is not None or board.console or board.holds or board.place:
        return "held"
    return "waiting" if board.waiting else "free"


def _ended_badly(board: BoardNow) -> bool:
    return board.last is not None and board.current is None and board.last.run.status in {"failed", "running"}


def _medium(run: ListedRun | None) -> str:
    last = run.averaged[-1].params if run and run.averaged else {}
    return last.get("medium", "")


def _last(listed: ListedRun | None, at: dt.datetime) -> str:
    if listed is None:
        return ""
    run = listed.run
    end = run.finished_at or run.started_at
    status = "killed" if run.status == "running" else run.status
    return (
        f"run {run.id}, {run.kind}: {status}, {listed.good} of {listed.tried}, {ago((at - end).total_seconds())} ago"
    )
