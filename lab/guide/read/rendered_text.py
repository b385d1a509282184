"""A guide as rendered text -> raw tables, modules and conditions.

The text is what a browser gives when a page is copied: no heading marks, one cell a line with blank lines between,
tables announced by `Table 2.1 LMBench Benchmarks`. An empty cell leaves nothing, so a row with one is short, and its
cells stay unattributed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from attrs import frozen

from lab.guide.model import CellKind, Condition, Unread, unmark, value_of
from lab.guide.read import raw_table
from lab.guide.read.document import Document, module
from lab.guide.read.raw_table import MOST_COLUMNS, RawRow, RawTable

_ANNOUNCED = re.compile(r"Table\s+\d+(?:[.-]\d+)*[.:]?\s+(\S.*)")
_NUMBERED_HEADING = re.compile(r"(\d+(?:\.\d+)+)\.?\s+(\S.*)")
_BULLET = re.compile(r"\s*[•·*-]\s+(\S.*)")
_KEY_NUMBER = re.compile(r"\d+[kKmMgG]?")
_RESULTS = frozenset({CellKind.VALUE, CellKind.RANGE, CellKind.APPROXIMATE, CellKind.NOT_AVAILABLE})


@frozen
class _Item:
    """A line, or a paragraph of several lines."""

    line: int
    text: str


def announces_tables(text: str) -> bool:
    """Return whether a text looks like a rendered guide."""
    return any(_ANNOUNCED.fullmatch(line.strip()) for line in text.split("\n"))


def read(text: str) -> Document:
    """Parse a guide.

    A table ends at the first text that fits none of its rows.
    """
    document = Document()
    chapter: dict[int, str] = {}
    items = list(_items(text))
    at = 0
    captured = False  # a list of conditions has begun
    while at < len(items):
        item = items[at]
        at += 1
        if match := _ANNOUNCED.fullmatch(item.text):
            until = next((i for i in range(at, len(items)) if _ANNOUNCED.fullmatch(items[i].text)), len(items))
            raw, taken = _table(match[1], item.line, tuple(chapter.values()), items[at:until], document)
            document.tables.append(raw)
            at += taken
        elif match := _NUMBERED_HEADING.fullmatch(item.text):
            _heading(match[1], match[2], chapter, document)
        elif item.text == "Name" and items[at : at + 1] and items[at].text == "Description":
            at += 1
            while at + 1 < len(items) and not items[at].text.startswith("Table"):
                document.modules.append(module(items[at].text, items[at + 1].text, items[at].line))
                at += 2
        elif (match := _BULLET.fullmatch(item.text)) and captured:
            document.conditions.append(Condition(match[1], tuple(chapter.values()), len(document.tables), item.line))
        else:
            captured = "captured using" in item.text
    return document


def _items(text: str) -> Iterator[_Item]:
    """Split a text into paragraphs.

    The announcement of a table is a paragraph of its own even directly below a line.
    """
    paragraph: list[str] = []
    start = 0
    for number, line in enumerate([*text.split("\n"), ""], start=1):
        stripped = line.strip()
        alone = _ANNOUNCED.fullmatch(stripped) is not None
        if paragraph and (not stripped or alone):
            yield _Item(start, unmark(" ".join(paragraph)))
            paragraph = []
        if alone:
            yield _Item(number, stripped)
        elif stripped:
            start = start if paragraph else number
            paragraph.append(stripped)


def _heading(number: str, title: str, chapter: dict[int, str], document: Document) -> None:
    depth = number.count(".")
    for deeper in [d for d in chapter if d >= depth]:
        del chapter[deeper]
    if "performance guide" in title.lower():
        document.title = title
    else:
        chapter[depth] = title


def _table(
    title: str, line: int, chapter: tuple[str, ...], items: Sequence[_Item], document: Document
) -> tuple[RawTable, int]:
    """Parse the table that the items begin with, and count its items."""
    width, keys = _header(items)
    header = tuple(item.text for item in items[:width])
    rows: list[Sequence[_Item]] = []
    if not width:
        document.unread.append(
            Unread(line, f"after the announcement of table {title!r} no header with rows was found")
        )
    elif _is_result(items[width]):
        rows = _rows_with_numeric_keys(items[width:], width)
        if not rows:
            document.unread.append(Unread(items[width].line, f"the rows of table {title!r} cannot be told apart"))
    else:
        rows = _rows(items[width:], width, keys)
    raw_rows = tuple(RawRow(row[0].line, tuple(item.text for item in row)) for row in rows)
    return RawTable(chapter, title, "inline", line, header, raw_rows), width + sum(len(row) for row in rows)


def _header(items: Sequence[_Item]) -> tuple[int, int]:
    """Count the items of the header and its keys; (0, 0): none."""
    texts = [item.text for item in items[:MOST_COLUMNS]]
    # a board above its metric, or alone; the first row's name may be spelled like a board
    headings = raw_table.columns(texts)
    first_board = next((column for column in headings if column.board), None)
    boards = [bool(c.board and first_board and bool(c.metric) == bool(first_board.metric)) for c in headings]
    results = [_is_result(item) for item in items[:MOST_COLUMNS]]
    first_result = next((i for i, is_result in enumerate(results) if is_result), 0)
    if True in boards[: first_result or None]:
        first = boards.index(True)
        width = next((i for i in range(first, len(boards)) if not boards[i]), len(boards))
        return (width, first) if width < len(items) else (0, 0)
    candidates = [width for width in (first_result, first_result - 1, first_result - 2) if width > 1]
    best = max(candidates, key=lambda width: _full_rows(items[width:], width), default=0)
    if not best or not _full_rows(items[best:], best):
        return 0, 0
    return best, sum(column.is_key for column in raw_table.columns(texts[:best]))


def _full_rows(items: Sequence[_Item], width: int) -> int:
    """Count the rows of that width that the items begin with.

    Their first cells are of one kind.
    """
    count = 0
    while _is_row(items[count * width : (count + 1) * width], width, 1):
        if _is_result(items[count * width]) != _is_result(items[0]):
            break
        count += 1
    return count


def _is_row(window: Sequence[_Item], width: int, keys: int) -> bool:
    return len(window) == width and all(_is_result(item) for item in window[keys:])


def _rows(items: Sequence[_Item], width: int, keys: int) -> list[Sequence[_Item]]:
    """Split items into rows that begin with a text.

    A row ends at its full width or at the next text.
    """
    rows = []
    at = 0
    while at < len(items):
        after = items[at + width : at + 2 * width]
        run = at + 1
        while run < len(items) and _is_result(items[run]):
            run += 1
        if _is_row(items[at : at + width], width, keys):
            end = max(at + width, run)
        elif _is_row(after, width, keys) and not _is_result(after[0]):
            end = at + width  # a cell of text in a row of its own width
        elif run > at + 1:
            end = run
        elif _is_row_without_cells(items[at : at + 3]):
            end = at + 1
        else:
            break
        rows.append(items[at:end])
        at = end
    return rows


def _is_row_without_cells(items: Sequence[_Item]) -> bool:
    return len(items) == 3 and len(items[0].text) < 100 and items[0].text[-1] not in ".:" and _is_result(items[2])


def _rows_with_numeric_keys(items: Sequence[_Item], width: int) -> list[Sequence[_Item]]:
    """Rows that begin with a number.

    Where each column looks alike in all rows, the width tells the rows. Otherwise a row lost a cell; then a number
    without decimals begins a row, provided that the others have decimals.
    """
    end = next((i for i, item in enumerate(items) if not _is_result(item)), len(items))
    whole = [_KEY_NUMBER.fullmatch(item.text) is not None for item in items[:end]]
    if end % width == 0 and all(len(set(whole[column::width])) == 1 for column in range(width)):
        return [items[i : i + width] for i in range(0, end, width)]
    starts = [i for i, is_whole in enumerate(whole) if is_whole]
    if not starts or starts[0] != 0 or len(starts) == end:
        return []
    return [items[i:j] for i, j in zip(starts, [*starts[1:], end], strict=True)]


def _is_result(item: _Item) -> bool:
    return value_of(item.text).kind in _RESULTS
