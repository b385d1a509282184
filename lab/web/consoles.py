"""Live consoles of boards in the browser, for any number of viewers.

While a port has viewers, one thread reads it, once for all of them (`_Feed`). A `ConsoleParser` turns the bytes into
text and finds the moments of a boot as a measurement does, each with its uncertainty. The `Broadcaster` hands every
piece of text to the viewers on their event loops, and a `Viewer` queues it for its connection.
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
    """Text and moments of a console that are not sent yet.

    The text of several reads is collected here, so that viewers get one event for all of them. Stamps are those of
    the host's clock.

    Attributes:
        begun_ns: for each line of `text`, split at its newlines: the stamp of the read that brought the line's first
            byte. None: the stamp is unknown, or the line is still empty.
        t_ns: the stamp of the last read; 0: the text has no time.
        end: the position in the port's stream after the last byte; 0: no read is included.
        moments: each moment with the stamp of the line that it was found in.
    """

    text: str = ""
    begun_ns: list[int | None] = field(factory=lambda: [None])
    moments: list[tuple[Moment, int]] = field(factory=list)
    t_ns: int = 0
    end: int = 0

    def add(self, text: str, t_ns: int | None) -> None:
        """Append the text of one read, which was stamped `t_ns`."""
        _, *later_lines = text.split("\n")
        if text and (not self.text or self.text.endswith("\n")):
            self.begun_ns[-1] = t_ns
        self.begun_ns += [t_ns] * len(later_lines)
        if later_lines and not later_lines[-1]:
            self.begun_ns[-1] = None
        self.text += text

    @property
    def is_pending(self) -> bool:
        """True if there is text, a moment or a position to send."""
        return bool(self.text or self.moments or self.end)

    def text_event(self) -> str:
        """Render the text as a server-sent event, with times in µs."""
        lines = [None if ns is None else ns / 1000 for ns in self.begun_ns]
        t_us = self.t_ns / 1000 if self.t_ns else None
        return event("text", json.dumps({"text": self.text, "lost": 0, "t_us": t_us, "lines": lines}))

    def events(self) -> str:
        """Render the text and the moments as server-sent events."""
        text_event = self.text_event() if self.text else ""
        return text_event + "".join(event("moment", json.dumps(_moment(*moment))) for moment in self.moments)


@define
class ConsoleParser:
    """Converts a port's output to text with stamps and moments.

    A parser belongs to one port and is fed all of the port's events in their order.
    """

    finder: MomentFinder
    _boot: set[str] = field(factory=set, init=False)  # the names of the moments that this boot has had so far
    _text: LiveText = field(factory=LiveText, init=False)
    _begun_ns: int | None = field(default=None, init=False)  # when the unfinished line began

    def feed(self, received: Event, pending: ConsoleText) -> None:
        """Add the text and the moments of a port's event to `pending`."""
        if not isinstance(received, Chunk):
            self.finder.feed(received)
            return
        pending.add(self._text.feed(received.data), received.t_ns)
        pending.t_ns, pending.end = received.t_ns, received.end
        pending.moments += self.moments(received)

    def moments(self, received: Event) -> list[tuple[Moment, int]]:
        """Find the moments in an event, without converting its text.

        Returns:
            Each moment with the stamp of the line that it was found in.
        """
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
        """Return whether a moment is part of a boot, and note it as such.

        A prompt with no boot before it is not: somebody pressed Enter.
        """
        if moment.name in ENDS and (not self._boot or moment.name in self._boot):
            return False
        if moment.name in self._boot:
            self._boot.clear()
        self._boot.add(moment.name)
        return True


def stamp_text(data: bytes, events: Iterable[Event]) -> ConsoleText:
    """Convert the last bytes of a recording to text with stamps.

    Args:
        data: the last bytes.
        events: the reads that brought the end of `data`. Bytes before the first of these reads get no stamp.
    """
    reads = [read for read in events if isinstance(read, Chunk)]
    text, pending = LiveText(), ConsoleText()
    position = max(0, len(data) - sum(len(read.data) for read in reads))
    pending.add(text.feed(data[:position]), None)
    for read in reads:
        pending.add(text.feed(data[position : position + len(read.data)]), read.t_ns)
        position += len(read.data)
    return pending


def boot_starts(moments: Iterable[tuple[Moment, int]]) -> list[int]:
    """Return when each boot began: the stamp of its first moment's line, in ns.

    A moment that the boot already has begins the next boot.
    """
    starts, names = [], set[str]()
    for moment, line_ns in moments:
        if not names or moment.name in names:
            names = set()
            starts.append(line_ns)
        names.add(moment.name)
    return starts


