"""Parse a csv-table block into title, header and rows.

docutils gives up a whole table for one flaw in its options: rows without a blank line before them, a title that runs
on, a header of several lines. Here the form of each line decides, and each guess is noted as a repair.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence

from attrs import define, field, frozen

from lab.guide.read.markup import unescape
from lab.guide.read.raw_table import RawRow, join_header

_OPTION = re.compile(r"\s*:([\w-]+):(?:\s+(.*))?$")
_ROW = re.compile(r'\s*"[^"]*"\s*,')

_SPOILT = re.compile(r'"\s*[\d.]+\s*$')  # a name and its number without the comma between them
_CUT_NUMBER = re.compile(r"\s*[\d.]+\s*\n\s*[\d.]+\s*")  # over the end of a line
_LONGEST_ROW = 20  # lines that one quoted cell may run over
_Line = tuple[int, str]


@frozen
class CsvBlock:
    """Content of the directive.

    Attributes:
        lost: (line, reason) of each line that is not a row.
        repairs: (line, guess).
        source: option and value, where the rows are in another file.
    """

    title: str
    header: tuple[str, ...]
    rows: tuple[RawRow, ...]
    lost: tuple[tuple[int, str], ...]
    repairs: tuple[tuple[int, str], ...]
    source: tuple[str, str] | None = None


@define
class _Block:
    title: list[_Line] = field(factory=list)
    options: dict[str, list[_Line]] = field(factory=dict)
    rows: list[_Line] = field(factory=list)
    repairs: list[tuple[int, str]] = field(factory=list)


def parse(lines: Sequence[_Line], directive_line: int) -> CsvBlock:
    """Read the numbered lines of a block, without its common indent.

    Args:
        directive_line: the line of the title.
    """
    block = _split(lines, directive_line)
    options = {name: "\n".join(text for _, text in option).strip() for name, option in block.options.items()}
    dialect = Dialect.of_options(options)
    source = next(((name, options[name]) for name in ("file", "url") if name in options), None)
    body, lost, repairs = parse_rows(block.rows, dialect)
    rows = [RawRow(row.line, tuple(unescape(cell) for cell in row.cells)) for row in body]
    title = " ".join(text.strip() for _, text in block.title)
    header: tuple[str, ...] = ()
    if "header" in options:
        header_rows, lost_header, guessed = parse_rows(block.options["header"], dialect)
        lost_header = [
            (line, f"the header of this table: {reason}; its cells cannot be attributed")
            for line, reason in lost_header
        ]
        if not lost_header:
            header = tuple(unescape(cell) for cell in _join_lines([row.cells for row in header_rows]))
        lost, repairs = lost_header + lost, guessed + repairs
    elif (above := count(options.get("header-rows"))) > 0 and rows:
        if above > len(rows):
            repairs.append((directive_line, f"says that {above} rows are its header and has {len(rows)}"))
            above = 1
        header, rows = join_header([row.cells for row in rows[:above]]), rows[above:]
    elif _ROW.match(title):
        parsed, _, _ = parse_rows([(0, title)], dialect)
        header, title = tuple(unescape(cell) for row in parsed[:1] for cell in row.cells), ""
        repairs.append((directive_line, "has its header where its title belongs"))
    return CsvBlock(" ".join(title.split()), header, tuple(rows), tuple(lost), (*block.repairs, *repairs), source)


def _split(lines: Sequence[_Line], directive_line: int) -> _Block:
    """Sort the lines into title, options and rows."""
    block = _Block()
    at = 0
    if lines and lines[0][0] == directive_line:
        block.title.append(lines[0])
        at = 1
        while at < len(lines) and lines[at][1].strip() and not _OPTION.match(lines[at][1]):
            if _ROW.match(lines[at][1]):
                block.repairs.append((lines[at][0], "has no blank line before its rows"))
                break
            block.title.append(lines[at])
            at += 1
    current: list[_Line] | None = None
    while at < len(lines):
        number, text = lines[at]
        if match := _OPTION.match(text):
            current = block.options.setdefault(match[1].lower(), [])
            current.append((number, match[2] or ""))
        elif current is None or not text.strip() or not _is_open(current):
            break
        else:
            current.append((number, text.strip()))
        at += 1
    if at < len(lines) and current and lines[at][1].strip():
        block.repairs.append((lines[at][0], "has no blank line between its options and its rows"))
    rest = list(lines[at:])
    late = next((i for i, (_, text) in enumerate(rest) if text.strip()), None)
    if late is not None and not block.options:
        rest = _late_options(rest[late:], block)
    block.rows = rest
    return block


def _late_options(rest: list[_Line], block: _Block) -> list[_Line]:
    """Take the options that follow a blank line.

    docutils takes them for rows. The result are the rows after them.
    """
    at = 0
    while at < len(rest) and (match := _OPTION.match(rest[at][1])):
        block.options[match[1].lower()] = [(rest[at][0], match[2] or "")]
        at += 1
    if at:
        block.repairs.append((rest[0][0], "has a blank line before its options"))
    return rest[at:]


def _is_open(lines: Sequence[_Line]) -> bool:
    """Return whether a quoted cell or list of cells is still open."""
    text = "\n".join(line for _, line in lines).rstrip()
    return text.count('"') % 2 == 1 or text.endswith(",") or not text


def _join_lines(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """Yield the cells of a header that spans several lines.

    A line that goes on ends in a comma, which leaves an empty cell.
    """
    for number, cells in enumerate(rows):
        is_cut = number < len(rows) - 1 and cells and not cells[-1].strip()
        yield from cells[:-1] if is_cut else cells


@frozen
class Dialect:
    """Dialect of the text, from docutils' csv-table options."""

    delimiter: str = ","
    quote: str = '"'
    escape: str | None = None
    skip_blank: bool = True

    @classmethod
    def of_options(cls, options: Mapping[str, str]) -> Dialect:
        """From the options `delim`, `quote`, `escape` and `keepspace`."""
        named = {"tab": "\t", "space": " "}
        delimiter = options.get("delim", ",").strip() or ","
        delimiter = named.get(delimiter, delimiter[:1])
        quote = options.get("quote", '"').strip()[:1] or '"'
        escape = options.get("escape", "").strip()[:1] or None
        if len({delimiter, quote, escape}) < 3:  # Python's csv refuses one character for two purposes
            return cls()
        return cls(delimiter, quote, escape, skip_blank="keepspace" not in options and delimiter not in " \t")


