"""The rails of a board as they are sampled, for any number of viewers: each trace is read once for all of them."""

from __future__ import annotations

import threading
import time
from collections import deque
from pathlib import Path
from typing import Final

from attrs import define, evolve, field, frozen

from lab.errors import BoardlabError
from lab.host import process
from lab.host import runtime as host_runtime
from lab.host.clock import Clock, MonotonicRaw
from lab.host.runtime import SamplerStatus, runtime_dir
from lab.rails.live import STEP_NS, PowerStep, TraceTail, follow

SPAN_NS: Final = 60_000_000_000  # what a viewer sees
LOOK_S: Final = 0.25  # however many look, a trace is read once in this time
FORGET_S: Final = 60.0  # after nobody looked for so long
NOBODY: Final = (
    "No sampler runs for this board now. Its rails are sampled while a run measures power, and by `lab rails trace`."
)


@frozen
class RailsPiece:
    """What is new of a board's rails.

    Attributes:
        rails: their names. steps: new ones. last: how many there were so far; the next piece is asked for with it.
        begins: whether the viewer should forget what it has: other rails, or it is new. said: why nothing comes; empty: it does.
    """

    rails: tuple[str, ...]
    steps: tuple[PowerStep, ...]
    last: int
    begins: bool
    said: str


@define
class _Rails:
    """The steps of one board, from one trace to the next."""

    board: str
    runtime: Path
    clock: Clock
    steps: deque[PowerStep] = field(factory=lambda: deque(maxlen=SPAN_NS // STEP_NS))
    rails: tuple[str, ...] = ()
    said: str = NOBODY
    last: int = 0
    first_of_rails: int = 0
    looked_s: float = 0.0
    asked_s: float = 0.0
    lock: threading.Lock = field(factory=threading.Lock)
    _tail: TraceTail | None = None
    _sampler: SamplerStatus | None = None

    def since(self, last: int) -> RailsPiece:
        """What came after the step `last`."""
        with self.lock:
            now_s = self.asked_s = time.monotonic()
            if now_s - self.looked_s >= LOOK_S:
                self.looked_s = now_s
                self._look()
            oldest = self.last - len(self.steps)
            begins = last < max(oldest, self.first_of_rails) or last > self.last
            fresh = self.steps if begins else list(self.steps)[last - oldest :]
            return RailsPiece(self.rails, tuple(fresh), self.last, begins, self.said)

    def close(self) -> None:
        """Look no more."""
        if self._tail is not None:
            self._tail.close()
            self._tail = None

    def _look(self) -> None:
        sampler = _sampler_of(self.board, self.runtime)
        try:
            if self._tail is not None:
                self._take(self._tail)  # the last samples of one that has ended, too
            if sampler != self._sampler:
                self.close()
                self._sampler = sampler
            if sampler is not None and self._tail is None:
                self._tail = follow(Path(sampler.trace), SPAN_NS)
                self._take(self._tail)
            self.said = "" if sampler is not None else NOBODY
        except (BoardlabError, OSError) as error:
            self.close()
            self._sampler = None  # the next look tries again
            self.said = str(error)
        old_ns = self.clock.now_ns() - SPAN_NS
        while self.steps and self.steps[0].t_ns < old_ns:
            self.steps.popleft()

    def _take(self, tail: TraceTail) -> None:
        names = tuple(channel.rail for channel in tail.meta.channels)
        if names != self.rails:
            self.rails, self.first_of_rails = names, self.last + 1
            self.steps.clear()
        ahead_ns = self._sampler.ahead_ns if self._sampler is not None else 0
        found = [evolve(step, t_ns=step.t_ns - ahead_ns) for step in tail.read()]
        self.steps.extend(found)
        self.last += len(found)


@define
class LiveRails:
    """The rails of a host's boards.

    Attributes:
        runtime: the runtime folder, in which samplers say where their traces are; None: the user's.
    """

    runtime: Path | None = None
    clock: Clock = field(factory=MonotonicRaw)
    _boards: dict[str, _Rails] = field(factory=dict, init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    def since(self, board: str, last: int) -> RailsPiece:
        """What came after the step `last` of a board; a negative one asks for all of the last 60 s."""
        with self._lock:
            now_s = time.monotonic()
            for name in [name for name, each in self._boards.items() if now_s - each.asked_s > FORGET_S]:
                self._boards.pop(name).close()
            its = self._boards.get(board)
            if its is None:
                its = self._boards[board] = _Rails(board, self.runtime or runtime_dir(), self.clock, asked_s=now_s)
        return its.since(last)


def _sampler_of(board: str, runtime: Path) -> SamplerStatus | None:
    """The sampler of a board that lives; one that was killed has left its word behind."""
    told = host_runtime.read_all(runtime / host_runtime.SAMPLERS, SamplerStatus)
    return next((each for each in told if each.board == board and process.has_died(each.holder) is False), None)
