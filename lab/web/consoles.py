"""Live consoles for any number of viewers.

A thread of its own reads each port once, while it has viewers.

The moments of a boot are found as a measurement finds them, with their ±.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from attrs import define, evolve, field, frozen

from lab import boards
from lab.benchmarks.boot.records import ENDS
from lab.console.client import ConsoleClient
from lab.console.lookup import attach_to_port, last_events, last_lines
from lab.console.model import Chunk, Event
from lab.console.moments import MomentFinder
from lab.console.status import PortInfo
from lab.console.terminal import LiveText
from lab.errors import BoardlabError
from lab.metrics import Moment
from lab.web.rendering import event


@define
class ConsoleText:
    """Pending text: one event for all viewers and reads.

    Attributes:
        begun_ns: for each line of `text`, split at its newlines, the stamp of the read that brought the first byte
            that is in it; None: unknown, or nothing has come after the last newline.
        t_ns: of the last read; 0: nothing to time by.
        end: position in the port's stream behind it.
        moments: each with the stamp of the line that it was found in.
    """

    text: str = ""
    begun_ns: list[int | None] = field(factory=lambda: [None])
    moments: list[tuple[Moment, int]] = field(factory=list)
    t_ns: int = 0
    end: int = 0

    def add(self, text: str, t_ns: int | None) -> None:
        """Append the text of one read."""
        _, *others = text.split("\n")
        if text and (not self.text or self.text.endswith("\n")):
            self.begun_ns[-1] = t_ns
        self.begun_ns += [t_ns] * len(others)
        if others and not others[-1]:
            self.begun_ns[-1] = None
        self.text += text

    @property
    def is_pending(self) -> bool:
        """True if something is pending."""
        return bool(self.text or self.moments or self.end)

    def text_event(self) -> str:
        """The text as a server-sent event, with times in µs."""
        lines = [None if ns is None else ns / 1000 for ns in self.begun_ns]
        t_us = self.t_ns / 1000 if self.t_ns else None
        return event("text", json.dumps({"text": self.text, "lost": 0, "t_us": t_us, "lines": lines}))

    def events(self) -> str:
        """All of it as server-sent events."""
        text_event = self.text_event() if self.text else ""
        return text_event + "".join(event("moment", json.dumps(_moment(*moment))) for moment in self.moments)


@define
class ConsoleParser:
    """Converts a port's output to text with stamps and moments."""

    finder: MomentFinder
    _boot: set[str] = field(factory=set, init=False)  # names of the last boot's moments
    _text: LiveText = field(factory=LiveText, init=False)
    _begun_ns: int | None = field(default=None, init=False)  # of the line that is open

    def feed(self, received: Event, pending: ConsoleText) -> None:
        """Append a port's event to the pending text."""
        if not isinstance(received, Chunk):
            self.finder.feed(received)
            return
        pending.add(self._text.feed(received.data), received.t_ns)
        pending.t_ns, pending.end = received.t_ns, received.end
        pending.moments += self.moments(received)

    def moments(self, received: Event) -> list[tuple[Moment, int]]:
        """The moments of an event, without its text."""
        boot_moments = [moment for moment in self.finder.feed(received) if self._is_of_a_boot(moment)]
        if not isinstance(received, Chunk):
            return []
        newline, open_ns = received.data.find(b"\n"), self._begun_ns or received.t_ns
        lines = [
            (moment, open_ns if newline < 0 or moment.position - received.position <= newline else received.t_ns)
            for moment in boot_moments
        ]
        if received.data.endswith(b"\n"):
            self._begun_ns = None
        else:
            self._begun_ns = open_ns if newline < 0 else received.t_ns
        return lines

    def _is_of_a_boot(self, moment: Moment) -> bool:
        """False for a prompt without a boot before it: somebody pressed Enter."""
        if moment.name in ENDS and (not self._boot or moment.name in self._boot):
            return False
        if moment.name in self._boot:
            self._boot.clear()
        self._boot.add(moment.name)
        return True


def stamp_text(data: bytes, events: Iterable[Event]) -> ConsoleText:
    """Text of a recording's last bytes, with their known stamps.

    Args:
        events: of these bytes, as far as they are known.
    """
    reads = [read for read in events if isinstance(read, Chunk)]
    text, pending, at = LiveText(), ConsoleText(), max(0, len(data) - sum(len(read.data) for read in reads))
    pending.add(text.feed(data[:at]), None)
    for read in reads:
        pending.add(text.feed(data[at : at + len(read.data)]), read.t_ns)
        at += len(read.data)
    return pending


def boot_starts(moments: Iterable[tuple[Moment, int]]) -> list[int]:
    """The beginning of each boot: its first moment's line, in ns.

    A repeated moment begins the next boot.
    """
    starts, names = [], set[str]()
    for moment, line_ns in moments:
        if not names or moment.name in names:
            names = set()
            starts.append(line_ns)
        names.add(moment.name)
    return starts


