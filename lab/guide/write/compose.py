"""Arrange a release's numbers in the tables of a guide.

Order and shape are the vendor's; every row has full width.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence

from attrs import define, field, frozen

from lab.guide import layout
from lab.guide.layout import CellPosition, natural
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
class ComposedTable:
    """A table to be written; `header` includes the key columns."""

    chapter: tuple[str, ...]
    title: str
    header: tuple[str, ...]
    rows: tuple[ComposedRow, ...]


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
        second = tuple(_second_key(entry, key) for key in place.keys[1:])
        identity = (place.row.lower(), *(text for text, tells in second if tells))
        printed = entry.origin.row if entry.origin else place.row
        self.names.setdefault(identity, (printed, *(text for text, _ in second)))
        self.rows.setdefault(identity, {})[column] = entry

    def table(self) -> ComposedTable:
        columns = sorted(self.columns, key=lambda column: self.columns[column])
        rows = [
            ComposedRow(self.names[identity], tuple(self.rows[identity].get(column) for column in columns))
            for identity in (sorted(self.rows, key=_row_order) if self.place.is_sorted else self.rows)
        ]
        header = (*self.place.keys, *(f"{board}: {column}" for board, column in columns))
        return ComposedTable(self.place.chapter, self.place.title, header, tuple(rows))


def tables(release: GuideRelease) -> list[ComposedTable]:
    """Every table of the guide, in order."""
    known = layout.load()
    drafts: dict[tuple[object, ...], _Draft] = {}
    for number, entry in enumerate(release.entries):
        place = known.place(entry.metric, entry.params) or _other_place(entry, number)
        board = entry.board if place.each else ""
        identity = (place.chapter, place.title, place.keys, board)
        draft = drafts.setdefault(identity, _Draft(place, release.boards))
        draft.add(entry, place)
    ordered = sorted(drafts.values(), key=_order)
    return [draft.table() for draft in _chapters_together(ordered)]


def _other_place(entry: GuideEntry, number: int) -> CellPosition:
    """Position of a number that the layout does not know.

    It is where the number's source printed it; without a source, a table of its metric in a chapter of its own.
    """
    if entry.origin is not None:
        o = entry.origin
        return CellPosition((_AFTER_ALL, number), o.chapter, o.title, o.keys, o.row, o.column)
    row = ", ".join(f"{name} {value}" for name, value in entry.params.items()) or "all"
    column = f"Value ({by_name(entry.metric).unit})"
    return CellPosition((_AFTER_ALL, number), (_OTHER_CHAPTER,), entry.metric, ("Parameters",), row, column)


def _second_key(entry: GuideEntry, header: str) -> tuple[str, bool]:
    """Return a second key column's text and whether it distinguishes rows."""
    name = layout.SECOND_KEYS.get(header)
    if name is not None and name in entry.params:
        return entry.params[name], True
    return entry.keys.get(header, ""), False


def _row_order(identity: tuple[str, ...]) -> tuple[bool, list[list[tuple[int, int, str]]]]:
    return identity[0] == "total", [natural(part) for part in identity]


def _order(draft: _Draft) -> tuple[int, int, int]:
    table, position = draft.place.order
    return table, position if table == _AFTER_ALL else 0, min(board for board, *_ in draft.columns.values())


def _chapters_together(drafts: Iterable[_Draft]) -> Sequence[_Draft]:
    """Put tables of one chapter, and sections of one top chapter, together."""
    found: dict[tuple[str, ...], list[_Draft]] = {}
    for draft in drafts:
        found.setdefault(draft.place.chapter, []).append(draft)
    tops: dict[str, list[_Draft]] = {}
    for chapter, members in found.items():
        tops.setdefault(chapter[0] if chapter else "", []).extend(members)
    return [draft for members in tops.values() for draft in members]


def taken(table: ComposedTable) -> list[str]:
    """How the measured numbers of a table were taken, a line for each board."""
    boards: dict[str, list[GuideEntry]] = {}
    for row in table.rows:
        for entry in row.cells:
            if entry is not None and entry.evidence.samples and not entry.is_withheld:
                boards.setdefault(entry.board, []).append(entry)
    return [f"{board}: {_taken(entries)}" for board, entries in boards.items()]


def _taken(entries: Sequence[GuideEntry]) -> str:
    counts = sorted({entry.evidence.samples or 0 for entry in entries})
    count = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    shares = [
        100 * entry.evidence.uncertainty / abs(entry.value)
        for entry in entries
        if entry.evidence.uncertainty is not None and entry.value
    ]
    error = f", ± {_percent(statistics.median(shares))} %" if shares else ""
    days = sorted({entry.evidence.began for entry in entries})
    runs = sorted({entry.evidence.run_id for entry in entries})
    when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    named = f"run {runs[0]}" if len(runs) == 1 else f"runs {', '.join(map(str, runs))}"
    return f"{count} sample{'s' * (counts != [1])} a cell{error}, {when} ({named})"


def _percent(share: float) -> str:
    return f"{share:.2g}" if share < 100 else f"{share:.0f}"


def by_top_chapter(composed: Iterable[ComposedTable]) -> Mapping[str, list[ComposedTable]]:
    """Top chapter -> its tables."""
    found: dict[str, list[ComposedTable]] = {}
    for one in composed:
        found.setdefault(one.chapter[0] if one.chapter else "Other results", []).append(one)
    return found
