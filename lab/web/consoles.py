"""Live consoles for any number of viewers: each port is read once, by a thread of its own, while somebody looks.

The moments of a boot are found as a measurement finds them, with their ±.
"""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Final

from attrs import define, evolve, field, frozen

from lab import boards
from lab.console.client import ConsoleClient
from lab.console.livetext import LiveText
from lab.console.lookup import attached, last_lines
from lab.console.model import Chunk, Moment
from lab.console.moments import MomentFinder
from lab.console.status import PortInfo
from lab.errors import BoardlabError

BACKLOG_LINES: Final = 200
_READ_S: Final = 0.5  # then a reader looks whether anybody still wants it
_QUEUED: Final = 1000  # pieces that wait for a slow viewer; more are left out, and it is said


@frozen
class Piece:
    """Text of a console.

    Attributes:
        moments: that end in it. lost: pieces left out before it. error: why no more comes; empty: it goes on.
    """

    text: str
    moments: tuple[Moment, ...] = ()
    lost: int = 0
    error: str = ""


@define
class Viewer:
    """One who looks at a console; lives on the event loop."""

    loop: asyncio.AbstractEventLoop
    queue: asyncio.Queue[Piece] = field(factory=lambda: asyncio.Queue(_QUEUED))
    lost: int = 0

    def give(self, piece: Piece) -> None:
        """Queue a piece, from any thread; one who is too slow loses some, and holds nobody up."""
        try:
            self.loop.call_soon_threadsafe(self._put, piece)
        except RuntimeError:  # the loop has ended
            return

    def _put(self, piece: Piece) -> None:
        if self.queue.full():
            self.lost += 1
            if not piece.error:
                return
            self.queue.get_nowait()  # that it has ended is said in any case
        self.queue.put_nowait(evolve(piece, lost=self.lost))
        self.lost = 0


@define
class _Feed:
    """A port, its viewers and the thread that reads it; `over` once nobody looked: then it takes no more viewers."""

    client: ConsoleClient
    info: PortInfo  # its position is that of the byte after the last one that was given
    finder: MomentFinder
    viewers: list[Viewer] = field(factory=list)
    over: bool = False
    lock: threading.Lock = field(factory=threading.Lock)

    def join(self, viewer: Viewer) -> PortInfo | None:
        """Take a viewer; the port as it is before what the viewer will be given. None: it is too late."""
        with self.lock:
            if self.over:
                return None
            self.viewers.append(viewer)
            return self.info

    def leave(self, viewer: Viewer) -> None:
        """Let a viewer go."""
        with self.lock:
            self.viewers = [other for other in self.viewers if other is not viewer]

    def run(self) -> None:
        """Read until nobody looks, or the port cannot be read any more."""
        text = LiveText()
        with self.client:
            while self._wanted():
                try:
                    event = self.client.read_event(_READ_S)
                except BoardlabError as problem:
                    self._end(str(problem))
                    return
                moments = tuple(self.finder.feed(event)) if event is not None else ()
                if isinstance(event, Chunk):
                    self._give(Piece(text.feed(event.data), moments), event.end)

    def _give(self, piece: Piece, end: int | None = None) -> None:
        with self.lock:
            self.info = self.info if end is None else evolve(self.info, position=end)
            for viewer in self.viewers:
                viewer.give(piece)

    def _end(self, error: str) -> None:
        self._give(Piece("", error=error))
        with self.lock:
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
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    def look(self, board: str, viewer: Viewer, board_type: str = "") -> str:
        """Show a console to a viewer from now on; returns what came before.

        Args:
            board_type: whose moments are looked for; one that this boardlab does not know has none.

        Raises:
            BoardlabError: no port of that board is open, or the server does not answer.
        """
        with self._lock:
            feed = self._feeds.get(board)
            info = feed.join(viewer) if feed is not None else None
            if info is None:
                client, info = attached(board, self.runtime)
                patterns = boards.load(board_type).markers if board_type in boards.names() else []
                finder = MomentFinder(patterns, info.meta.timing)
                feed = self._feeds[board] = _Feed(client, info, finder, [viewer])
                threading.Thread(target=feed.run, name=f"console of {board}", daemon=True).start()
        return LiveText().feed(last_lines(info, BACKLOG_LINES))

    def leave(self, board: str, viewer: Viewer) -> None:
        """Show nothing more to a viewer."""
        feed = self._feeds.get(board)
        if feed is not None:
            feed.leave(viewer)