def _moment(moment: Moment, line_ns: int) -> dict[str, object]:
    """A moment as JSON, with times of the host's clock."""
    return {
        "name": moment.name,
        "t_us": moment.t_ns / 1000,
        "uncertainty_us": moment.uncertainty_ns / 1000,
        "line_us": line_ns / 1000,
    }


# A piece for 200 viewers takes a processor for some 5 ms. Stamps are taken by another process, of a higher priority.
# But before its stamp a byte passes through a worker of the kernel (`lab.console.loop`), and that is an ordinary task,
# as this program is: it may have to wait behind it. So a piece is handed to some viewers at a time, with pauses, in
# which the loop serves pages, too (see also `lab.host.scheduling`).


# So many viewers take some 0.2 ms. Of many that wait it is a larger part, so that those of a slow host grow no further.
_VIEWERS_AT_ONCE: Final = 4
_PART: Final = 100
_PAUSE_S: Final = 0.001
_QUEUED: Final = 1000  # pieces that wait for a slow viewer; more are dropped and counted


@frozen
class ConsolePiece:
    """Text of a console, for all its viewers.

    Attributes:
        events: as server-sent events.
        error: why no more comes; empty: it goes on.
    """

    events: bytes
    error: str = ""


_NOTHING: Final = ConsolePiece(b"")


@define
class Viewer:
    """A viewer of a console, on the event loop.

    Each piece is queued with the number of pieces that were dropped before it.

    Attributes:
        due: the time of the beat has come.
    """

    loop: asyncio.AbstractEventLoop
    queue: asyncio.Queue[tuple[ConsolePiece, int]] = field(factory=lambda: asyncio.Queue(_QUEUED))
    lost: int = 0
    due: bool = False

    def enqueue(self, piece: ConsolePiece) -> None:
        """Queue a piece, on the loop.

        A slow viewer loses pieces and delays nobody.
        """
        if self.queue.full():
            self.lost += 1
            if not piece.error:
                return
            self.queue.get_nowait()  # the end is sent in any case
        self.queue.put_nowait((piece, self.lost))
        self.lost = 0

    @contextlib.contextmanager
    def heartbeat(self, every_s: float) -> Iterator[None]:
        """Set `due` now and after each interval.

        A viewer without a queued piece gets an empty one.
        """
        timer: asyncio.TimerHandle | None = None

        def beat() -> None:
            nonlocal timer
            self.due = True
            if self.queue.empty():
                self.queue.put_nowait((_NOTHING, 0))
            timer = self.loop.call_later(every_s, beat)

        beat()
        try:
            yield
        finally:
            if timer is not None:
                timer.cancel()


