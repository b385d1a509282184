"""The lines of a recording, each with the time of its first byte."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from attrs import frozen

from lab.console.model import Chunk, Event, Gap, LineTiming
from lab.console.moments import arrival_ns

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


def stamped_lines(events: Iterable[Event], timing: LineTiming) -> Iterator[StampedLine | Gap]:
    """The lines in order, an unfinished last one too; gaps, where bytes may be missing, cut lines and stand between."""
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
