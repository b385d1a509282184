"""The wall: the start page, on which the boards of the lab are shown as they are now.

`tiles` makes a `Tile` of every board that a `Filter` lets through. `near_screen` and `far_screen` choose which of them
are shown as cards, and which as rows of a table (at a desk) or as names (on a large screen at a distance). Boards with
a problem come first. `Sparks` keeps a small line of the last boot times for each board.
"""

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

WIDTH: Final = 120  # of a line of boot times, in SVG units
HEIGHT: Final = 20
_EDGE: Final = 2.0  # the free margin around it
_AT_ONCE: Final = 25  # boards whose line is read in one call, so that a call is short in a large lab, too
_LEAST_RANGE: Final = 0.02  # share of the value that the full height stands for at least: noise shall look small
# The id, the status and the end of a board's last run. A run that was resumed has the same id but ends later.
_State: TypeAlias = tuple[int, str, dt.datetime | None]


@frozen
class Spark:
    """A board's last boot times as a small line.

    Attributes:
        points: the points of an SVG polyline, `WIDTH` by `HEIGHT`, the oldest run first.
        text: a description for screen readers, e.g. "sd, last 12: 5.91 to 6.02 s".
        now: the last boot time as text, e.g. "sd 6.02 s".
        value: the last boot time as a number, in the unit of its metric.
    """

    points: str
    text: str
    now: str
    value: float


@define
class Sparks:
    """The boot time lines of all boards, each read again when its board has a new run."""

    _kept: dict[str, tuple[_State, Spark | None]] = field(factory=dict, init=False)

    def of(
        self, boards: Sequence[BoardNow], store: Callable[[], AbstractContextManager[Store]]
    ) -> Mapping[str, Spark]:
        """Return the lines by board.

        Each call reads the lines of a few boards only, so that in a large lab the first calls return some of them.
        If the results cannot be read, the lines stay as they were.

        Args:
            store: opens the results; called only if a board has a run that was not read yet.
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
    """Draw boot times as a line.

    Args:
        boots: the averages of at least one run, the oldest first.
    """
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


_LONGEST_LINE: Final = 120  # characters of a console's last line


@frozen
class Tile:
    """A board on the wall, with all its texts as the page shows them.

    Texts are empty where there is nothing to show.

    Attributes:
        who: the holder of the board.
        since: for how long it is held, e.g. `5 min`.
        doing: the suites of its job, or the kind of its run.
        run: the id of the current run, else of the last one; None: it has none.
        release: the release of that run.
        medium: the medium that the current run booted last.
        good, planned: the cycles of the current run; planned is 0 if their number is unknown.
        eta: the expected end of its job, in UTC, e.g. `14:05`.
        trouble: its problem, or why it is in maintenance.
        failed: how many attempts failed in the last 24 h.
        failure: the class of the last failure.
        last: how its last run ended.
        line: the last line of its console.
        holds: its reservations and maintenance.
        spark: its last boot times.
        fault: whose fault its problem is.
        state_for: how long its state has lasted.
        word: the cause of its state in a word or two, else the suites of its job.
        changed: when its state began, else its lease, else when its last run ended; None: unknown.
        age: how long ago that was.
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
        """The board's name in hex, for ids of HTML elements that selectors need not escape."""
        return self.board.encode().hex()

    @property
    def is_problem(self) -> bool:
        """True if the board needs a person."""
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
    """A filter and an order of boards; an empty field filters nothing.

    Texts match a part of a name, in upper or lower case.

    Attributes:
        failed: only boards with a failed attempt in the last 24 h, or with a problem.
        mine: only boards that this person holds or has reserved; the whole name.
        words: each word has to be in the board's name, type, state, release or holder.
        sort: a key of SORTS, with `-` before it for the reverse order; empty: by state.
        whole: show all boards, however long the lists are.
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
        """Return the URL query of this filter with some fields changed."""
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
        """Return whether a tile passes the filter."""
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
    """Return the tiles of the boards that pass a filter, problems first, then by name.

    Args:
        lines: board -> the last line of its console.
        sparks: board -> its last boot times.
    """
    all_tiles = (
        _tile(board, lab_now.at, lines.get(board.board, ""), sparks.get(board.board)) for board in lab_now.by_state
    )
    return [tile for tile in all_tiles if board_filter.takes(tile)]


MOST_CARDS: Final = 48  # on a page at a desk, unless the filter asks for all
MOST_ROWS: Final = 100
_CELLS: Final = 96  # on a screen at a distance, so that it can be read from 5 m
_NAMES: Final = 60  # of free boards on such a screen
_LONG_NAME: Final = 16  # characters; a longer name would be too small on a card of such a screen


@frozen
class Screen:
    """The boards that a page shows, and how.

    Attributes:
        cards: the boards with problems; on a screen at a distance also boards in use.
        rows: the other boards; on a screen at a distance the free ones, of which only the names are shown.
        boards: how many boards there are in all.
        common: how many characters the names on all cards have in common; they are shown at half the size. 0: names
            are shown in one size.
        left_out: the problems that are not shown, e.g. `140 need a person (job gone)`; empty: none.
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
        """The number of columns of a 16:9 screen at a distance; a problem is two columns wide."""
        cells = sum(1 + tile.is_problem for tile in self.cards)
        return next(count for count in range(2, _CELLS, 2) if count * count >= 1.6 * cells)

    @property
    def longest(self) -> int:
        """The width of the longest name on a card, in characters of full size."""
        longest = max((len(tile.board) for tile in self.cards), default=1)
        return max(longest - self.common, math.ceil(self.common / 2))


