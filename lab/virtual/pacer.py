"""One timer for all UARTs of a process."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from typing import Protocol

from lab.host.clock import Clock, TimerFd

_EXPIRED = -1  # no deadline: the timer went off and has to be set or stopped


class Paced(Protocol):
    """Something that has to act at a time of its own."""

    def deadline_ns(self) -> int | None:
        """When to act next, on the pacer's clock; None: nothing to do."""
        ...

    def fire(self) -> None:
        """Act; called at or after the deadline."""
        ...


class Pacer:
    """Fires each of its `Paced` at its deadline, to the resolution of the kernel's timers.

    One heap and one timerfd serve all of them: what falls due together costs one wake-up.
    """

    def __init__(self, clock: Clock, loop: asyncio.AbstractEventLoop) -> None:
        self.clock = clock
        self._loop = loop
        self._timer = TimerFd()
        self._order = itertools.count()
        self._heap: list[tuple[int, int, Paced]] = []
        self._due: dict[Paced, int] = {}  # what counts; the heap also holds deadlines that were replaced
        self._armed_ns: int | None = None
        self._firing: Paced | None = None
        loop.add_reader(self._timer.fileno(), self._expired)

    def update(self, paced: Paced) -> None:
        """Look again at the deadline of `paced`, which may have changed."""
        if paced is not self._firing:  # it is looked at when it is done
            self._enter(paced)
            if self._firing is None:
                self._arm()

    def remove(self, paced: Paced) -> None:
        """Never fire `paced` again until its next `update`."""
        self._due.pop(paced, None)

    def close(self) -> None:
        """Stop the timer."""
        self._loop.remove_reader(self._timer.fileno())
        self._timer.close()

    def _enter(self, paced: Paced) -> None:
        deadline_ns = paced.deadline_ns()
        if deadline_ns is None:
            self._due.pop(paced, None)
        elif self._due.get(paced) != deadline_ns:
            self._due[paced] = deadline_ns
            heapq.heappush(self._heap, (deadline_ns, next(self._order), paced))

    def _expired(self) -> None:
        now_ns = self.clock.now_ns()
        try:
            # `now_ns` stays fixed, so that a pacer that cannot keep up still lets the loop do its other work.
            while self._heap and self._heap[0][0] <= now_ns:
                deadline_ns, _, paced = heapq.heappop(self._heap)
                if self._due.get(paced) == deadline_ns:
                    del self._due[paced]
                    self._firing = paced
                    paced.fire()
                    self._firing = None
                    self._enter(paced)
        finally:
            self._firing = None
            self._armed_ns = _EXPIRED
            self._arm()

    def _arm(self) -> None:
        while self._heap and self._due.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        earliest_ns = self._heap[0][0] if self._heap else None
        if earliest_ns == self._armed_ns:
            return
        self._armed_ns = earliest_ns
        if earliest_ns is None:
            self._timer.stop()
        else:
            self._timer.start(earliest_ns - self.clock.now_ns())
