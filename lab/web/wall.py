"""The wall: problems as cards, the other boards as rows of a table or names."""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, TypeAlias
from urllib.parse import urlencode

from attrs import define, evolve, field, frozen

from lab.console.lookup import last_lines
from lab.console.status import PortStatus, ports_of
from lab.console.terminal import LiveText
from lab.errors import BoardlabError
from lab.farm.board_state import PROBLEMS, STATES, BoardNow, StateName
from lab.farm.status import LabNow, ago, name_key
from lab.health.reservations import Hold
from lab.judge.labels import is_numbered, release_key
from lab.results import averages
from lab.results.formatting import label, number
from lab.results.listing import ListedRun
from lab.results.store import Store
from lab.results.sums import Average

WIDTH: Final = 120
HEIGHT: Final = 20
_EDGE: Final = 2.0
_AT_ONCE: Final = 25  # boards of a look: that of a large lab stays short, and the next one goes on
_LEAST_RANGE: Final = 0.02  # of the value: what differs by less is drawn as the small change that it is
# Of a board's last run; one that was resumed and ended again has another end.
_State: TypeAlias = tuple[int, str, dt.datetime | None]


@frozen
class Spark:
    """A board's last boot times.

    Attributes:
        points: of a polyline (SVG), `WIDTH` by `HEIGHT`, the oldest run first.
        text: the same for who does not see it, e.g. "sd, last 12: 5.91 to 6.02 s".
        now: the last one, e.g. "sd 6.02 s".
        value: the same as a number.
    """

    points: str
    text: str
    now: str
    value: float


@define
class Sparks:
    """The lines of all boards."""

    _kept: dict[str, tuple[_State, Spark | None]] = field(factory=dict, init=False)

    def of(
        self, boards: Sequence[BoardNow], store: Callable[[], AbstractContextManager[Store]]
    ) -> Mapping[str, Spark]:
        """Board -> its line.

        Of a large lab, the first looks have it of some boards only. Unreadable results change nothing.

        Args:
            store: opens the results; called where a run has ended since the last look.
        """
        last = {board.board: board.last.run for board in boards if board.last is not None}
        states: dict[str, _State] = {board: (run.id, run.status, run.finished_at) for board, run in last.items()}
        new = [board for board, state in states.items() if self._kept.get(board, (None,))[0] != state][:_AT_ONCE]
        if new:
            try:
                with store() as opened:
                    boots_of_board = averages.boots(opened, new)
            except BoardlabError:
                new = []
            for board in new:
                self._kept[board] = (states[board], spark(boots_of_board[board]) if board in boots_of_board else None)
        return {board: line for board, (_, line) in self._kept.items() if line is not None}


def spark(boots: Sequence[Average]) -> Spark:
    """The line of these boot times, the oldest first."""
    values = [boot.value for boot in boots]
    low, high, last = min(values), max(values), boots[-1]
    middle, half = (low + high) / 2, max((high - low) / 2, abs(low + high) / 2 * _LEAST_RANGE / 2, 1e-9)
    step = (WIDTH - 2 * _EDGE) / max(1, len(values) - 1)
    heights = [HEIGHT / 2 - (HEIGHT / 2 - _EDGE) * (value - middle) / half for value in values]
    points = [f"{_EDGE + at * step:.1f},{height:.1f}" for at, height in enumerate(heights)]
    ends = [number(value, last.uncertainty, last.metric) for value in (low, high)]
    between = ends[0] if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"
    what, unit = label(last.params), last.metric.unit
    return Spark(
        " ".join(points),
        f"{what}{', ' if what else ''}last {len(values)}: {between} {unit}",
        f"{what} {number(last.value, last.uncertainty, last.metric)} {unit}".strip(),
        last.value,
    )


_LONGEST_LINE: Final = 120


