"""Text for a person, in which nothing can act on a terminal, whoever wrote it.

Boards, stores, files and other programs hand us strings. Everything of them that reaches a terminal, a log or a page
goes through `plain`; the commands print with `echo`, `echo_text` and `echo_json`, and with nothing else.

All tables look alike: two blanks between columns, no lines, and never wider than the screen. A table that is too wide
first folds its last column, where that is text; then puts it under each row; then folds the other text columns, the
widest first. Numbers are never folded, only their headings. Nothing is cut off.
"""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import os
import re
import sys
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TextIO

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup


import shutil
from collections.abc import Iterable

from attrs import frozen

_RED: Final = "31"  # SGR, ECMA-48
_YELLOW: Final = "33"

# Control characters (C0, DEL, C1), format characters (bidi overrides and isolates, zero widths), lone surrogates,
# private and unassigned ones, line and paragraph separators.
_HARMFUL: Final = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
_BEYOND_ASCII_CONTROLS: Final = re.compile(r"[^\x00-\x7e]")


def plain(text: str) -> str:
    """One line in which nothing can move a cursor, change a colour, begin a line or turn the reading direction.

    What is no plain text is written out (`^[`, `\\x9b`, `\\u202e`); a tab stays.
    """
    if text.isprintable():  # nearly every line; much faster
        return text
    return "".join(_write_out(c) if _is_harmful(c) and c != "\t" else c for c in text)


def plain_text(text: str) -> str:
    """Several lines, each of them `plain`; a carriage return before a line feed stays."""
    *lines, last = text.split("\n")
    return "\n".join([*map(_plain_but_its_end, lines), plain(last)])


def plain_bytes(data: bytes) -> str:
    """Bytes of a console as one `plain` line."""
    return plain(data.decode("utf-8", "backslashreplace"))


class Marked(str):
    """A line of which parts are bad news, in colour on a terminal.

    It is a `str` everywhere else: adding keeps the marks, formatting does not.

    Attributes:
        marks: start, end and colour (SGR) of each part.
    """

    marks: tuple[tuple[int, int, str], ...]

    def __new__(cls, text: str, marks: Sequence[tuple[int, int, str]]) -> Self:
        """A text with its marks."""
        line = super().__new__(cls, text)
        line.marks = tuple(marks)
        return line

    def __add__(self, other: str) -> Marked:
        """With something behind it."""
        return Marked(str(self) + str(other), [*self.marks, *_shift(other, len(self))])

    def __radd__(self, other: str) -> Marked:
        """With something before it."""
        return Marked(str(other) + str(self), [*_shift(other, 0), *_shift(self, len(other))])


def bad(text: str) -> Marked:
    """A text that somebody has to look at."""
    shown = plain(text)
    return Marked(shown, [(0, len(shown), _RED)])


def doubtful(text: str) -> Marked:
    """A text that may be wrong."""
    shown = plain(text)
    return Marked(shown, [(0, len(shown), _YELLOW)])


def table(
    header: Sequence[str], rows: Sequence[Sequence[str]], align: str, *, indent: int = 0, room: int | None = None
) -> list[str]:
    """Lines of a table that fit the screen, as `laid_out` has it; cells that are `bad` or `doubtful` stay so.

    Args:
        align: one of "<" (text) and ">" (numbers) per column.
        indent: blanks before each line.
        room: columns of the screen; None: the terminal's.
    """
    all_rows = [header, *rows]
    laid_out_lines = laid_out(
        [[plain(cell).replace("\t", " ") for cell in row] for row in all_rows],
        align,
        (room or screen_columns()) - indent,
    )
    used_characters: dict[tuple[int, int], int] = {}  # how much of a cell stands in the lines before
    return [_line(pieces, all_rows, indent, used_characters) for pieces in laid_out_lines]


