"""The console log behind a number: its window, line by line, harmless to a terminal and to a page."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Final

from attrs import frozen

from lab.errors import ConfigurationError
from lab.results.artifacts import ArtifactStore
from lab.results.records import CONSOLE_LOG, Attempt, MomentRecord

_HARMFUL: Final = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}  # control, format (with bidi overrides), surrogates …


@frozen
class LogLine:
    """One line of a console log.

    Attributes:
        start: of its first byte in the log.
        text: without its end; what is no plain text is written out (`^[`, `\\x9b`, `\\u202e`).
        moments: those whose marker ends in this line.
    """

    start: int
    text: str
    moments: tuple[MomentRecord, ...]


def console_log(artifacts: ArtifactStore, attempt: Attempt) -> bytes:
    """An attempt's console log.

    Raises:
        ConfigurationError: the attempt has none.
        LabStableError: it is missing or damaged.
    """
    ref = attempt.artifact(CONSOLE_LOG)
    if ref is None:
        raise ConfigurationError(
            f"attempt {attempt.number} of cycle {attempt.cycle} in run {attempt.run_id} has no console log: "
            "it failed before the console was open, or its recording was not kept"
        )
    return artifacts.read(ref.sha256)


def window(attempt: Attempt, metric: str | None = None) -> tuple[int, int] | None:
    """The bytes behind an attempt's numbers, or behind those of one metric; None where no number names any."""
    wanted = [s for s in attempt.samples if metric in {None, s.metric}]
    starts = [s.log_start for s in wanted if s.log_start is not None]
    ends = [s.log_end for s in wanted if s.log_end is not None]
    return (min(starts), max(ends)) if starts and ends else None


def lines(data: bytes, start: int, end: int, moments: Sequence[MomentRecord] = ()) -> list[LogLine]:
    """The whole lines that the bytes start..end touch."""
    start = data.rfind(b"\n", 0, max(0, start)) + 1
    found = []
    while start < min(end, len(data)):
        newline = data.find(b"\n", start)
        after = len(data) if newline < 0 else newline + 1
        here = tuple(m for m in moments if start < m.position <= after)
        found.append(LogLine(start, readable(data[start:after].rstrip(b"\r\n")), here))
        start = after
    return found


def readable(data: bytes) -> str:
    """Console bytes as harmless text, see `plain`."""
    return plain(data.decode("utf-8", "backslashreplace"))


def plain(text: str) -> str:
    """Text in which nothing can move a cursor, change a colour or turn the reading direction."""
    if text.isprintable():  # nearly every line; much faster
        return text
    return "".join(_written_out(c) if unicodedata.category(c) in _HARMFUL and c != "\t" else c for c in text)


def _written_out(character: str) -> str:
    code = ord(character)
    if code < 0x20:
        return "^" + chr(code + 0x40)
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
