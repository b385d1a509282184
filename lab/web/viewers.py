"""Those who look at a console, and how they are given what it says.

A piece for 200 viewers takes a processor for some 5 ms. Stamps are taken by another process, of a higher priority. But before its stamp a byte
passes through a worker of the kernel (`lab.console.loop`), and that is an ordinary task, as this program is: it may have to wait
behind it. So a piece is handed to some viewers at a time, with pauses, in which the loop serves pages, too (see also `lab.host.scheduling`).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final

from attrs import define, field, frozen

# So many viewers take some 0.2 ms. Of many that wait it is a larger part, so that those of a slow host grow no further.
_AT_A_TIME: Final = 4
_PART: Final = 100
_PAUSE_S: Final = 0.001
_QUEUED: Final = 1000  # pieces that wait for a slow viewer; more are left out, and it is said


@frozen
class Piece:
    """Text of a console, for all who look at it.

    Attributes:
        events: as server-sent events. error: why no more comes; empty: it goes on.
    """

    events: bytes
    error: str = ""


_NOTHING: Final = Piece(b"")


@define
class Viewer:
    """One who looks at a console; lives on the event loop. Each piece is queued with how many were left out before it.

    Attributes:
        due: the time of the beat has come.
    """

    loop: asyncio.AbstractEventLoop
    queue: asyncio.Queue[tuple[Piece, int]] = field(factory=lambda: asyncio.Queue(_QUEUED))
    lost: int = 0
    due: bool = False

    def put(self, piece: Piece) -> None:
        """Queue a piece, on the loop; one who is too slow loses some, and holds nobody up."""
        if self.queue.full():
            self.lost += 1
            if not piece.error:
                return
            self.queue.get_nowait()  # that it has ended is said in any case
        self.queue.put_nowait((piece, self.lost))
        self.lost = 0

    @contextlib.contextmanager
    def beating(self, every_s: float) -> Iterator[None]:
        """Meanwhile a beat is due now and so often; it brings an empty piece to one for whom none waits."""
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
class Handing:
    """Hands pieces to viewers, some at a time, in the order in which they came."""

    _waiting: dict[asyncio.AbstractEventLoop, deque[tuple[Viewer, Piece]]] = field(factory=dict, init=False)

    def give(self, viewers: Sequence[Viewer], piece: Piece) -> None:
        """A piece for all of them; from any thread. Each loop is woken once."""
        by_loop: dict[asyncio.AbstractEventLoop, list[Viewer]] = {}
        for viewer in viewers:
            by_loop.setdefault(viewer.loop, []).append(viewer)
        for loop, there in by_loop.items():
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(self._take, loop, there, piece)

    def _take(self, loop: asyncio.AbstractEventLoop, viewers: Sequence[Viewer], piece: Piece) -> None:
        waiting = self._waiting.setdefault(loop, deque())
        begins = not waiting
        waiting.extend((viewer, piece) for viewer in viewers)
        if begins:
            self._hand(loop, waiting)

    def _hand(self, loop: asyncio.AbstractEventLoop, waiting: deque[tuple[Viewer, Piece]]) -> None:
        for _ in range(min(len(waiting), max(_AT_A_TIME, len(waiting) // _PART))):
            viewer, piece = waiting.popleft()
            viewer.put(piece)
        if waiting:
            loop.call_later(_PAUSE_S, self._hand, loop, waiting)