@frozen
class Tile:
    """A board on the wall.

    Attributes:
        who: holds it; empty: nobody.
        since: for how long, e.g. `5 min`.
        doing: suites or the kind of the run.
        run: that goes on, else the last one; None: none.
        release: of that run.
        fault: whose the problem is.
        state_for: how long it lasts; both empty: unknown.
        medium: that was booted last in the run that goes on.
        good, planned: its cycles; planned is 0 where nobody knows.
        eta: UTC, e.g. `14:05`.
        trouble: the problem, or why it is in maintenance.
        failed: attempts of 24 h that failed.
        failure: the class of the last one.
        last: how the last run ended.
        line: the last one of its console.
        holds: whose it is, reserved or in maintenance.
        spark: its last boot times.
        word: its cause in a word.
        changed: begin of its state, else of its lease, else the end of its last run; None: unknown.
        age: since then.
        is_silent: it is free, and had no run and no check for a week.
    """

    board: str
    board_type: str
    state: StateName
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
    fault: str = ""
    state_for: str = ""
    word: str = ""
    changed: dt.datetime | None = None
    age: str = ""
    is_silent: bool = False

    @property
    def anchor(self) -> str:
        """The end of the id of its element; a selector needs no escape for it."""
        return self.board.encode().hex()

    @property
    def is_problem(self) -> bool:
        """True if a person is to look at the board."""
        return self.state in PROBLEMS

    @property
    def share(self) -> int:
        """The finished share of the run, in percent."""
        return min(100, 100 * self.good // self.planned) if self.planned else 0


SORTS: Final[dict[str, Callable[[Tile], Any]]] = {
    "board": lambda tile: name_key(tile.board),
    "state": lambda tile: (STATES.index(tile.state), name_key(tile.board)),
    "release": lambda tile: (release_key(tile.release) if is_numbered(tile.release) else (), name_key(tile.board)),
    "number": lambda tile: (tile.spark.value if tile.spark else math.inf, name_key(tile.board)),
    "since": lambda tile: (tile.changed.timestamp() if tile.changed else math.inf, name_key(tile.board)),
}


@frozen
class Filter:
    """A filter of boards; an empty field filters nothing.

    Attributes:
        failed: something of theirs failed in 24 h.
        mine: of this person alone, whose whole name it is.
        words: each is somewhere in the board's name, type, state, release or who has it.
        sort: of SORTS, with `-` before it reversed; empty: by state.
        whole: no list is cut.
    """

    board: str = ""
    board_type: str = ""
    release: str = ""
    who: str = ""
    failed: bool = False
    mine: str = ""
    words: str = ""
    sort: str = ""
    whole: bool = False

    def query(self, **changes: Any) -> str:
        """The address's query of this filter with some fields changed."""
        asked = evolve(self, **changes)
        words = {"filter": asked.words, "board": asked.board, "type": asked.board_type, "release": asked.release}
        ticks = {"failed": asked.failed, "mine": asked.mine, "all": asked.whole}
        pairs = {
            **words,
            "who": asked.who,
            **{name: "1" for name, ticked in ticks.items() if ticked},
            "sort": asked.sort,
        }
        return urlencode({name: value for name, value in pairs.items() if value})

    def takes(self, tile: Tile) -> bool:
        """True if the filter takes a tile."""
        who = " ".join([tile.who, *(hold.person for hold in tile.holds)])
        pairs = [
            (self.board, tile.board),
            (self.board_type, tile.board_type),
            (self.release, tile.release),
            (self.who, who),
        ]
        everything = " ".join([tile.board, tile.board_type, tile.state, tile.release, who])
        pairs += [(word, everything) for word in self.words.split()]
        named = all(text.casefold() in value.casefold() for text, value in pairs)
        own = not self.mine or self.mine in {
            *(word.rstrip(",") for word in tile.who.split()[:1]),
            *(hold.person for hold in tile.holds),
        }
        return named and own and (not self.failed or tile.failed > 0 or tile.is_problem)


def tiles(
    lab_now: LabNow, lines: Mapping[str, str] = {}, board_filter: Filter = Filter(), sparks: Mapping[str, Spark] = {}
) -> list[Tile]:
    """The tiles, problems first, then by name.

    Args:
        lines: board -> the last line of its console.
        sparks: board -> its last boot times.
    """
    all_tiles = (
        _tile(board, lab_now.at, lines.get(board.board, ""), sparks.get(board.board)) for board in lab_now.by_state
    )
    return [tile for tile in all_tiles if board_filter.takes(tile)]


MOST_CARDS: Final = 48  # of a page
MOST_ROWS: Final = 100
_CELLS: Final = 96  # of a screen at a distance, which is read at 5 m
_NAMES: Final = 60  # of free boards there
_LONG_NAME: Final = 16  # characters of a name that would be too small on a card at a distance


@frozen
class Screen:
    """The boards of a page.

    Attributes:
        cards: problems; on a screen at a distance also the boards in use.
        rows: the others; on a screen at a distance free boards, of which it has the names alone.
        boards: how many there are.
        hidden: how many of them are neither.
        left_out: the problems among these, e.g. `140 need a person (job gone)`; empty: none.
        common: characters that all names on cards begin with, and that are half as large; 0: they are not apart.
    """

    cards: tuple[Tile, ...]
    rows: tuple[Tile, ...]
    boards: int
    common: int = 0
    left_out: str = ""

    @property
    def hidden(self) -> int:
        """How many boards are neither a card nor a row."""
        return self.boards - len(self.cards) - len(self.rows)

    @property
    def columns(self) -> int:
        """Columns of a screen at a distance, 16 by 9; a problem is two of them wide."""
        cells = sum(1 + tile.is_problem for tile in self.cards)
        return next(count for count in range(2, _CELLS, 2) if count * count >= 1.6 * cells)

    @property
    def longest(self) -> int:
        """Characters of the longest name on a card as large as its own part."""
        longest = max((len(tile.board) for tile in self.cards), default=1)
        return max(longest - self.common, math.ceil(self.common / 2))


def near_screen(tiles: Sequence[Tile], board_filter: Filter) -> Screen:
    """A page at a desk."""
    problems, rows = ([tile for tile in tiles if tile.is_problem is problem] for problem in (True, False))
    cards = problems
    if board_filter.sort:
        rows.sort(key=SORTS[board_filter.sort.removeprefix("-")], reverse=board_filter.sort.startswith("-"))
    if not board_filter.whole:
        cards, rows = _gravest(problems, MOST_CARDS), rows[:MOST_ROWS]
    return Screen(tuple(cards), tuple(rows), len(tiles), left_out=_left_out(problems, cards))


def far_screen(tiles: Sequence[Tile]) -> Screen:
    """A screen at a distance."""
    problems = [tile for tile in tiles if tile.is_problem]
    cards = _gravest(problems, _CELLS // 2)
    in_use = [tile for tile in tiles if not tile.is_problem and tile.state != "free"]
    cards += in_use[: _CELLS - 2 * len(cards)]
    free = tuple(tile for tile in tiles if tile.state == "free")[:_NAMES]
    common = _count_common([tile.board for tile in cards])
    return Screen(tuple(cards), free, len(tiles), common, _left_out(problems, cards))


def _gravest(problems: Sequence[Tile], most: int) -> list[Tile]:
    """The problems, or those that fit: one of each kind, then failed boards, then the others."""
    if len(problems) <= most:
        return list(problems)
    first = {_kind(tile): tile.board for tile in reversed(problems)}

    def rank(tile: Tile) -> int:
        return 0 if first[_kind(tile)] == tile.board else 1 if tile.state == "failed" else 2

    return sorted(problems, key=rank)[:most]


def _kind(tile: Tile) -> tuple[str, str]:
    """The state and the cause in a word; the size of a change is none."""
    return tile.state, "" if tile.state == "worse" else tile.word


def _left_out(problems: Sequence[Tile], cards: Sequence[Tile]) -> str:
    """The problems that are no cards, counted by kind."""
    shown = {tile.board for tile in cards}
    counts = Counter(_kind(tile) for tile in problems if tile.board not in shown)
    return ", ".join(
        f"{count} {state if count == 1 else state.replace('needs', 'need')}{f' ({word})' if word else ''}"
        for (state, word), count in counts.items()
    )


def _count_common(names: Sequence[str]) -> int:
    """The characters up to a separator that long names begin with."""
    if len(names) < 2 or max(map(len, names)) < _LONG_NAME:
        return 0
    first, last = min(names), max(names)
    alike = next((place for place, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), 0)
    return max(first.rfind(separator, 0, alike) for separator in "-_.") + 1


def console_lines(ports: Sequence[PortStatus]) -> dict[str, str]:
    """Board -> its console's last line, without control characters."""
    last_line_of: dict[str, str] = {}
    for board in dict.fromkeys(port.board for port in ports if port.board):
        for port in ports_of(ports, board)[:1]:
            try:
                text = LiveText().feed(last_lines(port.info, 2)).strip()
            except BoardlabError:
                continue
            last_line_of[board] = text.splitlines()[-1][:_LONGEST_LINE] if text else ""
    return last_line_of


def _tile(board: BoardNow, at: dt.datetime, line: str, spark: Spark | None) -> Tile:
    job, run = board.job, board.current or board.last
    good, planned = board.progress
    state = board.state
    last = board.current.averaged[-1].params if board.current and board.current.averaged else {}
    changed = state.since or (job.since if job is not None else None)
    if changed is None and run is not None:
        changed = run.run.finished_at or run.run.started_at
    return Tile(
        board=board.board,
        board_type=board.board_type,
        state=state.name,
        who=job.who if job is not None else board.console or (f"{board.place} (labgrid)" if board.place else ""),
        since=ago((at - job.since).total_seconds()) if job is not None else "",
        doing=job.suites if job is not None else board.current.run.kind if board.current else "",
        run=run.run.id if run else None,
        release=run.run.release if run else "",
        medium=last.get("medium", ""),
        good=good,
        planned=planned,
        eta=f"{job.expected_end:%H:%M}" if job is not None and job.expected_end is not None else "",
        trouble=state.cause if state.explains else "",
        failed=sum(board.failures.values()),
        failure=next(iter(board.failures), ""),
        last=_last(board.last, at),
        line=line,
        holds=tuple(hold for hold in board.holds if not state.explains or hold.described != state.cause),
        spark=spark,
        fault=state.fault,
        state_for=ago((at - state.since).total_seconds()) if state.explains and state.since is not None else "",
        word=state.word or (job.suites if job is not None else ""),
        changed=changed,
        age=ago((at - changed).total_seconds()) if changed is not None else "",
        is_silent=board.is_silent(at),
    )


def _last(listed: ListedRun | None, at: dt.datetime) -> str:
    if listed is None:
        return ""
    run = listed.run
    end = run.finished_at or run.started_at
    return (
        f"run {run.id}, {run.kind}: {run.end}, {listed.good} of {listed.tried}, {ago((at - end).total_seconds())} ago"
    )
