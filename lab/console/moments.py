"""Moments: pattern matches on the stamped stream, and their bytes' arrival.

**Where.** Patterns match within a line, the unfinished last one included, and each at most once per line. A pattern's
match ends at the smallest `end` for which `pattern.search(line[:end])` matches. That is a property of the bytes, not
of how they were read, so a recording gives the same moments as the live console did. Of a line longer than 4096 bytes
only a window is searched: the last 1024 bytes of what came before, and what follows, up to 4096 in all.

**When.** The stamp of the read, less the time that the bytes behind the marker took on the line at 10 bits a byte. A
line that is faster than its speed says, as a pty without pacing, is noticed by the previous read: what arrived well
before it would have come with it. Moments never go back in time; one that would is as much less sure as it is moved.

**How sure.** Errors are one-sided: the bytes behind the marker cannot have taken less time, and a read cannot return
before its bytes arrived, so a stamp is never early. It is late by at most `uncertainty_ns`, the sum of

- the adapter's latency, and four characters where a FIFO waits for more (`LineTiming.delivery_ns`);
- one byte time, for bytes behind the marker that came after a pause;
- scheduling: the usual allowance of the reading process (`LineTiming.scheduling_ns`);
- how late the read was beyond that, by the evidence beside the stamps and the reads before it (`lab.console.delays`);
- backlog: if the read brought more than the line could since the previous read, by so much the way was late.

The marker of a stage is one text that is printed at once. One with a pause inside may be torn: its end was lost, and
later bytes complete its pattern. It is then late by the pause, if that is more than the read was late.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from attrs import frozen

from lab.console.delays import SETTLED_NS, DelayTracker
from lab.console.model import Chunk, Event, Gap, Lateness, LineTiming, Suspended
from lab.errors import ConfigurationError
from lab.metrics import Moment

if TYPE_CHECKING:
    from lab.boards import MomentPattern

_NOT_TEXT = re.compile(r"[\x00-\x1f\x7f\ufffd]+")


class MomentFinder:
    """Finds moments in a live or recorded stream of events."""

    def __init__(self, patterns: Sequence[MomentPattern], timing: LineTiming) -> None:
        """Start before the first event of a stream.

        Args:
            patterns: the moments to find.
            timing: of the serial line.

        Raises:
            ConfigurationError: a pattern is no regular expression for bytes.
        """
        self._names = [pattern.name for pattern in patterns]
        self._ends_stage = [bool(pattern.stage) for pattern in patterns]
        self._befores = [re.compile(pattern.before.encode()) for pattern in patterns]
        self._timing = timing
        self._matcher = LineMatcher([_compile(pattern) for pattern in patterns])
        self._delays = DelayTracker(timing)
        self._last_ns = 0  # of the latest moment
        # Position behind each pause, and by how much a marker across it may be late.
        self._pauses: list[tuple[int, int]] = []
        self._late_ns = 0  # of the read before

    def feed(self, event: Event) -> list[Moment]:
        """Return the moments that end in this event, by position."""
        match event:
            case Chunk():
                timing, previous = self._timing, self._delays.previous
                if previous is not None and event.position != previous.end:
                    self._forget()
                    previous = None
                delay = self._delays.delay(event)
                usual_ns = timing.delivery_ns + timing.bytes_ns(1) + timing.scheduling_ns
                self._note_pause(event, previous, usual_ns)
                self._late_ns = delay.late_ns
                moments = []
                for match in self._matcher.feed(event.data):
                    end = event.position + match.end
                    pauses = self._pauses if self._ends_stage[match.pattern] else ()
                    before = self._befores[match.pattern].match(match.line)
                    shown = match.line[before.end() if before else 0 :]
                    begin = end - min(match.size, len(shown))
                    torn_ns = max((ns for at, ns in pauses if begin < at < end), default=0)
                    text = _NOT_TEXT.sub("", shown.decode("utf-8", errors="replace"))
                    arrived_ns = arrival_ns(event, match.end, previous, timing)
                    t_ns = max(arrived_ns, self._last_ns)
                    uncertainty_ns = usual_ns + max(delay.late_ns, torn_ns) + delay.backlog_ns + t_ns - arrived_ns
                    moments.append(Moment(self._names[match.pattern], t_ns, uncertainty_ns, end, text))
                    self._last_ns = t_ns
                return moments
            case Lateness():
                self._delays.take_evidence(event)
            case Gap():
                self._forget()
        return []

    def _note_pause(self, chunk: Chunk, previous: Chunk | None, usual_ns: int) -> None:
        """Note a pause before this read beyond its usual delay.

        Those that no marker can span any more are dropped.
        """
        self._pauses = [pause for pause in self._pauses if chunk.position - pause[0] < WINDOW_BYTES]
        if previous is None or not chunk.data:
            return
        pause_ns = arrival_ns(chunk, 1, previous, self._timing) - previous.t_ns - self._timing.bytes_ns(1)
        if pause_ns > usual_ns:
            self._pauses.append((chunk.position, pause_ns + self._late_ns))

    def _forget(self) -> None:
        """Start anew after missing bytes: cut the line, forget the last read."""
        self._matcher.cut()
        self._delays.forget()


def arrival_ns(chunk: Chunk, end: int, previous: Chunk | None, timing: LineTiming) -> int:
    """Latest arrival time of the byte that ends at offset `end`."""
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
    """An observer of a boot or a suspend on the console."""

    def feed(self, data: bytes, t_ns: int) -> None:
        """Take bytes of one read, stamped `t_ns`."""
        ...

    def moment(self, moment: Moment) -> None:
        """Take a moment; the last fed byte is its last."""
        ...

    def suspended(self, missing_ns: int) -> None:
        """Take note that the clock of the stamps stood still, or jumped."""
        ...


def feed_watch(watch: Watch, event: Event, finders: Iterable[MomentFinder]) -> None:
    """Feed an event's bytes and moments to a watch, in stream order.

    A read is cut at its moments: a moment comes after its own bytes, and before the bytes behind it. So a watch never
    depends on how the bytes were read.

    Raises:
        BoardlabError: the watch refuses them.
    """
    moments = sorted(
        (moment for finder in finders for moment in finder.feed(event)), key=lambda moment: moment.position
    )
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


WINDOW_BYTES = 4096  # of a line that are searched at once
KEPT_BYTES = 1024  # of them when the line goes on: a marker is never missed up to this length
# Looking at what follows, a pattern may match a shorter piece of a line and not a longer one. Escaped pairs other than
# these are skipped, so that "\\$" is none; a "$" in a class is taken for one, which costs time and nothing else.
_LOOKS_AHEAD = re.compile(rb"(?:\\[^bBZ]|[^\\$])*?(?:\\[bBZ]|\$|\(\?[=!>]|[*+?}]\+)", re.DOTALL)


@frozen
class LineMatch:
    """A match.

    Attributes:
        pattern: its number.
        end: offset just after it in the piece that was fed.
        size: its bytes.
        line: the line up to the match's end.
    """

    pattern: int
    end: int
    size: int
    line: bytes


class LineMatcher:
    """Matches each pattern at most once per line, at the smallest end.

    That is the smallest `end` for which `search(line[:end])` matches.
    """

    def __init__(self, patterns: Sequence[re.Pattern[bytes]]) -> None:
        """Start with an empty line."""
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
        """Return the matches that end in these bytes, by their end."""
        at = 0
        while at < len(data):
            newline = data.find(b"\n", at)
            end_of_line = len(data) if newline < 0 else newline
            while at < end_of_line:
                count = min(end_of_line - at, WINDOW_BYTES - len(self._line))
                self._line += data[at : at + count]
                at += count
                matches = []
                for number in self._open:
                    match_end = self._try_ends(number) if self._looks_ahead[number] else self._bisect_end(number)
                    if match_end is not None:
                        matches.append((number, match_end))
                if matches:
                    matched = {number for number, _ in matches}
                    self._open = [number for number in self._open if number not in matched]
                for pattern, end in sorted(matches, key=lambda numbered: numbered[1]):
                    line = self._line[:end]
                    match = self._patterns[pattern].search(line, self._first)
                    size = end - match.start() if match else 0
                    yield LineMatch(pattern, at - (len(self._line) - end), size, line)
                self._searched = len(self._line)
                if self._searched == WINDOW_BYTES:
                    self._line = self._line[-KEPT_BYTES:]
                    self._first = 1
                    self._searched = KEPT_BYTES
            if newline >= 0:
                self.cut()
                at = newline + 1

    def _bisect_end(self, number: int) -> int | None:
        """Bisect the smallest end of a pattern without look-ahead."""
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


# While a virtual machine is paused, all of its clocks stand still, and the board's bytes wait outside. They then come
# at once, as after any stall. But by the stamps less time has passed since the read before them than the line needed. A
# line that is faster than its speed says (a USB gadget, an unpaced pty) does so all the time, and is not meant.
EARLY_NS = 5_000_000  # an adapter hands on its bytes some milliseconds later or sooner
MAX_EPISODES = 8  # of one boot; more, and the line is as fast as that


def missing_ns(events: Iterable[Event], timing: LineTiming) -> int:
    """Minimum time that is missing in the stamps; 0: none seen."""
    tracker = DelayTracker(timing)
    episodes: list[int] = []
    last_ns: int | None = None  # when bytes last came too soon
    for event in events:
        match event:
            case Chunk():
                if tracker.previous is not None and event.position != tracker.previous.end:
                    tracker.forget()
                early_ns = tracker.delay(event).early_ns
                if early_ns > EARLY_NS:
                    if last_ns is None or event.t_ns - last_ns > SETTLED_NS:
                        episodes.append(0)
                    episodes[-1] += early_ns
                    last_ns = event.t_ns
            case Lateness():
                tracker.take_evidence(event)
            case Gap():
                tracker.forget()
    return sum(episodes) if len(episodes) <= MAX_EPISODES else 0


LIMIT_BYTES = 4096  # a longer line is cut; it is garbage, or a console without newlines


@frozen
class StampedLine:
    """A line, with its end if it has one.

    Attributes:
        t_ns: when its first byte arrived, at the latest.
        position: of its first byte.
    """

    t_ns: int
    position: int
    data: bytes


def stamp_lines(events: Iterable[Event], timing: LineTiming) -> Iterator[StampedLine | Gap]:
    """Return the lines in order, an unfinished last one too.

    A gap, where bytes may be missing, cuts a line and stands between.
    """
    previous: Chunk | None = None
    line: StampedLine | None = None
    for event in events:
        if isinstance(event, Gap):
            if line is not None:
                yield line
            yield event
            previous = line = None
        elif isinstance(event, Chunk):
            at = 0
            while at < len(event.data):
                if line is None:
                    line = StampedLine(arrival_ns(event, at + 1, previous, timing), event.position + at, b"")
                room = at + LIMIT_BYTES - len(line.data)
                newline = event.data.find(b"\n", at, room)
                end = min(room, len(event.data)) if newline < 0 else newline + 1
                line = StampedLine(line.t_ns, line.position, line.data + event.data[at:end])
                at = end
                if newline >= 0 or len(line.data) == LIMIT_BYTES:
                    yield line
                    line = None
            previous = event
    if line is not None:
        yield line
