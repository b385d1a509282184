"""How the tables of all commands are laid out: two blanks between columns, no lines, and never wider than the screen.

A table that is too wide first folds its last column, where that is text; then puts it under each row; then folds the
other text columns, the widest first. Numbers are never folded, only their headings. Nothing is cut off.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from typing import Final

from attrs import frozen

GAP: Final = 2
FALLBACK_COLUMNS: Final = 80  # where nothing is a terminal: mails, logs and pipes
_LEAST_LAST: Final = 24  # a narrower last column is easier to read under its row
_LEAST_TEXT: Final = 8
_USUAL_WORD: Final = 12
_DEEPEST_INDENT: Final = 8
_WIDEST_CHARACTER: Final = 2

Row = Sequence[str]


@frozen
class CellPiece:
    """A part of a laid-out line: the text of one cell, and in which column of the screen it begins.

    Attributes:
        row: of the table, 0 is the header. column: of the table.
    """

    text: str
    at: int
    row: int
    column: int


def screen_columns() -> int:
    """How wide a table may be: $COLUMNS, else the terminal's width, else 80."""
    return shutil.get_terminal_size((FALLBACK_COLUMNS, 24)).columns


def cells(text: str) -> int:
    """How many columns of a screen a text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # noqa: PLC0415 - only few texts need it, and a terminal on a port starts often

    return cell_len(text)


def laid_out(rows: Sequence[Row], align: str, room: int) -> list[list[CellPiece]]:
    """The lines of a table, each as its pieces.

    Args:
        rows: the header first; cells are one line each. align: "<" (text) or ">" (a number) per column.
        room: columns of the screen.
    """
    natural = [max(cells(row[number]) for row in rows) for number in range(len(align))]
    if _width(natural) <= room:
        return [line for number, row in enumerate(rows) for line in _lines(number, row, natural, align)]
    least = [_least(rows, number, side) for number, side in enumerate(align)]
    if align[-1] == "<" and len(align) > 1:
        rest = _width(natural[:-1]) + GAP
        if room - rest >= _LEAST_LAST:
            widths = [*natural[:-1], room - rest]
            return [line for number, row in enumerate(rows) for line in _lines(number, row, widths, align)]
        return _with_last_below(rows, align, room, _fitted(natural[:-1], least[:-1], room))
    widths = _fitted(natural, least, room)
    return [line for number, row in enumerate(rows) for line in _lines(number, row, widths, align)]


def folded(text: str, width: int) -> list[str]:
    """A text in lines of at most so many columns, broken at blanks where there are any; at least one line.

    Below the width of the widest character it is taken for that.
    """
    width = max(width, _WIDEST_CHARACTER)
    if cells(text) <= width:
        return [text]
    lines, current = [], ""
    for given in text.split(" "):
        word = given
        joined = f"{current} {word}" if current else word
        if cells(joined) <= width:
            current = joined
            continue
        if current:
            lines.append(current)
        while cells(word) > width:
            head = _head(word, width)
            lines.append(head)
            word = word[len(head) :]
        current = word
    return [*lines, current] if current or not lines else lines


def _with_last_below(rows: Sequence[Row], align: str, room: int, widths: Sequence[int]) -> list[list[CellPiece]]:
    indent = min(_DEEPEST_INDENT, widths[0] + GAP)
    last = len(align) - 1
    needed = any(row[-1] for row in rows[1:])
    found: list[list[CellPiece]] = []
    for number, row in enumerate(rows):
        found += _lines(number, row[:-1], widths, align)
        if row[-1] and needed:
            found += [[CellPiece(part, indent, number, last)] for part in folded(row[-1], room - indent)]
    return found


def _lines(number: int, row: Row, widths: Sequence[int], align: str) -> Iterable[list[CellPiece]]:
    """A row: as many lines as its tallest cell has."""
    stacks = [folded(cell, width) for cell, width in zip(row, widths, strict=True)]
    starts = [sum(widths[:column]) + GAP * column for column in range(len(widths))]
    for height in range(max(map(len, stacks))):
        pieces = []
        for column, stack in enumerate(stacks):
            text = stack[height] if height < len(stack) else ""
            if text:
                before = widths[column] - cells(text) if align[column] == ">" else 0
                pieces.append(CellPiece(text, starts[column] + before, number, column))
        yield pieces


def _fitted(natural: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """Widths that fit: the widest columns give first, down to what they need, and beyond it where nothing else helps."""
    widths = [min(width, room) for width in natural]
    for floors in (least, [min(floor, _LEAST_TEXT) for floor in least], [_WIDEST_CHARACTER] * len(widths)):
        while _width(widths) > room:
            wide = [number for number, width in enumerate(widths) if width > floors[number]]
            if not wide:
                break
            widths[max(wide, key=lambda number: widths[number])] -= 1
    return widths


def _least(rows: Sequence[Row], column: int, side: str) -> int:
    """How narrow a column may become without harm: a number stays whole, and words of usual length, too."""
    words = max(cells(word) for word in rows[0][column].split(" "))
    if side == ">":
        return max(words, *(cells(row[column]) for row in rows[1:])) if len(rows) > 1 else words
    words = max(cells(word) for row in rows for word in row[column].split(" "))
    return min(words, _USUAL_WORD)


def _width(widths: Sequence[int]) -> int:
    return sum(widths) + GAP * (len(widths) - 1)


def _head(word: str, width: int) -> str:
    """As much of a word as fits; at least one character."""
    end = 1
    while end < len(word) and cells(word[: end + 1]) <= width:
        end += 1
    return word[:end]