def _line(
    pieces: Sequence[CellPiece],
    all_rows: Sequence[Sequence[str]],
    indent: int,
    used_characters: dict[tuple[int, int], int],
) -> str:
    line, width, marks = " " * indent, indent, []
    for piece in pieces:
        line += " " * (indent + piece.at - width)
        where, cell = (piece.row, piece.column), all_rows[piece.row][piece.column]
        if isinstance(cell, Marked):
            first = cell.find(piece.text, used_characters.get(where, 0))
            end = first + len(piece.text)
            used_characters[where] = end
            inside = [(max(start, first), min(last, end), colour) for start, last, colour in cell.marks]
            part = Marked(cell[first:end], [(s - first, e - first, colour) for s, e, colour in inside if s < e])
            marks += _shift(part, len(line))
        line += piece.text
        width = indent + piece.at + cells(piece.text)
    shown = line.rstrip()
    return Marked(shown, marks) if marks else shown


def json_text(value: Any, *, indent: int = 2) -> str:
    """A value as JSON that is as harmless, and says the same."""
    text = json.dumps(value, indent=indent, ensure_ascii=False).replace("\x7f", "\\u007f")
    # As in a string of JSON, where a character beyond U+FFFF is a pair of surrogates (RFC 8259, section 7).
    return _BEYOND_ASCII_CONTROLS.sub(
        lambda found: json.dumps(found[0])[1:-1] if _is_harmful(found[0]) else found[0], text
    )


def drop_output() -> None:
    """Discard Python's unwritten output.

    It would fail once more at the process's end.
    """
    with contextlib.suppress(OSError, ValueError), Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


@contextlib.contextmanager
def until_closed() -> Iterator[None]:
    """End a view well when the reader of its output has enough, as `head` has."""
    try:
        yield
    except BrokenPipeError:
        drop_output()


def echo(*lines: str, err: bool = False) -> None:
    """Print lines; without any an empty one."""
    stream = sys.stderr if err else sys.stdout
    shown = [_paint(line) for line in lines] if colours(stream) else map(plain, lines)
    _write("\n".join(shown) + "\n", err=err)


def tell(error: Exception) -> None:
    """An error, as each command ends with it."""
    first, *more = str(error).split("\n")
    echo(bad("error: ") + first, *(f"  {line}" for line in more), err=True)  # further lines look like nothing else


def colours(stream: TextIO, environ: Mapping[str, str] = os.environ) -> bool:
    """True if a stream shows colours: a terminal that can, and nobody asked for none (no-color.org)."""
    return stream.isatty() and not environ.get("NO_COLOR") and environ.get("TERM", "") not in {"", "dumb"}


def echo_text(text: str, *, end: str = "\n", err: bool = False) -> None:
    """Print text of several lines, such as a message."""
    _write(plain_text(text) + end, err=err)


def echo_json(value: Any, *, indent: int = 2) -> None:
    """Print a value as JSON."""
    _write(json_text(value, indent=indent) + "\n")


class PlainFormatter(logging.Formatter):
    """A log's lines, each of them `plain`."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as text."""
        return plain_text(super().format(record))