def near_screen(tiles: Sequence[Tile], board_filter: Filter) -> Screen:
    """Choose the boards for a page at a desk."""
    problems, rows = ([tile for tile in tiles if tile.is_problem is problem] for problem in (True, False))
    cards = problems
    if board_filter.sort:
        rows.sort(key=SORTS[board_filter.sort.removeprefix("-")], reverse=board_filter.sort.startswith("-"))
    if not board_filter.whole:
        cards, rows = _gravest(problems, MOST_CARDS), rows[:MOST_ROWS]
    return Screen(tuple(cards), tuple(rows), len(tiles), left_out=_left_out(problems, cards))


def far_screen(tiles: Sequence[Tile]) -> Screen:
    """Choose the boards for a large screen that is read from a distance."""
    problems = [tile for tile in tiles if tile.is_problem]
    cards = _gravest(problems, _CELLS // 2)
    in_use = [tile for tile in tiles if not tile.is_problem and tile.state != "free"]
    cards += in_use[: _CELLS - 2 * len(cards)]
    free = tuple(tile for tile in tiles if tile.state == "free")[:_NAMES]
    common = _count_common([tile.board for tile in cards])
    return Screen(tuple(cards), free, len(tiles), common, _left_out(problems, cards))


def _gravest(problems: Sequence[Tile], most: int) -> list[Tile]:
    """Choose at most `most` problems: one of each kind, then failed boards, then others."""
    if len(problems) <= most:
        return list(problems)
    first = {_kind(tile): tile.board for tile in reversed(problems)}

    def rank(tile: Tile) -> int:
        return 0 if first[_kind(tile)] == tile.board else 1 if tile.state == "failed" else 2

    return sorted(problems, key=rank)[:most]


def _kind(tile: Tile) -> tuple[str, str]:
    """Return the kind of a problem: its state and cause.

    For a worse number the word is the size of the change, which makes no kind of its own.
    """
    return tile.state, "" if tile.state == "worse" else tile.word


def _left_out(problems: Sequence[Tile], cards: Sequence[Tile]) -> str:
    """Describe the problems that have no card, counted by kind."""
    shown = {tile.board for tile in cards}
    counts = Counter(_kind(tile) for tile in problems if tile.board not in shown)
    return ", ".join(
        f"{count} {state if count == 1 else state.replace('needs', 'need')}{f' ({word})' if word else ''}"
        for (state, word), count in counts.items()
    )


def _count_common(names: Sequence[str]) -> int:
    """Count the characters that all names begin with, up to a separator.

    Short names count as having nothing in common, since they fit on a card as they are.
    """
    if len(names) < 2 or max(map(len, names)) < _LONG_NAME:
        return 0
    first, last = min(names), max(names)
    alike = next((place for place, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), 0)
    return max(first.rfind(separator, 0, alike) for separator in "-_.") + 1


def console_lines(ports: Sequence[PortStatus]) -> dict[str, str]:
    """Read the last line of each board's console, without control characters.

    Boards whose recording cannot be read are left out.
    """
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
