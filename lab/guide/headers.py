"""The header of a table -> its columns."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from lab.guide.model import Column

# A board as the vendor's test platform files spell it: am62xx_sk-fs, am654x-evm, j721e-idk-gw, am43xx-gpevm.
_BOARD = re.compile(r"[a-z]+\d[a-z0-9]*(?:[-_][a-z0-9.]+)+", re.IGNORECASE)
_PARENTHESES = re.compile(r"\(([^()]*)\)")
_UNIT = re.compile(
    r"(?:in\s+)?(?:%|[kmg]?(?:bits?|bytes?|b)(?:\s*/\s*s(?:ec)?)?|[kmg]bps|mb\\s|[munkmg]?(?:s|sec|w|v|a|hz)|seconds?"
    r"|microsec|nanosec|millisec|fps|kpps|\w+\s*/\s*(?:s|sec)|bytes in hex)",
    re.IGNORECASE,
)
_IN_UNIT = re.compile(r"\bin (seconds|milliseconds|bytes|ms|us|mW)\b")
_SECOND_KEY = re.compile(r"size|voltage|format|resolution|algorithm|direction|\bmode\b", re.IGNORECASE)


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
    """Whether a text is spelled like a board of the vendor's test platforms, e.g. "AM62XX-SK"."""
    return _BOARD.fullmatch(text) is not None


def unit(metric: str) -> str | None:
    """The unit that a header's text names, as printed; None without one."""
    for group in reversed(list(_PARENTHESES.finditer(metric))):
        candidate = group[1].strip()
        if _UNIT.fullmatch(candidate):
            return candidate.removeprefix("in ")
    if match := _IN_UNIT.search(metric):
        return match[1]
    return "%" if "%" in metric else None


def row_unit(row: str) -> tuple[str, str | None]:
    """A row's name without the unit in its last parentheses, and that unit: "bw_pipe (MB/s)" -> "bw_pipe", "MB/s"."""
    name, parenthesis, rest = row.strip().rpartition("(")
    if not parenthesis or not rest.endswith(")") or ")" in rest[:-1]:
        return row.strip(), None
    return name.rstrip(), rest[:-1].strip() or None


def _split(text: str, known_boards: Collection[str]) -> tuple[str | None, str]:
    board, colon, metric = text.partition(": ")
    board = board.strip()
    if colon and board and not re.search(r"[\s|]", board) and metric.strip():
        return board, metric.strip()
    board, colon, metric = text.partition(":")
    if colon and metric.strip() and (is_board(board) or board in known_boards):
        return board, metric.strip()
    if text in known_boards or is_board(text):
        return text, ""
    return None, text