def log_to(stream: TextIO) -> None:
    """Let this process log to a stream, from INFO on; of what Alembic does with the store only warnings."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(PlainFormatter("%(levelname)s %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    logging.getLogger("alembic").setLevel(logging.WARNING)


def _write(text: str, *, err: bool = False) -> None:
    stream = sys.stderr if err else sys.stdout
    stream.write(text)
    stream.flush()


def _paint(line: str) -> str:
    if not isinstance(line, Marked):
        return plain(line)
    shown, at = "", 0
    for start, end, colour in line.marks:
        shown += plain(line[at:start]) + f"\x1b[{colour}m{plain(line[start:end])}\x1b[0m"
        at = end
    return shown + plain(line[at:])


def _shift(text: str, by: int) -> list[tuple[int, int, str]]:
    return [(start + by, end + by, colour) for start, end, colour in getattr(text, "marks", ())]


def _plain_but_its_end(line: str) -> str:
    return plain(line[:-1]) + "\r" if line.endswith("\r") else plain(line)


def _is_harmful(character: str) -> bool:
    return unicodedata.category(character) in _HARMFUL


def _write_out(character: str) -> str:
    code = ord(character)
    if code < 0x20:
        return "^" + chr(code + 0x40)
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


# direction ---


_CODE: Final = re.compile(r"`([^`]+)`")
_MARKDOWN: Final = re.compile(r"([\\`*_\[\]<>#|~&$!{}])")  # a parenthesis means nothing where no bracket is before it
MOST_BYTES: Final = 65_000  # of a comment: GitHub takes 65,536
_MENTION: Final = re.compile(r"@(?=\w)")


@functools.cache  # a template is compiled once
def environment(*packages: str, escapes: bool = True) -> Environment:
    """The templates of these packages, the first one's before the others'.

    Args:
        escapes: every value is escaped for HTML; the filter `code` sets the commands of a message apart. Templates of
            Markdown use the filter `md`.
    """
    # Most commands fill no template.
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined  # noqa: PLC0415

    templates = Environment(
        loader=ChoiceLoader([PackageLoader(package) for package in packages]),
        autoescape=escapes,  # noqa: S701 - see above
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_plain,
    )
    templates.filters["md"] = markdown
    templates.filters["code"] = mark_code
    return templates


def mark_code(text: str) -> Markup:
    """HTML of a message, with what stands in backticks as code."""
    from markupsafe import Markup, escape  # noqa: PLC0415 - most commands fill no template

    html = _CODE.sub(r"<code>\1</code>", str(escape(plain_text(text))))
    return Markup(html)  # noqa: S704 - it is escaped


def markdown(text: str) -> str:
    """One line of Markdown that shows the text as it is, in a table, too, and calls nobody."""
    one_line = " ".join(plain(part) for part in text.split())
    return _MENTION.sub("@<!-- -->", _MARKDOWN.sub(r"\\\1", one_line))


def cut(text: str, most: int) -> str:
    """At most so many characters of a text; an ellipsis says that there were more."""
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


def _plain(value: object) -> object:
    """A template's value: texts of boards, guides and stores turn no reading direction in a page either."""
    return plain_text(value) if type(value) is str else value


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
        row: of the table, 0 is the header.
        column: of the table.
    """

    text: str
    at: int
    row: int
    column: int


def screen_columns() -> int:
    """A table's greatest width: $COLUMNS, else the terminal's, else 80."""
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
        rows: the header first; cells are one line each.
        align: "<" (text) or ">" (a number) per column.
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
        return _with_last_below(rows, align, room, _fit_widths(natural[:-1], least[:-1], room))
    widths = _fit_widths(natural, least, room)
    return [line for number, row in enumerate(rows) for line in _lines(number, row, widths, align)]


def folded(text: str, width: int) -> list[str]:
    """A text in lines of at most so many columns, broken at blanks where there are any; at least one line.

    Below the width of the widest character it is taken for that.
    """
    width = max(width, _WIDEST_CHARACTER)
    if cells(text) <= width:
        return [text]
    lines, current = [], ""
    for word in text.split(" "):
        joined = f"{current} {word}" if current else word
        if cells(joined) <= width:
            current = joined
            continue
        if current:
            lines.append(current)
        current = word
        while cells(current) > width:
            # as much of a word as fits; at least one character
            count = 1
            while count < len(current) and cells(current[: count + 1]) <= width:
                count += 1
            head = current[:count]
            lines.append(head)
            current = current[len(head) :]
    return [*lines, current] if current or not lines else lines


def _with_last_below(rows: Sequence[Row], align: str, room: int, widths: Sequence[int]) -> list[list[CellPiece]]:
    indent = min(_DEEPEST_INDENT, widths[0] + GAP)
    last = len(align) - 1
    needed = any(row[-1] for row in rows[1:])
    lines: list[list[CellPiece]] = []
    for number, row in enumerate(rows):
        lines += _lines(number, row[:-1], widths, align)
        if row[-1] and needed:
            lines += [[CellPiece(part, indent, number, last)] for part in folded(row[-1], room - indent)]
    return lines


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


def _fit_widths(natural: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """Widths that fit.

    The widest columns give first, down to what they need, and beyond it where nothing else helps.
    """
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