@define
class Broadcaster:
    """Delivers pieces to viewers in order, a few at a time."""

    _waiting: dict[asyncio.AbstractEventLoop, deque[tuple[Viewer, ConsolePiece]]] = field(factory=dict, init=False)

    def send(self, viewers: Sequence[Viewer], piece: ConsolePiece) -> None:
        """Deliver a piece to all of them, from any thread.

        Each loop is woken once.
        """
        by_loop: dict[asyncio.AbstractEventLoop, list[Viewer]] = {}
        for viewer in viewers:
            by_loop.setdefault(viewer.loop, []).append(viewer)
        for loop, there in by_loop.items():
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(self._take, loop, there, piece)

    def _take(self, loop: asyncio.AbstractEventLoop, viewers: Sequence[Viewer], piece: ConsolePiece) -> None:
        waiting = self._waiting.setdefault(loop, deque())
        begins = not waiting
        waiting.extend((viewer, piece) for viewer in viewers)
        if begins:
            self._send_some(loop, waiting)

    def _send_some(self, loop: asyncio.AbstractEventLoop, waiting: deque[tuple[Viewer, ConsolePiece]]) -> None:
        for _ in range(min(len(waiting), max(_VIEWERS_AT_ONCE, len(waiting) // _PART))):
            viewer, piece = waiting.popleft()
            viewer.enqueue(piece)
        if waiting:
            loop.call_later(_PAUSE_S, self._send_some, loop, waiting)


BACKLOG_LINES: Final = 200
SEARCHED_BYTES: Final = 1 << 18  # of the earlier output, for the moments of the last boots
MOMENTS: Final = 200  # that are kept for later viewers
_READ_S: Final = 0.5  # then a reader looks whether it still has viewers
_BATCH_S: Final = 0.08  # at most, with many viewers; for a few a line is on the screen 100 ms after its stamp
_BATCH_EACH_S: Final = 0.0004


@define
class _Feed:
    """A port, its viewers and the thread that reads it.

    `ended`: the last viewer left, and none is taken.
    """

    client: ConsoleClient
    info: PortInfo  # its position is that of the byte after the last one that was given
    parser: ConsoleParser
    broadcaster: Broadcaster
    viewers: list[Viewer] = field(factory=list)
    moments: deque[tuple[Moment, int]] = field(factory=lambda: deque(maxlen=MOMENTS))  # that were given
    ended: bool = False
    lock: threading.Lock = field(factory=threading.Lock)

    def join(self, viewer: Viewer) -> tuple[PortInfo, list[tuple[Moment, int]]] | None:
        """Take a viewer; None: the feed has ended.

        Return the port and its moments from before the viewer's first piece.
        """
        with self.lock:
            if self.ended:
                return None
            self.viewers.append(viewer)
            return self.info, list(self.moments)

    def leave(self, viewer: Viewer) -> None:
        """Let a viewer go."""
        with self.lock:
            self.viewers = [other for other in self.viewers if other is not viewer]

    def run(self) -> None:
        """Read while it has viewers and the port is readable; then it has ended, whatever ended it."""
        try:
            self._read()
        finally:
            with self.lock:
                self.ended = True

    def _read(self) -> None:
        waiting, due_s = ConsoleText(), 0.0
        with self.client:
            self._send(self._earlier())
            while self._has_viewers():
                remaining_s = due_s - time.monotonic() if waiting.is_pending else _READ_S
                try:
                    received = self.client.read_event(remaining_s) if remaining_s > 0 else None
                except BoardlabError as problem:
                    self._send(waiting)
                    error = str(problem)
                    with self.lock:
                        self.broadcaster.send(
                            self.viewers, ConsolePiece(event("gone", json.dumps({"error": error})).encode(), error)
                        )
                        self.ended = True
                    return
                if received is not None:
                    self.parser.feed(received, waiting)
                if waiting.is_pending and time.monotonic() >= due_s:
                    self._send(waiting)
                    waiting, due_s = ConsoleText(), time.monotonic() + self._batch_s

    @property
    def _batch_s(self) -> float:
        """The time over which reads are joined to one piece.

        A screen shows no more, and each piece costs a share for each viewer.
        """
        return min(_BATCH_S, _BATCH_S / 4 + _BATCH_EACH_S * len(self.viewers))

    def _earlier(self) -> ConsoleText:
        """The earlier moments, and the open line's stamp."""
        pending = ConsoleText()
        with contextlib.suppress(BoardlabError):  # then they begin now
            for received in last_events(self.info, SEARCHED_BYTES):
                pending.moments += self.parser.moments(received)
        return pending

    def _send(self, waiting: ConsoleText) -> None:
        piece = ConsolePiece(waiting.events().encode())
        with self.lock:
            self.moments += waiting.moments
            self.info = evolve(self.info, position=waiting.end) if waiting.end else self.info
            if piece.events:
                self.broadcaster.send(self.viewers, piece)

    def _has_viewers(self) -> bool:
        with self.lock:
            self.ended = not self.viewers
            return not self.ended


@define
class LiveConsoles:
    """The live consoles of a host.

    Attributes:
        runtime: the console server's folder; None: as `lab console`.
    """

    runtime: Path | None = None
    _feeds: dict[str, _Feed] = field(factory=dict, init=False)
    _broadcaster: Broadcaster = field(factory=Broadcaster, init=False)
    _locks: dict[str, threading.Lock] = field(factory=dict, init=False)  # by board
    _lock: threading.Lock = field(factory=threading.Lock, init=False)  # of `_locks`

    def attach(self, board: str, viewer: Viewer, board_type: str = "") -> ConsoleText:
        """Show a console to a viewer; return its earlier text.

        That text has no time of its own.

        Args:
            board_type: whose moments are looked for; one that this boardlab does not know has none.

        Raises:
            BoardlabError: no port of that board is open, or the server does not answer.
        """
        with self._lock:
            board_lock = self._locks.setdefault(board, threading.Lock())
        with board_lock:  # of this board alone: a console server that answers slowly must not delay other boards
            feed = self._feeds.get(board)
            joined = feed.join(viewer) if feed is not None else None
            if feed is None or joined is None:
                client, info = attach_to_port(board, self.runtime, opens=False)
                feed = self._feeds[board] = _Feed(
                    client, info, parser_of(info, board_type), self._broadcaster, [viewer]
                )
                joined = info, []
                threading.Thread(target=feed.run, name=f"console of {board}", daemon=True).start()
        try:
            return earlier_text(*joined)
        except BaseException:  # without the earlier text there is no viewer
            feed.leave(viewer)
            raise

    def leave(self, board: str, viewer: Viewer) -> None:
        """Show nothing more to a viewer."""
        feed = self._feeds.get(board)
        if feed is not None:
            feed.leave(viewer)


def parser_of(info: PortInfo, board_type: str) -> ConsoleParser:
    """A parser for a board type's moments; none of unknown types."""
    patterns = boards.load(board_type).markers if board_type in boards.names() else []
    return ConsoleParser(MomentFinder(patterns, info.meta.timing))


def earlier_text(info: PortInfo, moments: list[tuple[Moment, int]]) -> ConsoleText:
    """A port's last lines and moments, from before a viewer.

    Raises:
        LabStableError: the recording cannot be read.
    """
    data = last_lines(info, BACKLOG_LINES)
    pending = stamp_text(data, last_events(info, len(data)) if data else ())
    pending.moments = moments
    return pending
