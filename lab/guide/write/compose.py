"""Arrange a release's numbers in the tables of a guide.

Order and shape are the vendor's; every row has full width.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence

from attrs import define, evolve, field, frozen

from lab.benchmarks.sections import of_number
from lab.guide import layout
from lab.guide.layout import CellPosition, natural
from lab.guide.write.command_lines import merge_commands
from lab.guide.write.entries import GuideEntry, GuideRelease
from lab.metrics import by_name

_AFTER_ALL = 10_000  # tables that the layout does not know come last, in the order of their sources

_OTHER_CHAPTER = "Other Measurements"
_WAYS = ("write", "read")  # the vendor's tables of storage have throughput and CPU load of each together


@frozen
class ComposedRow:
    """A row: key cells and results.

    None: the board has no data.
    """

    keys: tuple[str, ...]
    cells: tuple[GuideEntry | None, ...]


@frozen
class SampleLine:
    """How a board's numbers of a table were taken.

    Attributes:
        text: board, samples, ±, days.
        runs: that took them.
    """

    text: str
    runs: tuple[int, ...]


@frozen
class ComposedTable:
    """A table to be written.

    Attributes:
        keys: headers of the key columns.
        columns: board and metric's text of each other column.
        commands: of the measured numbers; empty where the table before it in the chapter has the same.
    """

    chapter: tuple[str, ...]
    title: str
    keys: tuple[str, ...]
    columns: tuple[tuple[str, str], ...]
    rows: tuple[ComposedRow, ...]
    commands: tuple[str, ...] = ()

    @property
    def header(self) -> tuple[str, ...]:
        """The headers of all columns."""
        return (*self.keys, *(f"{board}: {column}" for board, column in self.columns))

    def sample_lines(self) -> list[SampleLine]:
        """How the measured numbers were taken, a line for each board."""
        boards: dict[str, list[GuideEntry]] = {}
        for row in self.rows:
            for entry in row.cells:
                if entry is not None and entry.evidence.samples and not entry.is_withheld:
                    boards.setdefault(entry.board, []).append(entry)
        return [_describe_samples(board, entries) for board, entries in boards.items()]


@define
class _Draft:
    place: CellPosition
    boards: tuple[str, ...]
    columns: dict[tuple[str, str], tuple[int, int, int]] = field(factory=dict)  # (board, column) -> order
    rows: dict[tuple[str, ...], dict[tuple[str, str], GuideEntry]] = field(factory=dict)
    names: dict[tuple[str, ...], tuple[str, ...]] = field(factory=dict)

    def add(self, entry: GuideEntry, place: CellPosition) -> None:
        column = (entry.board, place.column)
        way = entry.params.get("direction", "")
        before = _WAYS.index(way) if way in _WAYS and place.column.lower().startswith(way) else 0
        self.columns[column] = (self.boards.index(entry.board), before, place.order[1])
        second: list[str] = []  # texts of the further key columns, and those of them that tell rows apart
        telling: list[str] = []
        for header in place.keys[1:]:
            name = layout.SECOND_KEYS.get(header)
            if name is not None and name in entry.params:
                second.append(entry.params[name])
                telling.append(entry.params[name])
            else:
                second.append(entry.keys.get(header, ""))
        identity = (place.row.lower(), *telling)
        printed = entry.origin.row if entry.origin else place.row
        self.names.setdefault(identity, (printed, *second))
        self.rows.setdefault(identity, {})[column] = entry

    def table(self) -> ComposedTable:
        columns = sorted(self.columns, key=lambda column: self.columns[column])
        rows = [
            ComposedRow(self.names[identity], tuple(self.rows[identity].get(column) for column in columns))
            for identity in (sorted(self.rows, key=_row_order) if self.place.is_sorted else self.rows)
        ]
        entries = (entry for row in rows for entry in row.cells if entry is not None)
        commands = merge_commands(entry.evidence.command for entry in entries if entry.evidence.command)
        place = self.place
        return ComposedTable(place.chapter, place.title, place.keys, tuple(columns), tuple(rows), commands)

    def order(self) -> tuple[int, int, int]:
        table, position = self.place.order
        return table, position if table == _AFTER_ALL else 0, min(board for board, *_ in self.columns.values())


def compose_tables(release: GuideRelease) -> list[ComposedTable]:
    """Every table of the guide, in order."""
    drafts: dict[tuple[object, ...], _Draft] = {}
    for number, entry in enumerate(release.entries):
        place = layout.load().place(entry.metric, entry.params) or _other_place(entry, number)
        identity = (place.chapter, place.title, place.keys, entry.board if place.per_board else "")
        drafts.setdefault(identity, _Draft(place, release.boards)).add(entry, place)
    by_chapter: dict[tuple[str, ...], list[_Draft]] = {}  # tables of one chapter stand together
    for draft in sorted(drafts.values(), key=_Draft.order):
        by_chapter.setdefault(draft.place.chapter, []).append(draft)
    tops: dict[str, list[_Draft]] = {}  # and sections of one top chapter
    for chapter, members in by_chapter.items():
        tops.setdefault(chapter[0] if chapter else "", []).extend(members)
    tables = [draft.table() for members in tops.values() for draft in members]
    return [
        evolve(table, commands=()) if (table.chapter, table.commands) == (before.chapter, before.commands) else table
        for before, table in itertools.pairwise([ComposedTable((), "", (), (), ()), *tables])
    ]


def _other_place(entry: GuideEntry, number: int) -> CellPosition:
    """Position of a number that the layout does not know.

    It is where the number's source printed it; without a source, a table of its section in a chapter of its own.
    """
    if entry.origin is not None:
        o = entry.origin
        return CellPosition(o.chapter, o.title, o.keys, o.row, o.column, order=(_AFTER_ALL, number))
    row = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in entry.params.items()) or "all"
    section = of_number(entry.metric, entry.params)
    *group, name = entry.metric.replace("_", " ").split(".")
    title = section.title if section else " ".join(group)
    column = f"{name} ({by_name(entry.metric).unit})"
    order = (_AFTER_ALL, number)
    return CellPosition((_OTHER_CHAPTER,), title, ("Parameters",), row, column, order=order)


def _row_order(identity: tuple[str, ...]) -> tuple[bool, list[list[tuple[int, int, str]]]]:
    return identity[0] == "total", [natural(part) for part in identity]


def _describe_samples(board: str, entries: Sequence[GuideEntry]) -> SampleLine:
    counts = sorted({entry.evidence.samples or 0 for entry in entries})
    count = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    shares = [
        100 * entry.evidence.uncertainty / abs(entry.value)
        for entry in entries
        if entry.evidence.uncertainty is not None and entry.value and (entry.evidence.samples or 0) > 1
    ]
    share = statistics.median(shares) if shares else 0.0
    digits = ".2g" if share < 100 else ".0f"
    error = f", ± {format(share, digits)} %" if shares else ""
    days = sorted({entry.evidence.began for entry in entries})
    when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    runs = tuple(sorted({entry.evidence.run_id for entry in entries}))
    return SampleLine(f"{board}: {count} sample{'s' * (counts != [1])} a cell{error}, {when}", runs)
