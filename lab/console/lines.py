"""Matching patterns within the lines of a byte stream, whatever pieces it comes in."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from attrs import frozen

WINDOW_BYTES = 4096  # of a line are searched at once
KEPT_BYTES = 1024  # of them, when the line goes on; the longest marker that is never missed
# Looking at what follows, a pattern may match a shorter piece of a line and not a longer one. Escaped pairs other than
# these are skipped, so that "\\$" is none; a "$" in a class is taken for one, which costs time and nothing else.
_LOOKS_AHEAD = re.compile(rb"(?:\\[^bBZ]|[^\\$])*?(?:\\[bBZ]|\$|\(\?[=!>]|[*+?}]\+)", re.DOTALL)


@frozen
class LineMatch:
    """A match.

    Attributes:
        pattern: its number.
        end: offset just after it in the piece that was fed.
        line: the line as far as the match.
    """

    pattern: int
    end: int
    line: bytes


class LineMatcher:
    """Matches each pattern at most once per line, at the smallest `end` for which `search(line[:end])` matches."""

    def __init__(self, patterns: Sequence[re.Pattern[bytes]]) -> None:
        """The line is empty."""
        self._patterns = patterns
        self._looks_ahead = [_LOOKS_AHEAD.match(pattern.pattern) is not None for pattern in patterns]
        self._line = b""
        self._first = 0  # where a match may begin: not at the cut edge of a long line, which is no line's beginning
        self._searched = 0  # how much of the line was searched before
        self._open: Sequence[int] = range(len(patterns))  # patterns that have not matched in this line

    def cut(self) -> None:
        """End the line."""
        self._line = b""
        self._first = 0
        self._searched = 0
        self._open = range(len(self._patterns))

    def feed(self, data: bytes) -> Iterator[LineMatch]:
        """The matches that end in this piece of the stream, line by line, in the order of their ends."""
        at = 0
        while at < len(data):
            newline = data.find(b"\n", at)
            end_of_line = len(data) if newline < 0 else newline
            while at < end_of_line:
                taken = min(end_of_line - at, WINDOW_BYTES - len(self._line))
                self._line += data[at : at + taken]
                at += taken
                for pattern, end in sorted(self._search(), key=lambda found: found[1]):
                    yield LineMatch(pattern, at - (len(self._line) - end), self._line[:end])
                self._searched = len(self._line)
                if self._searched == WINDOW_BYTES:
                    self._line = self._line[-KEPT_BYTES:]
                    self._first = 1
                    self._searched = KEPT_BYTES
            if newline >= 0:
                self.cut()
                at = newline + 1

    def _search(self) -> list[tuple[int, int]]:
        """Which open patterns match now, and where the match ends."""
        found = []
        for number in self._open:
            end = self._try_ends(number) if self._looks_ahead[number] else self._bisect_end(number)
            if end is not None:
                found.append((number, end))
        if found:
            matched = {number for number, _ in found}
            self._open = [number for number in self._open if number not in matched]
        return found

    def _bisect_end(self, number: int) -> int | None:
        """The smallest end for a pattern that goes on matching however the line goes on: search, then bisect."""
        search = self._patterns[number].search
        match = search(self._line, self._first)
        if match is None:
            return None
        low, high = self._searched, max(match.end(), self._searched + 1)  # low does not match, high does
        while high - low > 1:
            middle = (low + high) // 2
            if search(self._line, self._first, middle) is None:
                low = middle
            else:
                high = middle
        return high

    def _try_ends(self, number: int) -> int | None:
        """The smallest end for any pattern: try them all."""
        search = self._patterns[number].search
        for end in range(self._searched + 1, len(self._line) + 1):
            if search(self._line, self._first, end) is not None:
                return end
        return None