_Places = list[tuple[int, str]]


def parse_rows(lines: Sequence[tuple[int, str]], dialect: Dialect) -> tuple[list[RawRow], _Places, _Places]:
    """Parse numbered lines into rows, lost lines and mended lines.

    Lost and mended lines are pairs (line, reason). A quoted cell may contain line ends. A line that is no row by
    itself and does not become one with the lines after it is cut where a quote, a delimiter and a quote meet, if it
    begins with a quote: such a row has a quote in the middle of a cell, or lacks the last one. Any other is given up,
    and reading goes on with the next line.
    """
    rows: list[RawRow] = []
    lost: _Places = []
    mended: _Places = []
    at = 0
    while at < len(lines):
        number, text = lines[at]
        if not text.strip():
            at += 1
            continue
        taken, cells, reason = _one_row([line for _, line in lines[at : at + _LONGEST_ROW]], dialect)
        cut = _cut(text, dialect) if cells is None or taken > 1 else None
        if cut is not None and (cells is None or any('","' in cell for cell in cells)):
            mended.append((number, f"has a row whose quotes do not pair: {text.strip()[:60]}"))
            rows.append(RawRow(number, tuple(cut)))
            taken = 1
        elif cells is None:
            lost.append((number, f"not a row of comma-separated values ({reason}): {text.strip()[:60]}"))
        else:
            rows.append(RawRow(number, tuple(cells)))
            if any(_SPOILT.search(cell) or _CUT_NUMBER.fullmatch(cell) for cell in cells):
                mended.append(
                    (number, f"has a row with a cell that holds no number as it stands: {text.strip()[:60]}")
                )
        at += taken
    return rows, lost, mended


def _cut(text: str, dialect: Dialect) -> list[str] | None:
    """Split a line with unpaired quotes where two cells meet.

    None: there is no such place.
    """
    quote, stripped = dialect.quote, text.strip().rstrip(dialect.delimiter)
    if len(stripped) < 2 or not stripped.startswith(quote):
        return None
    if not stripped.endswith(quote):
        if stripped.count(quote) % 2 == 0:
            return None
        stripped += quote  # the last one was forgotten
    between = re.compile(rf"{re.escape(quote)}\s*{re.escape(dialect.delimiter)}\s*{re.escape(quote)}")
    cells = between.split(stripped[1:-1])
    return [cell.replace(quote * 2, quote) for cell in cells] if len(cells) > 1 else None


def _one_row(lines: Sequence[str], dialect: Dialect) -> tuple[int, list[str] | None, str]:
    """Parse the first row: number of lines, cells, reason.

    The cells are None for a broken row.
    """
    for taken in range(1, len(lines) + 1):
        reader = csv.reader(
            [line.rstrip() + "\n" for line in lines[:taken]],
            delimiter=dialect.delimiter,
            quotechar=dialect.quote,
            escapechar=dialect.escape,
            skipinitialspace=dialect.skip_blank,
            strict=True,
        )
        try:
            return taken, next(reader), ""
        except csv.Error as error:
            reason = str(error)
            if reason != "unexpected end of data":
                break
        except StopIteration:
            break
    return 1, None, "no end of its quoted cell" if reason == "unexpected end of data" else reason


def count(text: str | None) -> int:
    """Number in an option such as :header-rows:; 0 without one."""
    return int(text) if text is not None and text.strip().isdecimal() and len(text.strip()) < 4 else 0
