"""Tables whose header and rows do not fit, and boards that are spelled in two ways: mended where only one reading fits.

What is changed is said. Where two readings fit, nothing is: the cells of such rows stay unattributed.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from attrs import evolve

from lab.guide import headers
from lab.guide.assemble import RawRow, RawTable
from lab.guide.model import CellKind, Repair
from lab.guide.text import value_of

_SUBSTITUTION = re.compile(r"\|([^|\s](?:[^|]*[^|\s])?)\|")


def mended(tables: Iterable[RawTable]) -> tuple[list[RawTable], list[Repair]]:
    """The tables with headers that fit their rows where that is certain, one spelling a board, and what was changed."""
    found: list[RawTable] = []
    repairs: list[Repair] = []
    for raw in tables:
        table = raw
        for step in (_blank_tails, _split_header, _header_among_rows, _header_width):
            table, said = step(table)
            repairs += [Repair(table.line, f"table {table.title or 'without a title'!r} {what}") for what in said]
        found.append(table)
    spelled, said_boards = _one_spelling(found)
    return spelled, [*repairs, *said_boards]


def substituted(raw: RawTable, words: Mapping[str, str]) -> RawTable:
    """The table with its substitutions `|name|` replaced by what is known of them."""

    def replace(text: str) -> str:
        return _SUBSTITUTION.sub(lambda match: words.get(match[1], match[0]), text)

    return evolve(
        raw,
        title=replace(raw.title),
        chapter=tuple(map(replace, raw.chapter)),
        header=tuple(map(replace, raw.header)),
        rows=tuple(evolve(row, cells=tuple(map(replace, row.cells))) for row in raw.rows),
    )


def unpadded(raw: RawTable) -> RawTable:
    """The table with its short rows short again: whatever builds a page fills them with empty cells on the right.

    That hides that the vendor's tool moved their cells to the left. Where another row has an empty board left of a full
    one, the table says where it has no data, so its empty cells are believed.
    """
    columns = headers.columns(raw.header)
    groups = [
        [i for i, _ in group]
        for _, group in itertools.groupby(
            ((i, c) for i, c in enumerate(columns) if not c.is_key), lambda p: p[1].board
        )
    ]
    full = [row for row in raw.rows if len(row.cells) == len(columns)]
    if len(groups) < 2 or any(_has_hole(row, groups) for row in full):
        return raw
    always = [group for group in groups if not any(row.cells[i].strip() for row in full for i in group)]
    if always:
        return raw
    return evolve(raw, rows=tuple(_short(row, groups) if row in full else row for row in raw.rows))


def _has_hole(row: RawRow, groups: Sequence[Sequence[int]]) -> bool:
    filled = [any(row.cells[i].strip() for i in group) for group in groups]
    return not all(filled[: max((i for i, is_full in enumerate(filled) if is_full), default=-1) + 1])


def _short(row: RawRow, groups: Sequence[Sequence[int]]) -> RawRow:
    empty = list(itertools.takewhile(lambda group: not any(row.cells[i].strip() for i in group), reversed(groups)))
    return evolve(row, cells=row.cells[: empty[-1][0]]) if empty and len(empty) < len(groups) else row


_Step = tuple[RawTable, list[str]]


def _blank_tails(raw: RawTable) -> _Step:
    """Rows that end in a comma have an empty cell more than their header; nothing stands in it."""
    width = len(raw.header)
    if not width:
        return raw, []
    rows = tuple(_cut(row, width) for row in raw.rows)
    changed = sum(new != old for new, old in zip(rows, raw.rows, strict=True))
    return evolve(raw, rows=rows), [f"has {changed} rows with empty cells beyond its header"] * bool(changed)


def _cut(row: RawRow, width: int) -> RawRow:
    return evolve(row, cells=row.cells[:width]) if not any(map(str.strip, row.cells[width:])) else row


def _split_header(raw: RawTable) -> _Step:
    """A comma is missing in the header: one cell names two boards, or holds a quote where two cells met."""
    if not raw.rows or {len(row.cells) for row in raw.rows} == {len(raw.header)}:
        return raw, []
    header = tuple(part for cell in raw.header for part in _parts(cell))
    if header == raw.header or {len(row.cells) for row in raw.rows} != {len(header)}:
        return raw, []
    return evolve(raw, header=header), ["has a header in which a comma is missing"]


def _parts(cell: str) -> list[str]:
    return [part.strip() for part in re.split(r'\s*"+\s*(?=[a-z]+\d\S*: )', cell) if part.strip()] or [cell]


def _header_among_rows(raw: RawTable) -> _Step:
    """No header, and a first row that names boards, is that header."""
    if raw.header or len(raw.rows) < 2:
        return raw, []
    first = raw.rows[0].cells
    if any(_is_number(cell) for cell in first[1:]) or not any(column.board for column in headers.columns(first)):
        return raw, []
    return evolve(raw, header=first, rows=raw.rows[1:]), ["has its header as its first row"]


def _header_width(raw: RawTable) -> _Step:
    """A header that is one cell too long or too short for every row, where only one cell can be the one."""
    widths = {len(row.cells) for row in raw.rows}
    if len(widths) != 1 or not raw.header or len(raw.rows) < 2:
        return raw, []
    (width,) = widths
    header = raw.header
    first = headers.columns(("", header[0]))[1]
    if width == len(header) + 1 and first.board is not None and not any(_is_number(row.cells[0]) for row in raw.rows):
        return evolve(raw, header=("", *header)), ["has no header above its first column"]
    if width == len(header) + 1 and first.board is not None and _is_whole(row.cells[0] for row in raw.rows):
        return evolve(raw, header=("", *header)), ["has no header above its first column"]
    while len(header) > width and not header[-1].strip():
        header = header[:-1]
    if len(header) == width and header != raw.header:
        return evolve(raw, header=header), ["has empty cells at the end of its header"]
    return raw, []


def _is_whole(texts: Iterable[str]) -> bool:
    """Whether these are keys such as frame sizes: whole numbers, each once."""
    found = list(texts)
    return all(re.fullmatch(r"\d+[kKmM]?", text.strip()) for text in found) and len(set(found)) == len(found)


def _is_number(text: str) -> bool:
    return value_of(text).kind in {CellKind.VALUE, CellKind.RANGE, CellKind.APPROXIMATE}


def _one_spelling(tables: Sequence[RawTable]) -> tuple[list[RawTable], list[Repair]]:
    """A board spelled "AM62XX-SK-FS" here and "am62xx_sk-fs" there is one board; the commoner spelling stays."""
    spellings: dict[str, Counter[str]] = {}
    for board in _boards(tables):
        spellings.setdefault(board.lower().replace("_", "-"), Counter())[board] += 1
    wanted: dict[str, str] = {}
    for counts in spellings.values():
        best = max(counts, key=lambda board: (counts[board], board == board.lower()))
        wanted |= {other: best for other in counts if other != best}
    if not wanted:
        return list(tables), []
    lines = {other: next(raw.line for raw in tables if other in _boards([raw])) for other in wanted}
    repairs = [
        Repair(lines[o], f"board {o!r} is {board!r} in other tables; taken for one") for o, board in wanted.items()
    ]
    return [evolve(raw, header=tuple(map(_respelled(wanted), raw.header))) for raw in tables], repairs


def _boards(tables: Iterable[RawTable]) -> Iterator[str]:
    for raw in tables:
        yield from (column.board for column in headers.columns(raw.header) if column.board)


def _respelled(wanted: Mapping[str, str]) -> Callable[[str], str]:
    def respell(cell: str) -> str:
        board = headers.columns(("", cell))[1].board or ""
        return wanted[board] + cell.strip()[len(board) :] if board in wanted else cell

    return respell
