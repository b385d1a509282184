"""What a console said: its text, when each line of it began, and the moments of a boot that were found in it."""

from __future__ import annotations

import json
from collections.abc import Iterable

from attrs import define, field

from lab.console.model import Chunk, Event, Moment
from lab.console.moments import MomentFinder
from lab.console.terminal import LiveText
from lab.web.sse import event


@define
class Said:
    """Text that was not given yet: one event serves all viewers, and a burst of reads.

    Attributes:
        begun_ns: for each line of `text`, split at its newlines, the stamp of the read that brought the first byte that is in
            it; None: unknown, or nothing has come after the last newline. t_ns: of the last read; 0: nothing to time by.
            end: position in the port's stream behind it.
        moments: each with the stamp of the line that it was found in.
    """

    text: str = ""
    begun_ns: list[int | None] = field(factory=lambda: [None])
    moments: list[tuple[Moment, int]] = field(factory=list)
    t_ns: int = 0
    end: int = 0

    def add(self, text: str, t_ns: int | None) -> None:
        """More text, which one read brought."""
        _, *others = text.split("\n")
        if text and (not self.text or self.text.endswith("\n")):
            self.begun_ns[-1] = t_ns
        self.begun_ns += [t_ns] * len(others)
        if others and not others[-1]:
            self.begun_ns[-1] = None
        self.text += text

    @property
    def anything(self) -> bool:
        """Whether anything waits."""
        return bool(self.text or self.moments or self.end)

    def text_event(self) -> str:
        """The text as a server-sent event; times in microseconds on the host's clock."""
        lines = [None if ns is None else ns / 1000 for ns in self.begun_ns]
        t_us = self.t_ns / 1000 if self.t_ns else None
        return event("text", json.dumps({"text": self.text, "lost": 0, "t_us": t_us, "lines": lines}))

    def events(self) -> str:
        """All of it as server-sent events."""
        found = self.text_event() if self.text else ""
        return found + "".join(event("moment", json.dumps(_moment(*each))) for each in self.moments)


@define
class Hearing:
    """Makes what can be shown of what comes from a port."""

    finder: MomentFinder
    _text: LiveText = field(factory=LiveText, init=False)
    _begun_ns: int | None = field(default=None, init=False)  # of the line that is open

    def hear(self, came: Event, said: Said) -> None:
        """Add what came to what is to be given."""
        if not isinstance(came, Chunk):
            self.finder.feed(came)
            return
        said.add(self._text.feed(came.data), came.t_ns)
        said.t_ns, said.end = came.t_ns, came.end
        said.moments += self.moments(came)

    def moments(self, came: Event) -> list[tuple[Moment, int]]:
        """The moments alone."""
        found = self.finder.feed(came)
        if not isinstance(came, Chunk):
            return []
        newline, open_ns = came.data.find(b"\n"), self._begun_ns or came.t_ns
        lines = [
            (each, open_ns if newline < 0 or each.position - came.position <= newline else came.t_ns) for each in found
        ]
        if came.data.endswith(b"\n"):
            self._begun_ns = None
        else:
            self._begun_ns = open_ns if newline < 0 else came.t_ns
        return lines


def stamped(data: bytes, events: Iterable[Event]) -> Said:
    """The last bytes of a recording as text, with the stamps of those that have one.

    Args:
        events: of these bytes, as far as they are known.
    """
    reads = [each for each in events if isinstance(each, Chunk)]
    text, said, at = LiveText(), Said(), max(0, len(data) - sum(len(read.data) for read in reads))
    said.add(text.feed(data[:at]), None)
    for read in reads:
        said.add(text.feed(data[at : at + len(read.data)]), read.t_ns)
        at += len(read.data)
    return said


def boots(moments: Iterable[tuple[Moment, int]]) -> list[int]:
    """When each boot began: the stamps of the lines with its first moment. A moment that came already begins the next boot."""
    found, names = [], set[str]()
    for moment, line_ns in moments:
        if not names or moment.name in names:
            names = set()
            found.append(line_ns)
        names.add(moment.name)
    return found


def _moment(moment: Moment, line_ns: int) -> dict[str, object]:
    """A moment; times are on the host's clock, so that differences are what is measured."""
    return {
        "name": moment.name,
        "t_us": moment.t_ns / 1000,
        "uncertainty_us": moment.uncertainty_ns / 1000,
        "line_us": line_ns / 1000,
    }