def _moment(moment: Moment, line_ns: int) -> dict[str, object]:
    """Return a moment as a JSON object, with times of the host's clock in µs."""
    return {
        "name": moment.name,
        "t_us": moment.t_ns / 1000,
        "uncertainty_us": moment.uncertainty_ns / 1000,
        "line_us": line_ns / 1000,
    }


# To hand a piece to 200 viewers takes a processor about 5 ms. The process that stamps the bytes of a console has a
# higher priority than this one, but before its stamp a byte passes through a kernel worker (`lab.console.loop`), which
# is an ordinary task and can be delayed by this program. So a piece is handed to a few viewers at a time, with pauses,
# in which the event loop also serves pages (see `lab.host.scheduling`).

# To serve this many viewers takes about 0.2 ms. Where many deliveries wait, a hundredth of them is served at once, if
# that is more, so that the backlog of a slow host does not grow without limit.
_VIEWERS_AT_ONCE: Final = 4
_PART: Final = 100
_PAUSE_S: Final = 0.001
_QUEUED: Final = 1000  # pieces that may wait for a slow viewer; further ones are dropped and counted


@frozen
class ConsolePiece:
    """A piece of a console's output, the same for all viewers.

    Attributes:
        events: server-sent events, encoded.
        error: why this is the last piece; empty: more follow.
    """

    events: bytes
    error: str = ""


_NOTHING: Final = ConsolePiece(b"")


