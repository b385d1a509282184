"""Repair of headers, rows and boards' spellings.

Every change is reported. Where two readings fit, nothing is changed: the cells of such rows stay unattributed.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from attrs import evolve

from lab.guide.model import CellKind, Repair, value_of
from lab.guide.read.raw_table import RawRow, RawTable, column_groups, columns, join_header

_Step = tuple[RawTable, list[str]]
_SIZE = re.compile(r"\d+[kKmM]?")  # a frame's, a buffer's
_COUNTER = re.compile(r"(?:s(?:l|r|erial)?\.? ?)?(?:no|nr|num|number|#)\.?", re.IGNORECASE)
_SUBSTITUTION = re.compile(r"\|([^|\s](?:[^|]*[^|\s])?)\|")


def mend_tables(tables: Iterable[RawTable]) -> tuple[list[RawTable], list[Repair]]:
    """Repair the tables whose headers do not fit, and list the repairs.

    A header is changed only where one reading fits; each board gets one spelling.
    """
    mended: list[RawTable] = []
    repairs: list[Repair] = []
    for raw in tables:
        table = raw
        for step in (_running_numbers, _blank_tails, _split_header, _header_among_rows, _header_width, _sections):
            table, changes = step(table)
            repairs += [Repair(table.line, f"table {table.title or 'without a title'!r} {what}") for what in changes]
        mended.append(table)
    spelled, spellings = _one_spelling(mended)
    return spelled, [*repairs, *spellings]


def substitute(raw: RawTable, values: Mapping[str, str]) -> RawTable:
    """Replace the known substitutions `|name|` of a table."""

    def replace(text: str) -> str:
        return _SUBSTITUTION.sub(lambda match: values.get(match[1], match[0]), text)

    return evolve(
        raw,
        title=replace(raw.title),
        chapter=tuple(map(replace, raw.chapter)),
        header=tuple(map(replace, raw.header)),
        rows=tuple(evolve(row, cells=tuple(map(replace, row.cells))) for row in raw.rows),
    )


def unpad(raw: RawTable) -> RawTable:
    """Remove the empty cells that pad short rows on the right.

    A tool that builds pages adds them. They hide that the vendor's tool moved the cells to the left. Where another row
    has an empty board left of a full one, the table itself marks missing data, and its empty cells stay.
    """
    headings = columns(raw.header)
    groups = column_groups(headings)
    full = [row for row in raw.rows if len(row.cells) == len(headings)]
    filled = [[any(row.cells[i].strip() for i in group) for group in groups] for row in full]
    if len(groups) < 2 or any(is_filled != sorted(is_filled, reverse=True) for is_filled in filled):
        return raw
    always = [group for group in groups if not any(row.cells[i].strip() for row in full for i in group)]
    if always:
        return raw
    return evolve(raw, rows=tuple(_short(row, groups) if row in full else row for row in raw.rows))


def _short(row: RawRow, groups: Sequence[Sequence[int]]) -> RawRow:
    empty = list(itertools.takewhile(lambda group: not any(row.cells[i].strip() for i in group), reversed(groups)))
    return evolve(row, cells=row.cells[: empty[-1][0]]) if empty and len(empty) < len(groups) else row


def _running_numbers(raw: RawTable) -> _Step:
    """Leave out a first column that only counts the rows."""
    if not raw.header or not _COUNTER.fullmatch(raw.header[0]) or len(raw.header) < 3:
        return raw, []
    if any(row.cells[0].rstrip(".") != str(number) for number, row in enumerate(raw.rows, 1)):
        return raw, []
    rows = tuple(evolve(row, cells=row.cells[1:]) for row in raw.rows)
    return evolve(raw, header=raw.header[1:], rows=rows), []


def _blank_tails(raw: RawTable) -> _Step:
    """Cut empty cells beyond the header, as of rows that end in a comma."""
    width = len(raw.header)
    if not width:
        return raw, []
    rows = tuple(
        row if any(map(str.strip, row.cells[width:])) else evolve(row, cells=row.cells[:width]) for row in raw.rows
    )
    changed = sum(new != old for new, old in zip(rows, raw.rows, strict=True))
    return evolve(raw, rows=rows), [f"has {changed} rows with empty cells beyond its header"] * bool(changed)


def _split_header(raw: RawTable) -> _Step:
    """Split header cells where a comma is missing.

    Such a cell names two boards, or holds a quote where two cells met.
    """
    if not raw.rows or {len(row.cells) for row in raw.rows} == {len(raw.header)}:
        return raw, []
    header: tuple[str, ...] = ()
    for cell in raw.header:
        parts = (part.strip() for part in re.split(r'\s*"+\s*(?=[a-z]+\d\S*: )', cell))
        header += tuple(filter(None, parts)) or (cell,)
    if header == raw.header or {len(row.cells) for row in raw.rows} != {len(header)}:
        return raw, []
    return evolve(raw, header=header), ["has a header in which a comma is missing"]


def _header_among_rows(raw: RawTable) -> _Step:
    """Take the first rows for header lines if they stand above numbers.

    Where a header names bare boards, the row of texts below it is its second line.
    """
    lines = list(itertools.takewhile(lambda row: not any(map(_is_number, row.cells[1:])), raw.rows))
    rows = raw.rows[len(lines) :]
    if raw.header:
        headings = [column for column in columns(raw.header) if column.text and not column.is_key]
        is_cut = bool(headings) and all(column.board and not column.metric for column in headings)
        if not (is_cut and len(lines) == 1 and rows and any(map(_is_text, lines[0].cells[1:]))):
            return raw, []
        lines = [RawRow(raw.line, raw.header), *lines]
    elif not lines or len(raw.rows) < 2:
        return raw, []
    elif not rows or not all(any(map(_is_number, row.cells[1:])) for row in rows):
        if not any(column.board for column in columns(lines[0].cells)):
            return raw, []
        lines, rows = lines[:1], raw.rows[1:]
    header = join_header([row.cells for row in lines])
    change = "has a second header line as its first row" if raw.header else "has its header as its first row"
    return evolve(raw, header=header, rows=rows), [change]


def _header_width(raw: RawTable) -> _Step:
    """Fix a header if one cell alone can be surplus or missing."""
    widths = {len(row.cells) for row in raw.rows}
    if len(widths) != 1 or not raw.header or len(raw.rows) < 2:
        return raw, []
    (width,) = widths
    header = raw.header
    first = columns(("", header[0]))[1]
    if width == len(header) + 1 and first.board is not None:
        keys = [row.cells[0].strip() for row in raw.rows]
        are_sizes = all(_SIZE.fullmatch(key) for key in keys) and len(set(keys)) == len(keys)
        if are_sizes or not any(_is_number(key) for key in keys):
            return evolve(raw, header=("", *header)), ["has no header above its first column"]
    while len(header) > width and not header[-1].strip():
        header = header[:-1]
    if len(header) == width and header != raw.header:
        return evolve(raw, header=header), ["has empty cells at the end of its header"]
    return raw, []


def _sections(raw: RawTable) -> _Step:
    """Make the text of a cell across the table a key of the rows below it, where rows repeat their names."""
    rows, section = [], ""
    for row in raw.rows:
        if len(row.cells) > 1 and len(set(row.cells)) == 1 and _is_text(row.cells[0]):
            section = row.cells[0]
        else:
            rows.append(evolve(row, cells=(*row.cells[:1], section, *row.cells[1:])))
    if not section or not raw.header:
        return raw, []
    names = [row.cells[0] for row in rows]
    if len(set(names)) == len(names):  # the section only groups them
        return evolve(raw, rows=tuple(evolve(row, cells=row.cells[:1] + row.cells[2:]) for row in rows)), []
    return evolve(raw, header=(*raw.header[:1], "Section", *raw.header[1:]), rows=tuple(rows)), []


def _is_text(text: str) -> bool:
    return value_of(text).kind is CellKind.TEXT


def _is_number(text: str) -> bool:
    return value_of(text).kind in {CellKind.VALUE, CellKind.RANGE, CellKind.APPROXIMATE}


def _one_spelling(tables: Sequence[RawTable]) -> tuple[list[RawTable], list[Repair]]:
    """Give each board its commonest spelling.

    "AM62XX-SK-FS" and "am62xx_sk-fs" are the same board.
    """
    spellings: dict[str, Counter[str]] = {}
    for board in _boards(tables):
        spellings.setdefault(board.lower().replace("_", "-"), Counter())[board] += 1
    best_of: dict[str, str] = {}
    for counts in spellings.values():
        best = max(counts, key=lambda board: (counts[board], board == board.lower()))
        best_of |= {other: best for other in counts if other != best}
    if not best_of:
        return list(tables), []
    lines = {other: next(raw.line for raw in tables if other in _boards([raw])) for other in best_of}
    repairs = [
        Repair(lines[o], f"board {o!r} is {board!r} in other tables; taken for one") for o, board in best_of.items()
    ]

    def respell(cell: str) -> str:
        board = columns(("", cell))[1].board or ""
        return best_of[board] + cell.strip()[len(board) :] if board in best_of else cell

    return [evolve(raw, header=tuple(map(respell, raw.header))) for raw in tables], repairs


def _boards(tables: Iterable[RawTable]) -> Iterator[str]:
    for raw in tables:
        yield from (column.board for column in columns(raw.header) if column.board)
