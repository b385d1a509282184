"""The console log behind a number: its window, line by line, harmless to a terminal and to a page."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from lab.errors import ConfigurationError
from lab.results.artifacts import ArtifactStore
from lab.results.records import CONSOLE_LOG, Attempt, MomentRecord
from lab.shown import plain_bytes


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
        found.append(LogLine(start, plain_bytes(data[start:after].rstrip(b"\r\n")), here))
        start = after
    return found
