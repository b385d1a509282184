"""Live consoles for any number of viewers: each port is read once, by a thread of its own, while somebody looks.

The moments of a boot are found as a measurement finds them, with their ±.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import time
from collections.abc import Iterable, Sequence
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
from lab.web.sse import event

BACKLOG_LINES: Final = 200
_READ_S: Final = 0.5  # then a reader looks whether anybody still wants it
_QUEUED: Final = 1000  # pieces that wait for a slow viewer; more are left out, and it is said
_TOGETHER_S: Final = 0.06  # at most; a line is on the screen 100 ms after its stamp
_EACH_S: Final = 0.0002


@frozen
class Piece:
    """Text of a console, for all who look at it.

    Attributes:
        events: as server-sent events. error: why no more comes; empty: it goes on.
    """

    events: bytes
    error: str = ""


@define
class Viewer:
    """One who looks at a console; lives on the event loop. Each piece is queued with how many were left out before it."""

    loop: asyncio.AbstractEventLoop
    queue: asyncio.Queue[tuple[Piece, int]] = field(factory=lambda: asyncio.Queue(_QUEUED))
    lost: int = 0

    def put(self, piece: Piece) -> None:
        """Queue a piece, on the loop; one who is too slow loses some, and holds nobody up."""
        if self.queue.full():
            self.lost += 1
            if not piece.error:
                return
            self.queue.get_nowait()  # that it has ended is said in any case
        self.queue.put_nowait((piece, self.lost))
        self.lost = 0


@define
class _Waiting:
    """What came and was not given yet: one event serves all viewers, and a burst of reads."""

    text: str = ""
    moments: list[Moment] = field(factory=list)
    t_ns: int = 0
    end: int = 0

    def add(self, text: str, moments: Iterable[Moment], chunk: Chunk | None) -> None:
        """Something more."""
        self.text += text
        self.moments += moments
        if chunk is not None:
            self.t_ns, self.end = chunk.t_ns, chunk.end

    @property
    def anything(self) -> bool:
        """Whether anything waits."""
        return bool(self.text or self.moments or self.end)

    def piece(self) -> Piece:
        """All of it."""
        found = ""
        if self.text:
            found = event("text", json.dumps({"text": self.text, "lost": 0, "t_us": self.t_ns / 1000}))
        found += "".join(event("moment", json.dumps(_moment(moment))) for moment in self.moments)
        return Piece(found.encode())


def _moment(moment: Moment) -> dict[str, object]:
    """A moment; `t_us` is on the host's clock, so that differences are what is measured."""
    return {"name": moment.name, "t_us": moment.t_ns / 1000, "uncertainty_us": moment.uncertainty_ns / 1000}


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
        text, waiting, due_s = LiveText(), _Waiting(), 0.0
        with self.client:
            while self._wanted():
                left_s = due_s - time.monotonic() if waiting.anything else _READ_S
                try:
                    came = self.client.read_event(left_s) if left_s > 0 else None
                except BoardlabError as problem:
                    self._give(waiting)
                    self._end(str(problem))
                    return
                if came is not None:
                    chunk = came if isinstance(came, Chunk) else None
                    waiting.add(text.feed(chunk.data) if chunk else "", self.finder.feed(came), chunk)
                if waiting.anything and time.monotonic() >= due_s:
                    self._give(waiting)
                    waiting, due_s = _Waiting(), time.monotonic() + self._together_s

    @property
    def _together_s(self) -> float:
        """What comes within it after a piece goes out as one: a screen shows no more, and each piece costs each viewer's share."""
        return min(_TOGETHER_S, _TOGETHER_S / 4 + _EACH_S * len(self.viewers))

    def _give(self, waiting: _Waiting) -> None:
        piece = waiting.piece()
        with self.lock:
            self.info = evolve(self.info, position=waiting.end) if waiting.end else self.info
            if piece.events:
                self._spread(piece)

    def _end(self, error: str) -> None:
        with self.lock:
            self._spread(Piece(event("gone", json.dumps({"error": error})).encode(), error))
            self.over = True

    def _spread(self, piece: Piece) -> None:
        """To all viewers, each loop woken once."""
        by_loop: dict[asyncio.AbstractEventLoop, list[Viewer]] = {}
        for viewer in self.viewers:
            by_loop.setdefault(viewer.loop, []).append(viewer)
        for loop, viewers in by_loop.items():
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(_put, viewers, piece)

    def _wanted(self) -> bool:
        with self.lock:
            self.over = not self.viewers
            return not self.over


def _put(viewers: Sequence[Viewer], piece: Piece) -> None:
    for viewer in viewers:
        viewer.put(piece)


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
            if feed is None or info is None:
                client, info = attached(board, self.runtime)
                patterns = boards.load(board_type).markers if board_type in boards.names() else []
                finder = MomentFinder(patterns, info.meta.timing)
                feed = self._feeds[board] = _Feed(client, info, finder, [viewer])
                threading.Thread(target=feed.run, name=f"console of {board}", daemon=True).start()
        try:
            return LiveText().feed(last_lines(info, BACKLOG_LINES))
        except BaseException:  # whoever is not shown what came before looks at nothing
            feed.leave(viewer)
            raise

    def leave(self, board: str, viewer: Viewer) -> None:
        """Show nothing more to a viewer."""
        feed = self._feeds.get(board)
        if feed is not None:
            feed.leave(viewer)