@define
class Viewer:
    """One viewer of a console; used only on its event loop.

    Attributes:
        queue: pieces to send, each with the number of pieces that were dropped just before it.
        lost: pieces that were dropped since the last queued one.
        due: the interval of `heartbeat` has passed. The reader of the queue sets it back.
    """

    loop: asyncio.AbstractEventLoop
    queue: asyncio.Queue[tuple[ConsolePiece, int]] = field(factory=lambda: asyncio.Queue(_QUEUED))
    lost: int = 0
    due: bool = False

    def enqueue(self, piece: ConsolePiece) -> None:
        """Queue a piece for this viewer.

        If the queue is full, the piece is dropped: a slow viewer must not delay the others. The last piece is never
        dropped, since it tells the viewer why the console ended.
        """
        if self.queue.full():
            self.lost += 1
            if not piece.error:
                return
            self.queue.get_nowait()
        self.queue.put_nowait((piece, self.lost))
        self.lost = 0

    @contextlib.contextmanager
    def heartbeat(self, every_s: float) -> Iterator[None]:
        """Set `due` at once and then every `every_s` seconds.

        If no piece is queued, an empty one is, so that the reader of the queue wakes up.
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
    """Delivers pieces to viewers in order, a few viewers at a time."""

    _waiting: dict[asyncio.AbstractEventLoop, deque[tuple[Viewer, ConsolePiece]]] = field(factory=dict, init=False)

    def send(self, viewers: Sequence[Viewer], piece: ConsolePiece) -> None:
        """Deliver a piece to viewers; may be called from any thread."""
        by_loop: dict[asyncio.AbstractEventLoop, list[Viewer]] = {}
        for viewer in viewers:
            by_loop.setdefault(viewer.loop, []).append(viewer)
        for loop, viewers_of_loop in by_loop.items():
            with contextlib.suppress(RuntimeError):  # the loop has ended, and its viewers with it
                loop.call_soon_threadsafe(self._enqueue, loop, viewers_of_loop, piece)

    def _enqueue(self, loop: asyncio.AbstractEventLoop, viewers: Sequence[Viewer], piece: ConsolePiece) -> None:
        waiting = self._waiting.setdefault(loop, deque())
        is_idle = not waiting  # else a call of `_send_some` is already scheduled
        waiting.extend((viewer, piece) for viewer in viewers)
        if is_idle:
            self._send_some(loop, waiting)

    def _send_some(self, loop: asyncio.AbstractEventLoop, waiting: deque[tuple[Viewer, ConsolePiece]]) -> None:
        for _ in range(min(len(waiting), max(_VIEWERS_AT_ONCE, len(waiting) // _PART))):
            viewer, piece = waiting.popleft()
            viewer.enqueue(piece)
        if waiting:
            loop.call_later(_PAUSE_S, self._send_some, loop, waiting)


BACKLOG_LINES: Final = 200  # earlier lines that a new viewer is shown
SEARCHED_BYTES: Final = 1 << 18  # of earlier output, in which the moments of the last boots are looked for
MOMENTS: Final = 200  # that are kept for later viewers
_READ_S: Final = 0.5  # the longest wait for output before a feed checks that it still has viewers
# Reads are joined to one piece over a quarter of _BATCH_S plus _BATCH_EACH_S for each viewer, at most over _BATCH_S.
# With a few viewers a line is on the screen 100 ms after its stamp.
_BATCH_S: Final = 0.08
_BATCH_EACH_S: Final = 0.0004


@define
class _Feed:
    """A port, its viewers and the thread that reads it.

    Attributes:
        info: the port. Its position is that of the byte after the last one that was sent.
        moments: the last moments that were sent, for viewers who come later.
        ended: the thread has stopped or is about to, so that no viewer may join.
        lock: guards `viewers`, `info`, `moments` and `ended`.
    """

    client: ConsoleClient
    info: PortInfo
    parser: ConsoleParser
    broadcaster: Broadcaster
    viewers: list[Viewer] = field(factory=list)
    moments: deque[tuple[Moment, int]] = field(factory=lambda: deque(maxlen=MOMENTS))
    ended: bool = False
    lock: threading.Lock = field(factory=threading.Lock)

    def join(self, viewer: Viewer) -> tuple[PortInfo, list[tuple[Moment, int]]] | None:
        """Add a viewer, unless the feed has ended.

        Returns:
            The port and its moments as they were before the viewer's first piece; None: the feed has ended.
        """
        with self.lock:
            if self.ended:
                return None
            self.viewers.append(viewer)
            return self.info, list(self.moments)

    def leave(self, viewer: Viewer) -> None:
        """Send nothing more to a viewer."""
        with self.lock:
            self.viewers = [other for other in self.viewers if other is not viewer]

    def run(self) -> None:
        """Read the port until the last viewer leaves or the port fails."""
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
        """The time over which reads are joined to one piece, in seconds.

        It grows with the viewers, since every piece costs time for each of them.
        """
        return min(_BATCH_S, _BATCH_S / 4 + _BATCH_EACH_S * len(self.viewers))

    def _earlier(self) -> ConsoleText:
        """Return the moments of the output from before this feed.

        The parser learns from it when the unfinished line began.
        """
        pending = ConsoleText()
        with contextlib.suppress(BoardlabError):  # the recording cannot be read: moments begin with this feed
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
    """The live consoles of a host, with one feed for each board that has viewers.

    Attributes:
        runtime: the runtime folder of the console server; None: the default, as for `lab console`.
    """

    runtime: Path | None = None
    _feeds: dict[str, _Feed] = field(factory=dict, init=False)
    _broadcaster: Broadcaster = field(factory=Broadcaster, init=False)
    _locks: dict[str, threading.Lock] = field(factory=dict, init=False)  # by board
    _lock: threading.Lock = field(factory=threading.Lock, init=False)  # of `_locks`

    def attach(self, board: str, viewer: Viewer, board_type: str = "") -> ConsoleText:
        """Add a viewer to a board's console; return the earlier text.

        This may block while it connects to the console server.

        Args:
            board_type: the type whose boot moments are looked for; of an unknown type none are.

        Returns:
            The last lines before the viewer's first piece, with `t_ns` 0.

        Raises:
            BoardlabError: the board has no open port, the console server does not answer, or the recording cannot be
                read. The viewer is not added then.
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
        except BaseException:
            feed.leave(viewer)
            raise

    def leave(self, board: str, viewer: Viewer) -> None:
        """Remove a viewer from the console of a board."""
        feed = self._feeds.get(board)
        if feed is not None:
            feed.leave(viewer)


def parser_of(info: PortInfo, board_type: str) -> ConsoleParser:
    """Return a parser that finds a board type's moments; of an unknown type it finds none."""
    patterns = boards.load(board_type).markers if board_type in boards.names() else []
    return ConsoleParser(MomentFinder(patterns, info.meta.timing))


def earlier_text(info: PortInfo, moments: list[tuple[Moment, int]]) -> ConsoleText:
    """Return the last lines of a port, up to the position of `info`.

    Args:
        moments: the moments of the earlier output, which become those of the text.

    Raises:
        LabStableError: the recording cannot be read.
    """
    data = last_lines(info, BACKLOG_LINES)
    pending = stamp_text(data, last_events(info, len(data)) if data else ())
    pending.moments = moments
    return pending
