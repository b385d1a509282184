"""A table as it stands in a file, and the columns that its header declares."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterable, Iterator, Sequence

from attrs import frozen

from lab.guide.model import UNIT, Column, value_of

MOST_COLUMNS = 64
# A board as the vendor's test platform files spell it: am62xx_sk-fs, am654x-evm, j721e-idk-gw, am43xx-gpevm.
_BOARD = re.compile(r"[a-z]+\d[a-z0-9]*(?:[-_][a-z0-9.]+)+", re.IGNORECASE)
# One whose words are those of the vendor's boards; other names have a digit and a hyphen, too (aes256-cbc).
_BOARD_WORD = re.compile(r"(?:gp)?evm|e?sk|idk|eaik|lp|gw|fs|se|hs|gp|sim", re.IGNORECASE)
_TOKEN = re.compile(r"[^\s:,()\[\]|]+")
_BRACKETS = re.compile(r"\(([^()]*)\)|\[([^\[\]]*)\]|,\s*([^,]*)$")
_UNIT = re.compile(rf"(?:in\s+)?({UNIT})", re.IGNORECASE)
_IN_UNIT = re.compile(r"\bin (seconds|milliseconds|bytes|ms|us|mW)\b", re.IGNORECASE)
# The header of a second column that tells rows apart, e.g. a block size; a datagram's is measured.
_SECOND_KEY = re.compile(
    r"(?<!datagram )\bsize|voltage|format|resolution|algorithm|direction|\bmode\b|^units?$|^section$", re.IGNORECASE
)


@frozen
class RawRow:
    """A row of the file: its cells and its first line."""

    line: int
    cells: tuple[str, ...]


@frozen
class RawTable:
    """A table as it stands in the file.

    Attributes:
        chapter: the headings above it, the outermost first.
        title: as printed; empty: none.
        title_source: where the title stood, e.g. "inline".
        line: its first line in the file.
        header: the cells of the header; empty: none.
    """

    chapter: tuple[str, ...]
    title: str
    title_source: str
    line: int
    header: tuple[str, ...]
    rows: tuple[RawRow, ...]


@frozen
class SpanningCell:
    """A cell that may span several columns and rows."""

    text: str
    columns: int = 1
    rows: int = 1


def spread(lines: Iterable[Sequence[SpanningCell]]) -> Iterator[tuple[str, ...]]:
    """Texts of each line, with a cell's text in every column and row that it spans.

    A number across columns stands once: which of them it belongs to is unknown, and its row stays short.
    """
    from_above: dict[int, SpanningCell] = {}
    for cells in lines:
        texts: list[str] = []
        waiting = iter(cells)
        while True:
            above = from_above.pop(len(texts), None)
            cell = above or next(waiting, None)
            if cell is None:
                break
            room = MOST_COLUMNS - len(texts)
            for _ in range(1 if value_of(cell.text).number is not None else max(min(cell.columns, room), 1)):
                if cell.rows > 1 and room > 0:
                    from_above[len(texts)] = SpanningCell(cell.text, rows=cell.rows - 1)
                texts.append(cell.text)
        yield tuple(texts)


def join_header(lines: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Join the lines of a header: "board: quantity" for a board above its quantities.

    An empty cell above a text continues the cell to its left.
    """
    upper = [list(line) for line in lines[:-1]]
    for line in upper:
        for i, text in enumerate(lines[-1]):
            if 0 < i < len(line) and text and not line[i]:
                line[i] = line[i - 1]
    header = []
    for texts in itertools.zip_longest(*upper, *lines[-1:], fillvalue=""):
        parts = sorted(dict.fromkeys(filter(None, texts)), key=lambda text: not is_board(text))
        header.append(": ".join([*parts[:1], *filter(None, [" ".join(parts[1:])])]))
    return tuple(header)


def columns(header: Sequence[str], known_boards: Collection[str] = ()) -> tuple[Column, ...]:
    """The columns that a header line declares.

    The first column is a key, and so are the columns without a board left of the first board. A table that names no
    board at all has its first column as key, and what looks like a second one (a size, a nominal voltage).

    Args:
        known_boards: boards that other tables of the guide name; a header cell that is one of them alone is that board.
    """
    split = [_split(text.strip(), known_boards) for text in header]
    first_board = next((i for i, (board, _) in enumerate(split) if board and i > 0), None)
    result = []
    for index, (text, (board, metric)) in enumerate(zip(header, split, strict=True)):
        if first_board is not None:
            is_key = index < first_board
        else:
            is_key = index == 0 or (index == 1 < len(header) - 1 and _SECOND_KEY.search(metric) is not None)
        result.append(Column(text.strip(), None if index == 0 else board, metric, unit(metric), is_key))
    return tuple(result)


def is_board(text: str) -> bool:
    """Return whether a text is spelled like a vendor's board, e.g. "AM62XX-SK"."""
    return _BOARD.fullmatch(text) is not None


def unit(metric: str) -> str | None:
    """The unit that a header's text names, as printed; None without one."""
    for group in reversed(list(_BRACKETS.finditer(metric))):
        if match := _UNIT.fullmatch(next(filter(None, group.groups()), "").strip()):
            return match[1]
    if match := _IN_UNIT.search(metric):
        return match[1]
    return "%" if "%" in metric else None


def _split(text: str, known_boards: Collection[str]) -> tuple[str | None, str]:
    """The board (None: no board) and the metric of a header's cell.

    "BOARD: METRIC" names both if there is a blank behind the colon. In any other place, BOARD has to be known or
    spelled like a board ("write:8k" is a metric).
    """
    board, colon, metric = text.partition(": ")
    board = board.strip()
    if colon and board and not re.search(r"[\s|]", board) and metric.strip():
        return board, metric.strip()
    for match in _TOKEN.finditer(text):
        begins = match.start() == 0 and text[match.end() : match.end() + 1] in {"", ":"}
        if match[0] in known_boards or (is_board(match[0]) and (begins or _has_board_word(match[0]))):
            rest = f"{text[: match.start()]} {text[match.end() :]}"
            return match[0], " ".join(re.sub(r"\(\s*\)|\[\s*\]", "", rest).split()).strip(" :–—-")
    return None, text


def _has_board_word(name: str) -> bool:
    return any(map(_BOARD_WORD.fullmatch, re.split("[-_]", name)))


def column_groups(columns: Sequence[Column]) -> list[list[int]]:
    """Positions of the columns of each board, in order."""
    indexed = [(i, c) for i, c in enumerate(columns) if not c.is_key]
    return [[i for i, _ in group] for _, group in itertools.groupby(indexed, key=lambda pair: pair[1].board)]
