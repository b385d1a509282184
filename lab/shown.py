"""What is shown to a person: text in which nothing can act on a terminal, whoever wrote it.

Boards, stores, files and other programs hand us strings. Everything of them that reaches a terminal, a log or a page
goes through `plain`; the commands print with `echo`, `echo_text` and `echo_json`, and with nothing else.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import unicodedata
from collections.abc import Sequence
from typing import Any, Final, TextIO

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
    return "".join(_written_out(c) if _is_harmful(c) and c != "\t" else c for c in text)


def plain_text(text: str) -> str:
    """Several lines, each of them `plain`; a carriage return before a line feed stays."""
    *lines, last = text.split("\n")
    return "\n".join([*map(_plain_but_its_end, lines), plain(last)])


def plain_bytes(data: bytes) -> str:
    """Bytes of a console as one `plain` line."""
    return plain(data.decode("utf-8", "backslashreplace"))


def table(header: Sequence[str], rows: Sequence[Sequence[str]], align: str) -> list[str]:
    """Lines of a plain table; `align` has one of "<" and ">" per column."""
    cells = [[plain(cell) for cell in row] for row in (header, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join(f"{cell:{side}{width}}" for cell, side, width in zip(row, align, widths, strict=True)).rstrip()
        for row in cells
    ]


def json_text(value: Any, *, indent: int = 2) -> str:
    """A value as JSON that is as harmless, and says the same."""
    text = json.dumps(value, indent=indent, ensure_ascii=False).replace("\x7f", "\\u007f")
    return _BEYOND_ASCII_CONTROLS.sub(lambda found: _escaped(found[0]) if _is_harmful(found[0]) else found[0], text)


def echo(*lines: str, err: bool = False) -> None:
    """Print lines; without any an empty one."""
    _write("\n".join(map(plain, lines)) + "\n", err=err)


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
    """Let this process log to a stream, from INFO on."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(PlainFormatter("%(levelname)s %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])


def _write(text: str, *, err: bool = False) -> None:
    stream = sys.stderr if err else sys.stdout
    stream.write(text)
    stream.flush()


def _plain_but_its_end(line: str) -> str:
    return plain(line[:-1]) + "\r" if line.endswith("\r") else plain(line)


def _is_harmful(character: str) -> bool:
    return unicodedata.category(character) in _HARMFUL


def _written_out(character: str) -> str:
    code = ord(character)
    if code < 0x20:
        return "^" + chr(code + 0x40)
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def _escaped(character: str) -> str:
    """As in a string of JSON, where a character beyond U+FFFF is a pair of surrogates (RFC 8259, section 7)."""
    return json.dumps(character)[1:-1]
