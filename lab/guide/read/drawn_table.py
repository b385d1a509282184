"""Tables drawn with + - = |.

Sphinx's text builder gives each column an equal share of the line and cuts what is longer. A line of a cell that is
shorter than its column ends a word, unless it ends in a hyphen; a line that fills it may end anywhere, so there the
words that the file uses elsewhere decide.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from attrs import frozen

from lab.guide.read.raw_table import RawRow, SpanningCell, join_header, spread

BORDER = re.compile(r"[^\S\n]*(?=[+|][^\n]*(?:--|==))[+|][-=+|:]*[+|]\s*$")
_CONTENT = re.compile(r"\s*[|+].*[|+]\s*$")
_PART_BORDER = re.compile(r"[|+]\s*[-=]{3,}[-=+]*\s*[|+]")  # below some cells of a line only
_WORD = re.compile(r"[A-Za-z0-9_%/.:-]+")
_CUT_TAIL = re.compile(r"[A-Za-z0-9_%/.:\\-]+$")
_CUT_HEAD = re.compile(r"^[A-Za-z0-9_%/.:\\-]+")
_NUMBER_TAIL = re.compile(r"(?:^|[\s(])-?\d[\d.,]*$")
_LONGEST_WORD = 200


@frozen
class Grid:
    """Header and rows of a drawn table.

    Without a line of equal signs the header is empty.
    """

    header: tuple[str, ...]
    rows: tuple[RawRow, ...]


@frozen
class _Part:
    """A line of a cell, and the width that it had."""

    text: str
    width: int


def is_line(text: str) -> bool:
    """Return whether a line belongs to a drawn table."""
    return BORDER.match(text) is not None or _CONTENT.match(text) is not None


def count_words(text: str) -> Counter[str]:
    """The words that stand outside drawn tables, which no column has cut."""
    counts: Counter[str] = Counter()
    for line in text.split("\n"):
        if not line.lstrip().startswith(("|", "+")):
            counts.update(word.strip(".:") for word in _WORD.findall(line))
    return counts


def parse(lines: Sequence[tuple[int, str]], whole_words: Collection[str]) -> Grid:
    """Read the numbered lines of one table, from border to border.

    Args:
        whole_words: words of the file that are whole.
    """
    if grid := _parse_spans(lines, whole_words):
        return grid
    header: tuple[str, ...] = ()
    rows: list[RawRow] = []
    drawn: list[list[_Part]] = []
    start = 0
    for number, line in lines:
        if BORDER.match(line):
            if drawn:
                rows.append(RawRow(start, tuple(_join(cell, whole_words) for cell in drawn)))
            if "=" in line and rows and not header:
                header, rows = rows[-1].cells, []
            drawn = []
            continue
        # Sphinx puts a blank on both sides of a text between bars
        parts = [
            _Part(text[1:].rstrip() if text[:1] == " " else text.rstrip(), len(text) - 2)
            for text in line.strip()[1:-1].split("|")
        ]
        if drawn and len(parts) == len(drawn):
            for cell, part in zip(drawn, parts, strict=True):
                cell.append(part)
        elif not drawn:
            start, drawn = number, [[part] for part in parts]
    return Grid(header, tuple(rows))


def _parse_spans(lines: Sequence[tuple[int, str]], whole_words: Collection[str]) -> Grid | None:
    """Read a table in which cells span columns or rows; None for any other, and for one that is drawn wrongly."""
    contents = [text for _, text in lines if not BORDER.match(text)]
    if len({text.count("|") for text in contents}) < 2 and not any(map(_PART_BORDER.search, contents)):
        return None
    from docutils.parsers.rst import tableparser  # noqa: PLC0415 - docutils takes a while to import
    from docutils.statemachine import StringList  # noqa: PLC0415

    drawn = [
        re.sub(r"\|(?==)|(?<==)\|", "+", text) if "==" in text and BORDER.match(text) else text.rstrip()
        for _, text in lines
    ]
    indent = min(len(text) - len(text.lstrip()) for text in drawn)
    try:
        widths, head, body = tableparser.GridTableParser().parse(
            StringList([text[indent:].rstrip() for text in drawn])
        )
    except (tableparser.TableMarkupError, AssertionError, IndexError):  # docutils asserts that cells do not overlap
        return None

    rows = [[(column, cell) for column, cell in enumerate(row) if cell] for row in head + body]

    def read_cell(column: int, down: int, across: int, texts: Sequence[str]) -> SpanningCell:
        width = sum(widths[column : column + across + 1]) + across - 2
        return SpanningCell(_join([_Part(text, width) for text in texts], whole_words), across + 1, down + 1)

    texts = spread([read_cell(column, *cell[:2], cell[3]) for column, cell in row] for row in rows)
    raw_rows = [
        RawRow(lines[min((cell[2] for _, cell in row), default=0)][0], cells)
        for row, cells in zip(rows, texts, strict=True)
    ]
    header = join_header([row.cells for row in raw_rows[: len(head)]]) if head else ()
    return Grid(header, tuple(raw_rows[len(head) :]))


def _join(parts: Iterable[_Part], whole_words: Collection[str]) -> str:
    pieces: list[str] = []
    tail = ""  # the end of the text, as far as it can matter
    last: _Part | None = None
    for part in parts:
        if part.text.strip():
            between = _separator(tail, last, part, whole_words) if last else ""
            pieces += [between, part.text.strip()]
            tail = (tail + between + part.text.strip())[-_LONGEST_WORD:]
            last = part
    return " ".join("".join(pieces).split())


def _separator(text: str, last: _Part, following: _Part, whole_words: Collection[str]) -> str:
    """A blank, or nothing where a word was cut."""
    right = following.text.lstrip()
    if last.text.endswith("-") and not last.text.endswith(" -"):
        return ""
    if len(last.text) < last.width or _fits_column(text, right, following):
        return " "
    if _NUMBER_TAIL.search(text):
        return "" if re.match(r"[\d.,)%]", right) else " "
    if right.startswith("("):
        return " "
    left_word, right_word = _CUT_TAIL.search(text), _CUT_HEAD.match(right)
    if left_word is None or right_word is None:
        return ""
    is_whole = _is_known(left_word[0], whole_words) and not _is_known(left_word[0] + right_word[0], whole_words)
    return " " if is_whole else ""


def _fits_column(text: str, right: str, following: _Part) -> bool:
    """Return whether the joined halves fit the column.

    Such a word moves to the next line and is never cut.
    """
    rest = right.split(" ", 1)[0]
    is_cut_again = rest == right and len(following.text) >= following.width
    return not is_cut_again and len(text.rsplit(" ", 1)[-1]) + len(rest) <= following.width


def _is_known(word: str, whole_words: Collection[str]) -> bool:
    bare = word.strip(".:-")
    return bare in whole_words or bare.lower() in whole_words
