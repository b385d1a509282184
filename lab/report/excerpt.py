"""The part of a console log that a page has room for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from attrs import frozen

from lab.results.formatting import LogLine

LIMIT: Final = 12_000  # characters a log; 60 cycles stay under a megabyte
_LONGEST_LINE: Final = 400


@frozen
class LogGap:
    """Lines that were left out."""

    lines: int


def excerpt(lines: Sequence[LogLine], limit: int = LIMIT) -> list[LogLine | LogGap]:
    """At most about `limit` characters of a log: the lines nearest to its moments and to its two ends."""
    anchors = [i for i, line in enumerate(lines) if line.moments or i in {0, len(lines) - 1}]
    nearest = sorted(range(len(lines)), key=lambda i: min(abs(i - anchor) for anchor in anchors))
    kept: set[int] = set()
    for i in nearest:
        limit -= min(len(lines[i].text), _LONGEST_LINE)
        if limit < 0 and kept:
            break
        kept.add(i)
    found: list[LogLine | LogGap] = []
    after = 0
    for i in [*sorted(kept), len(lines)]:
        if i > after:
            found.append(LogGap(i - after))
        if i < len(lines):
            found.append(_cut(lines[i]))
        after = i + 1
    return found


def _cut(line: LogLine) -> LogLine:
    if len(line.text) <= _LONGEST_LINE:
        return line
    return LogLine(line.start, f"{line.text[:_LONGEST_LINE]} … ({len(line.text)} characters)", line.moments)
