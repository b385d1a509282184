"""Moments: where the patterns of a board type match on the stamped stream, and when those bytes arrived.

**Where.** Patterns match within a line, the unfinished last one included, and each at most once per line. A pattern's
match ends at the smallest `end` for which `pattern.search(line[:end])` matches. That is a property of the bytes, not of
how they were read, so a recording gives the same moments as the live console did. Of a line longer than 4096 bytes
only a window is searched: the last 1024 bytes of what came before, and what follows, up to 4096 in all.

**When.** The stamp of the read, less the time that the bytes behind the marker took on the line at 10 bits a byte. A
line that is faster than its speed says, as a pty without pacing, is noticed by the previous read: what arrived well
before it would have come with it. Moments never go back in time; one that would is as much less sure as it is moved.

**How sure.** Errors are one-sided: the bytes behind the marker cannot have taken less time, and a read cannot return
before its bytes arrived, so a stamp is never early. It is late by at most `uncertainty_ns`, the sum of

- the adapter's latency, and four characters where a FIFO waits for more (`LineTiming.delivery_ns`);
- one byte time, for bytes behind the marker that came after a pause;
- scheduling: the usual allowance of the reading process (`LineTiming.scheduling_ns`), and the evidence of worse that was
  recorded in the second before (`Lateness`), of which no more counts than these bytes can have waited since the previous
  read: the time since then, less what the line needed to bring them;
- a read of more than an adapter hands on at once was held up, and may have waited for all of that time;
- backlog: if the read brought more than the line could since the previous read, by so much the way was late.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from lab.boards import MomentPattern
from lab.console.lines import LineMatcher
from lab.console.model import LATE_WINDOW_NS, Chunk, Event, Gap, Lateness, LineTiming, Moment
from lab.errors import ConfigurationError

_NOT_TEXT = re.compile(r"[\x00-\x1f\x7f\ufffd]+")


class MomentFinder:
    """Finds moments in a stream of events, as they come or from a recording."""

    def __init__(self, patterns: Sequence[MomentPattern], timing: LineTiming) -> None:
        """Look for these patterns on a line with this timing.

        Raises:
            ConfigurationError: a pattern is no regular expression for bytes.
        """
        self._names = [pattern.name for pattern in patterns]
        self._timing = timing
        self._matcher = LineMatcher([_compile(pattern) for pattern in patterns])
        self._previous: Chunk | None = None
        self._late: list[Lateness] = []
        self._last_ns = 0  # of the latest moment

    def feed(self, event: Event) -> list[Moment]:
        """The moments that end in this event, in the order of their position."""
        match event:
            case Chunk():
                return self._feed_chunk(event)
            case Lateness():
                self._late = [late for late in self._late if event.t_ns - late.t_ns <= LATE_WINDOW_NS]
                self._late.append(event)
            case Gap():
                self._forget()
        return []

    def _feed_chunk(self, chunk: Chunk) -> list[Moment]:
        if self._previous is not None and chunk.position != self._previous.end:
            self._forget()
        moments = []
        for match in self._matcher.feed(chunk.data):
            text = _NOT_TEXT.sub("", match.line.decode("utf-8", errors="replace"))
            arrived_ns = arrival_ns(chunk, match.end, self._previous, self._timing)
            t_ns = max(arrived_ns, self._last_ns)
            uncertainty_ns = self._uncertainty_ns(chunk) + t_ns - arrived_ns
            moments.append(Moment(self._names[match.pattern], t_ns, uncertainty_ns, chunk.position + match.end, text))
            self._last_ns = t_ns
        self._previous = chunk
        return moments

    def _uncertainty_ns(self, chunk: Chunk) -> int:
        timing = self._timing
        late_ns = max(
            (late.lateness_ns for late in self._late if 0 <= chunk.t_ns - late.t_ns <= LATE_WINDOW_NS), default=0
        )
        backlog_ns = 0
        if self._previous is not None:
            since_ns = chunk.t_ns - self._previous.t_ns
            spare_ns = since_ns + timing.hold_ns - timing.bytes_ns(len(chunk.data))
            waited_ns = min(since_ns, max(0, spare_ns))
            late_ns = waited_ns if len(chunk.data) > timing.handover_bytes else min(late_ns, waited_ns)
            backlog_ns = max(0, -spare_ns)
        return timing.delivery_ns + timing.bytes_ns(1) + timing.scheduling_ns + late_ns + backlog_ns

    def _forget(self) -> None:
        """Bytes are missing: the line is cut, and the time since the last read says nothing."""
        self._matcher.cut()
        self._previous = None


def arrival_ns(chunk: Chunk, end: int, previous: Chunk | None, timing: LineTiming) -> int:
    """When the byte that ends at offset `end` of the chunk arrived, at the latest."""
    t_ns = chunk.t_ns - timing.bytes_ns(len(chunk.data) - end)
    return t_ns if previous is None else max(t_ns, previous.t_ns - timing.hold_ns)


def _compile(pattern: MomentPattern) -> re.Pattern[bytes]:
    try:
        return re.compile(pattern.pattern.encode())
    except re.error as error:
        raise ConfigurationError(
            f"moment {pattern.name!r}: not a regular expression for a console's bytes ({error}): {pattern.pattern!r}"
        ) from error


def find_moments(events: Iterable[Event], patterns: Sequence[MomentPattern], timing: LineTiming) -> list[Moment]:
    """All moments of a recording."""
    finder = MomentFinder(patterns, timing)
    return [moment for event in events for moment in finder.feed(event)]
