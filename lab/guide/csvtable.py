"""The block of a csv-table directive -> title, header and rows, also where docutils would give the whole table up.

docutils refuses a table for one flaw in its options: rows without a blank line before them, a title that runs on, a header
of several lines. Here each line is taken for what it looks like, and what had to be guessed is said.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from attrs import define, field, frozen

from lab.guide import csvrows
from lab.guide.assemble import RawRow
from lab.guide.text import unescaped

_OPTION = re.compile(r"\s*:([\w-]+):(?:\s+(.*))?$")
_ROW = re.compile(r'\s*"[^"]*"\s*,')

_Line = tuple[int, str]


@frozen
class CsvBlock:
    """What the directive says.

    Attributes:
        lost: (line, reason) of each line that is no row.
        repairs: (line, what had to be guessed).
        elsewhere: option and value, where the rows are in another file.
    """

    title: str
    header: tuple[str, ...]
    rows: tuple[RawRow, ...]
    lost: tuple[tuple[int, str], ...]
    repairs: tuple[tuple[int, str], ...]
    elsewhere: tuple[str, str] | None = None


@define
class _Block:
    title: list[_Line] = field(factory=list)
    options: dict[str, list[_Line]] = field(factory=dict)
    rows: list[_Line] = field(factory=list)
    repairs: list[tuple[int, str]] = field(factory=list)


def parse(lines: Sequence[_Line], directive_line: int) -> CsvBlock:
    """Read the numbered lines of a block, without its common indent.

    Args:
        directive_line: what stands there is the title.
    """
    block = _split(lines, directive_line)
    options = {name: "\n".join(text for _, text in found).strip() for name, found in block.options.items()}
    dialect = csvrows.Dialect.of_options(options)
    elsewhere = next(((name, options[name]) for name in ("file", "url") if name in options), None)
    body, lost, repairs = csvrows.parse(block.rows, dialect)
    rows = [RawRow(row.line, tuple(unescaped(cell) for cell in row.cells)) for row in body]
    title = " ".join(text.strip() for _, text in block.title)
    header: tuple[str, ...] = ()
    if "header" in options:
        header, lost_header, mended = _header(block.options["header"], dialect)
        lost, repairs = lost_header + lost, mended + repairs
    elif (above := csvrows.count(options.get("header-rows"))) > 0 and rows:
        if above > len(rows):
            repairs.append((directive_line, f"says that {above} rows are its header and has {len(rows)}"))
            above = 1
        header, rows = rows[above - 1].cells, rows[above:]
    elif _ROW.match(title):
        header, title = _cells(title, dialect), ""
        repairs.append((directive_line, "has its header where its title belongs"))
    return CsvBlock(" ".join(title.split()), header, tuple(rows), tuple(lost), (*block.repairs, *repairs), elsewhere)


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
    """The rows of a block whose options follow a blank line, which docutils takes for rows."""
    at = 0
    while at < len(rest) and (match := _OPTION.match(rest[at][1])):
        block.options[match[1].lower()] = [(rest[at][0], match[2] or "")]
        at += 1
    if at:
        block.repairs.append((rest[0][0], "has a blank line before its options"))
    return rest[at:]


def _is_open(found: Sequence[_Line]) -> bool:
    """Whether the text so far leaves a quoted cell or a list of cells open."""
    text = "\n".join(line for _, line in found).rstrip()
    return text.count('"') % 2 == 1 or text.endswith(",") or not text


def _header(found: Sequence[_Line], dialect: csvrows.Dialect) -> tuple[tuple[str, ...], list[_Line], list[_Line]]:
    parsed, lost, mended = csvrows.parse(found, dialect)
    lost = [(line, f"the header of this table: {reason}; its cells cannot be attributed") for line, reason in lost]
    cells = tuple(_joined([row.cells for row in parsed])) if not lost else ()
    return tuple(unescaped(cell) for cell in cells), lost, mended


def _joined(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """The cells of a header that runs over several lines, each ending in a comma that leaves an empty cell."""
    for number, cells in enumerate(rows):
        is_cut = number < len(rows) - 1 and cells and not cells[-1].strip()
        yield from cells[:-1] if is_cut else cells


def _cells(text: str, dialect: csvrows.Dialect) -> tuple[str, ...]:
    parsed, _, _ = csvrows.parse([(0, text)], dialect)
    return tuple(unescaped(cell) for cell in parsed[0].cells) if parsed else ()
