"""Re-watching of a recorded boot, with a live run's result.

It is the loop of `lab.control.boot_progress` with a clock that steps through the recording, then through silence.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from copy import deepcopy
from itertools import takewhile

from attrs import define, evolve, field, frozen

from lab.benchmarks.boot import BootWatch, MomentLike, PowerEdge
from lab.benchmarks.boot.timeline import NO_LINE, TimeLine
from lab.boards import BoardType
from lab.console.model import Chunk, Event, LineTiming
from lab.console.moments import MomentFinder, feed_watch
from lab.errors import BoardlabError
from lab.metrics import SampleRecord
from lab.run.boot import compare_clocks

POLL_NS = 50_000_000  # as lab.control.boot_progress
PLACE_EVENTS = 40  # between two places at which a known boot can be taken up
ANSWERED_NS = 5_000_000  # after a carriage return; getty takes about so long


@frozen
class PromptReply:
    """The reply of a board at its prompt to a carriage return."""

    text: bytes
    since_ns: int


@frozen
class Rewatched:
    """The result of a boot: samples or error, and its moments.

    Attributes:
        start, prompt: between which its boot time was taken; None: it is no boot from the kernel's start.
        line: what the console tells of its prompt.
    """

    samples: tuple[SampleRecord, ...]
    error: BoardlabError | None
    moments: tuple[MomentLike, ...]
    start: MomentLike | None = None
    prompt: MomentLike | None = None
    line: TimeLine = NO_LINE


def rewatch(
    events: Sequence[Event],
    board: BoardType,
    medium: str,
    power: PowerEdge,
    timing: LineTiming,
    answer: PromptReply | None = None,
) -> Rewatched:
    """Watch a boot as a live run would, and judge it.

    Args:
        answer: None: a carriage return gets no answer.
    """
    return Rewatcher(board, medium, power, timing).rewatch(events, answer)


@define(eq=False)
class Rewatcher:
    """Watches recordings of one board, reusing the known beginning."""

    board: BoardType
    medium: str
    power: PowerEdge
    timing: LineTiming
    _known: Sequence[Event] = field(default=(), init=False)
    _places: list[_Following] = field(factory=list, init=False)

    def know(self, events: Sequence[Event]) -> None:
        """Store states of a known boot at regular events."""
        self._known = events
        self._places = []
        following = self._begin()
        with suppress(BoardlabError):
            for at in range(0, len(events), PLACE_EVENTS):
                following.run(events[at : at + PLACE_EVENTS], None, goes_on=True)
                self._places.append(self._copy(following))

    def rewatch(self, events: Sequence[Event], answer: PromptReply | None = None) -> Rewatched:
        """Watch a boot and judge it; `answer` None: no prompt reply."""
        following = self._take_up(events)
        watch = following.watch
        try:
            following.run(events[len(following.captured) :], answer)
            samples = watch.finish(compare_clocks(following.captured, self.timing).flags)
        except BoardlabError as error:
            return Rewatched((), error, tuple(watch.moments))
        return Rewatched(tuple(samples), None, tuple(watch.moments), watch.start, watch.prompt, watch.time_line)

    def watch(self, events: Sequence[Event], answer: PromptReply | None = None) -> BootWatch:
        """The watch of a boot that has reached its prompt.

        Raises:
            BoardlabError: it failed.
        """
        following = self._take_up(events)
        following.run(events[len(following.captured) :], answer)
        return following.watch

    def _take_up(self, events: Sequence[Event]) -> _Following:
        """A following that knows the beginning that the boot shares with the known one."""
        following = self._begin()
        alike = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(self._known, events, strict=False)))
        if alike >= PLACE_EVENTS and self._places:
            following = self._copy(self._places[min(alike // PLACE_EVENTS, len(self._places)) - 1])
        return following

    def _begin(self) -> _Following:
        watch = BootWatch(self.board, self.medium, self.power)
        return _Following(
            watch, MomentFinder(self.board.markers, self.timing), self.timing, self.power.acknowledged_ns
        )

    def _copy(self, following: _Following) -> _Following:
        shared = (self.board, self.board.troubles, *following.captured, *following.watch.moments)
        return deepcopy(following, {id(record): record for record in shared})


@define(eq=False)
class _Following:
    """Feeds a boot to its watch, with its limits, then silence."""

    watch: BootWatch
    finder: MomentFinder
    timing: LineTiming
    now_ns: int
    captured: list[Event] = field(factory=list, init=False)
    _coming: deque[Event] = field(factory=deque, init=False)

    def run(self, events: Sequence[Event], answer: PromptReply | None, *, goes_on: bool = False) -> None:
        """Follow the boot to its end.

        Args:
            goes_on: stop after these events, since more follow.

        Raises:
            BoardlabError: the boot failed.
        """
        self._coming = deque(events)
        watch = self.watch
        asked_at: int | None = None
        while not watch.done and not (goes_on and not self._coming):
            if self._coming and self._coming[0].t_ns <= self.now_ns + POLL_NS:
                self.now_ns = max(self.now_ns, self._coming[0].t_ns)
                while self._coming and self._coming[0].t_ns <= self.now_ns:
                    event = self._coming.popleft()
                    self.captured.append(event)
                    feed_watch(self.watch, event, [self.finder])
            else:
                self.now_ns += POLL_NS
            watch.check(self.now_ns)
            if watch.asks:
                asked_at = len(self.captured)
                self._ask(answer)
                watch.asked(self.now_ns)
        if asked_at is not None:
            del self.captured[asked_at:]  # the answer is no part of the boot

    def _ask(self, answer: PromptReply | None) -> None:
        """Send a carriage return; its reply comes between other events."""
        if answer is None or self.now_ns < answer.since_ns:
            return
        size = len(answer.text)
        t_ns = self.now_ns + ANSWERED_NS + self.timing.bytes_ns(size)
        earlier = [event for event in self._coming if event.t_ns <= t_ns]
        later = [event for event in self._coming if event.t_ns > t_ns]
        last = next((event for event in reversed([*self.captured, *earlier]) if isinstance(event, Chunk)), None)
        reply = Chunk(t_ns, last.end if last else 0, answer.text)
        self._coming = deque([*earlier, reply, *(evolve(event, position=event.position + size) for event in later)])
