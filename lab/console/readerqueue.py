"""Hands records to readers, but not more often than the stamps can bear.

Waking a reader costs some ten microseconds, more on a virtual machine, in which no port is looked at. One console's
records go out at once. When sixteen stream at full speed, their readers get the records of some milliseconds together.
"""

from __future__ import annotations

import logging
from collections import deque

from lab.console.catchup import Catchup
from lab.console.connection import Connection
from lab.errors import LabStableError

INTERVAL_NS = 500_000  # between two deliveries; a console that never pauses brings a FIFO of 16 bytes every 1.4 ms
_log = logging.getLogger(__name__)


class ReaderQueue:
    """The readers that have something waiting, in the order in which it came."""

    def __init__(self) -> None:
        """Nobody waits."""
        self._next_ns = 0
        self._waiting: deque[Connection] = deque()
        self._catchups: deque[Catchup] = deque()

    def timeout_s(self, now_ns: int) -> float | None:
        """How long the loop may sleep before a delivery is due; None: for ever."""
        if any(not each.waits for each in self._catchups):
            return 0.0
        if not self._waiting:
            return None
        return 0.0 if now_ns >= self._next_ns else 0.001  # epoll counts milliseconds

    def enlist(self, reader: Connection) -> None:
        """There is something for this reader; one that does not take what it has is told by epoll instead."""
        if not reader.enlisted and not reader.blocked:
            reader.enlisted = True
            self._waiting.append(reader)

    def deliver(self, now_ns: int) -> bool:
        """Hand the first reader what it has waiting, if it is time. Returns: whether it was."""
        if not self._waiting or now_ns < self._next_ns:
            return False
        self._waiting.popleft().flush()
        self._next_ns = now_ns + INTERVAL_NS
        return True

    def follow(self, catchup: Catchup) -> None:
        """Let a reader have what it has missed."""
        self._catchups.append(catchup)

    def forget(self, reader: Connection) -> None:
        """It is gone."""
        for catchup in [each for each in self._catchups if each.reader is reader]:
            self._catchups.remove(catchup)
            catchup.close()

    def catch_up(self) -> None:
        """Go on a little with one of the readers that miss something."""
        for _ in range(len(self._catchups)):
            catchup = self._catchups.popleft()
            if catchup.waits:
                self._catchups.append(catchup)
                continue
            try:
                done = catchup.step()
            except LabStableError as error:
                _log.error("%s", error)
                catchup.close()
                catchup.reader.end()
                return
            if not done:
                self._catchups.append(catchup)
            self.enlist(catchup.reader)
            return
