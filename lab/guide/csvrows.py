"""The rows of a csv-table, line by line: one broken row costs that row, not the table."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence

from attrs import frozen

from lab.guide.assemble import RawRow

_LONGEST_ROW = 20  # lines that one quoted cell may run over


@frozen
class Dialect:
    """How docutils' csv-table options describe the text."""

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


def parse(lines: Sequence[tuple[int, str]], dialect: Dialect) -> tuple[list[RawRow], _Places, _Places]:
    """The rows of numbered lines, (line, reason) for each line that could not be read, and for each that was mended.

    A quoted cell may contain line ends. A line that is no row by itself and does not become one with the lines after it
    is cut where a quote, a delimiter and a quote meet, if it begins with a quote: such a row has a quote in the middle of a
    cell, or lacks the last one. Any other is given up, and reading goes on with the next line.
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
        at += taken
    return rows, lost, mended


def _cut(text: str, dialect: Dialect) -> list[str] | None:
    """The cells of a line whose quotes do not pair, by the places where two cells meet; None where it has none."""
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
    """How many lines the first row takes, its cells (None: broken) and why it is broken."""
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
    """The number in an option such as :header-rows:; 0 where there is none."""
    return int(text) if text is not None and text.strip().isdecimal() and len(text.strip()) < 4 else 0
