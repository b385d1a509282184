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
- scheduling: the usual allowance of the reading process (`LineTiming.scheduling_ns`);
- how late the read was beyond that, by the evidence beside the stamps and the reads before it (`lab.console.lateness`);
- backlog: if the read brought more than the line could since the previous read, by so much the way was late.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Protocol

from lab.boards import MomentPattern
from lab.console.lateness import DelayTracker
from lab.console.lines import LineMatcher
from lab.console.model import Chunk, Event, Gap, Lateness, LineTiming, Moment, Suspended
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
        self._delays = DelayTracker(timing)
        self._last_ns = 0  # of the latest moment

    def feed(self, event: Event) -> list[Moment]:
        """The moments that end in this event, in the order of their position."""
        match event:
            case Chunk():
                return self._feed_chunk(event)
            case Lateness():
                self._delays.take_evidence(event)
            case Gap():
                self._forget()
        return []

    def _feed_chunk(self, chunk: Chunk) -> list[Moment]:
        timing, previous = self._timing, self._delays.previous
        if previous is not None and chunk.position != previous.end:
            self._forget()
            previous = None
        delay = self._delays.delay(chunk)
        usual_ns = timing.delivery_ns + timing.bytes_ns(1) + timing.scheduling_ns
        moments = []
        for match in self._matcher.feed(chunk.data):
            text = _NOT_TEXT.sub("", match.line.decode("utf-8", errors="replace"))
            arrived_ns = arrival_ns(chunk, match.end, previous, timing)
            t_ns = max(arrived_ns, self._last_ns)
            uncertainty_ns = usual_ns + delay.late_ns + delay.backlog_ns + t_ns - arrived_ns
            moments.append(Moment(self._names[match.pattern], t_ns, uncertainty_ns, chunk.position + match.end, text))
            self._last_ns = t_ns
        return moments

    def _forget(self) -> None:
        """Bytes are missing: the line is cut, and the time since the last read says nothing."""
        self._matcher.cut()
        self._delays.forget()


def arrival_ns(chunk: Chunk, end: int, previous: Chunk | None, timing: LineTiming) -> int:
    """When the byte that ends at offset `end` of the chunk arrived, at the latest."""
    t_ns = chunk.t_ns - timing.bytes_ns(len(chunk.data) - end)
    return t_ns if previous is None else max(t_ns, previous.t_ns - timing.hold_ns)


def _compile(pattern: MomentPattern) -> re.Pattern[bytes]:
    try:
        return re.compile(pattern.regex.encode())
    except re.error as error:
        raise ConfigurationError(
            f"moment {pattern.name!r}: not a regular expression for a console's bytes ({error}): {pattern.pattern!r}"
        ) from error


class Watch(Protocol):
    """A watch of a boot or a suspend, as the console shows it."""

    def feed(self, data: bytes, t_ns: int) -> None:
        """Take bytes of one read, stamped `t_ns`."""
        ...

    def moment(self, moment: Moment) -> None:
        """Take note of a moment; the last byte that was fed is its last."""
        ...

    def suspended(self, missing_ns: int) -> None:
        """Take note that the clock of the stamps stood still, or jumped."""
        ...


def feed_watch(watch: Watch, event: Event, finders: Iterable[MomentFinder]) -> None:
    """Feed an event's bytes and moments to a watch, in the order of the stream.

    A read is cut at its moments: a moment comes after its own bytes, and before the bytes behind it. So a watch never depends on
    how the bytes were read.

    Raises:
        BoardlabError: the watch refuses them.
    """
    moments = sorted((moment for finder in finders for moment in finder.feed(event)), key=lambda found: found.position)
    if isinstance(event, Suspended):
        watch.suspended(event.missing_ns)
    if not isinstance(event, Chunk):
        return
    at = 0
    for moment in moments:
        end = moment.position - event.position
        if end > at:
            watch.feed(event.data[at:end], event.t_ns)
            at = end
        watch.moment(moment)
    if at < len(event.data):
        watch.feed(event.data[at:], event.t_ns)


def find_moments(events: Iterable[Event], patterns: Sequence[MomentPattern], timing: LineTiming) -> list[Moment]:
    """All moments of a recording."""
    finder = MomentFinder(patterns, timing)
    return [moment for event in events for moment in finder.feed(event)]
