"""Live consoles for any number of viewers: each port is read once, by a thread of its own, while somebody looks.

The moments of a boot are found as a measurement finds them, with their ±.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections import deque
from pathlib import Path
from typing import Final

from attrs import define, evolve, field

from lab import boards
from lab.console.client import ConsoleClient
from lab.console.lookup import attached, last_events, last_lines
from lab.console.model import Moment
from lab.console.moments import MomentFinder
from lab.console.status import PortInfo
from lab.errors import BoardlabError
from lab.web.said import Hearing, Said, stamped
from lab.web.sse import event
from lab.web.viewers import Handing, Piece, Viewer

BACKLOG_LINES: Final = 200
SEARCHED_BYTES: Final = 1 << 18  # of what came before, for the moments of the last boots
MOMENTS: Final = 200  # that are kept for whoever looks later
_READ_S: Final = 0.5  # then a reader looks whether anybody still wants it
_TOGETHER_S: Final = 0.08  # at most, with many viewers; for a few a line is on the screen 100 ms after its stamp
_EACH_S: Final = 0.0004


@define
class _Feed:
    """A port, its viewers and the thread that reads it; `over` once nobody looked: then it takes no more viewers."""

    client: ConsoleClient
    info: PortInfo  # its position is that of the byte after the last one that was given
    hearing: Hearing
    handing: Handing
    viewers: list[Viewer] = field(factory=list)
    moments: deque[tuple[Moment, int]] = field(factory=lambda: deque(maxlen=MOMENTS))  # that were given
    over: bool = False
    lock: threading.Lock = field(factory=threading.Lock)

    def join(self, viewer: Viewer) -> tuple[PortInfo, list[tuple[Moment, int]]] | None:
        """Take a viewer; the port, and its moments, before what the viewer will be given. None: it is too late."""
        with self.lock:
            if self.over:
                return None
            self.viewers.append(viewer)
            return self.info, list(self.moments)

    def leave(self, viewer: Viewer) -> None:
        """Let a viewer go."""
        with self.lock:
            self.viewers = [other for other in self.viewers if other is not viewer]

    def run(self) -> None:
        """Read until nobody looks, or the port cannot be read any more."""
        waiting, due_s = Said(), 0.0
        with self.client:
            self._give(self._before())
            while self._wanted():
                left_s = due_s - time.monotonic() if waiting.anything else _READ_S
                try:
                    came = self.client.read_event(left_s) if left_s > 0 else None
                except BoardlabError as problem:
                    self._give(waiting)
                    self._end(str(problem))
                    return
                if came is not None:
                    self.hearing.hear(came, waiting)
                if waiting.anything and time.monotonic() >= due_s:
                    self._give(waiting)
                    waiting, due_s = Said(), time.monotonic() + self._together_s

    @property
    def _together_s(self) -> float:
        """What comes within it after a piece goes out as one: a screen shows no more, and each piece costs each viewer's share."""
        return min(_TOGETHER_S, _TOGETHER_S / 4 + _EACH_S * len(self.viewers))

    def _before(self) -> Said:
        """The moments that came before anybody looked, and the stamp of the line that goes on."""
        said = Said()
        with contextlib.suppress(BoardlabError):  # then they begin now
            for each in last_events(self.info, SEARCHED_BYTES):
                said.moments += self.hearing.moments(each)
        return said

    def _give(self, waiting: Said) -> None:
        piece = Piece(waiting.events().encode())
        with self.lock:
            self.moments += waiting.moments
            self.info = evolve(self.info, position=waiting.end) if waiting.end else self.info
            if piece.events:
                self.handing.give(self.viewers, piece)

    def _end(self, error: str) -> None:
        with self.lock:
            self.handing.give(self.viewers, Piece(event("gone", json.dumps({"error": error})).encode(), error))
            self.over = True

    def _wanted(self) -> bool:
        with self.lock:
            self.over = not self.viewers
            return not self.over


@define
class Consoles:
    """The live consoles of a host.

    Attributes:
        runtime: the console server's folder; None: as `lab console`.
    """

    runtime: Path | None = None
    _feeds: dict[str, _Feed] = field(factory=dict, init=False)
    _handing: Handing = field(factory=Handing, init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    def look(self, board: str, viewer: Viewer, board_type: str = "") -> Said:
        """Show a console to a viewer from now on; returns what came before, without a time of its own.

        Args:
            board_type: whose moments are looked for; one that this boardlab does not know has none.

        Raises:
            BoardlabError: no port of that board is open, or the server does not answer.
        """
        with self._lock:
            feed = self._feeds.get(board)
            joined = feed.join(viewer) if feed is not None else None
            if feed is None or joined is None:
                client, info = attached(board, self.runtime, opens=False)
                feed = self._feeds[board] = _Feed(client, info, hearing(info, board_type), self._handing, [viewer])
                joined = info, []
                threading.Thread(target=feed.run, name=f"console of {board}", daemon=True).start()
        try:
            return before(*joined)
        except BaseException:  # whoever is not shown what came before looks at nothing
            feed.leave(viewer)
            raise

    def leave(self, board: str, viewer: Viewer) -> None:
        """Show nothing more to a viewer."""
        feed = self._feeds.get(board)
        if feed is not None:
            feed.leave(viewer)


def hearing(info: PortInfo, board_type: str) -> Hearing:
    """What finds the moments of a board type on a port; a type that this boardlab does not know has none."""
    patterns = boards.load(board_type).markers if board_type in boards.names() else []
    return Hearing(MomentFinder(patterns, info.meta.timing))


def before(info: PortInfo, moments: list[tuple[Moment, int]]) -> Said:
    """What came on a port before a viewer: its last lines, and the moments.

    Raises:
        LabStableError: the recording cannot be read.
    """
    data = last_lines(info, BACKLOG_LINES)
    said = stamped(data, last_events(info, len(data)) if data else ())
    said.moments = moments
    return said
