"""Re-watching of recorded boots: a recording gives the result that a live run would have given.

The loop is that of `lab.control.boot_progress`, with a clock that steps through the recording and then through
silence, until the watch is done.
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
SNAPSHOT_EVENTS = 40  # events between two snapshots of a known boot
ANSWERED_NS = 5_000_000  # from the carriage return to its answer, about as long as getty takes


@frozen
class PromptReply:
    """The answer of a board at its prompt to a carriage return.

    Attributes:
        since_ns: the board answers from this instant on.
    """

    text: bytes
    since_ns: int


@frozen
class RewatchResult:
    """The result of a re-watched boot: its samples or its error, and its moments.

    Attributes:
        start, prompt: the boot time is the time between them; None: the boot failed, or has no start.
        line: the time line as far as the console shows it.
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
) -> RewatchResult:
    """Watch a recorded boot as a live run would, and judge it.

    Args:
        events: recorded events of the console.
        power: the power on before them.
        answer: what the board answers to a carriage return at its prompt; None: nothing.
    """
    return Rewatcher(board, medium, power, timing).rewatch(events, answer)


@define(eq=False)
class Rewatcher:
    """Watches many recordings of one board that begin alike, e.g. damaged copies of one boot.

    `know` keeps snapshots of one boot; a recording that begins with the same events is watched from the last snapshot
    that it shares.
    """

    board: BoardType
    medium: str
    power: PowerEdge
    timing: LineTiming
    _known_events: Sequence[Event] = field(default=(), init=False)
    _snapshots: list[_Playback] = field(factory=list, init=False)

    def know(self, events: Sequence[Event]) -> None:
        """Keep snapshots of this boot, in place of those of an earlier one."""
        self._known_events = events
        self._snapshots = []
        playback = self._start_playback()
        with suppress(BoardlabError):
            for first in range(0, len(events), SNAPSHOT_EVENTS):
                playback.run(events[first : first + SNAPSHOT_EVENTS], None, goes_on=True)
                self._snapshots.append(self._copy(playback))

    def rewatch(self, events: Sequence[Event], answer: PromptReply | None = None) -> RewatchResult:
        """Watch a boot and judge it.

        Args:
            answer: what the board answers to a carriage return at its prompt; None: nothing.
        """
        playback = self._resume_playback(events)
        watch = playback.watch
        try:
            playback.run(events[len(playback.captured) :], answer)
            samples = watch.finish(compare_clocks(playback.captured, self.timing).flags)
        except BoardlabError as error:
            return RewatchResult((), error, tuple(watch.moments))
        return RewatchResult(tuple(samples), None, tuple(watch.moments), watch.start, watch.prompt, watch.time_line)

    def watch(self, events: Sequence[Event], answer: PromptReply | None = None) -> BootWatch:
        """Watch a boot to its prompt, and return its watch.

        Raises:
            BoardlabError: the boot failed.
        """
        playback = self._resume_playback(events)
        playback.run(events[len(playback.captured) :], answer)
        return playback.watch

    def _resume_playback(self, events: Sequence[Event]) -> _Playback:
        """Return a copy of the last snapshot whose events this boot shares, or else a new playback."""
        pairs = zip(self._known_events, events, strict=False)
        shared_events = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        if shared_events < SNAPSHOT_EVENTS or not self._snapshots:
            return self._start_playback()
        return self._copy(self._snapshots[min(shared_events // SNAPSHOT_EVENTS, len(self._snapshots)) - 1])

    def _start_playback(self) -> _Playback:
        watch = BootWatch(self.board, self.medium, self.power)
        return _Playback(watch, MomentFinder(self.board.markers, self.timing), self.timing, self.power.acknowledged_ns)

    def _copy(self, playback: _Playback) -> _Playback:
        """Return a deep copy, except for the records that never change."""
        shared = (self.board, self.board.troubles, *playback.captured, *playback.watch.moments)
        return deepcopy(playback, {id(record): record for record in shared})


@define(eq=False)
class _Playback:
    """Plays a recording to a watch, then silence.

    Attributes:
        now_ns: the playback's clock.
        captured: events that have been played.
    """

    watch: BootWatch
    finder: MomentFinder
    timing: LineTiming
    now_ns: int
    captured: list[Event] = field(factory=list, init=False)
    _coming: deque[Event] = field(factory=deque, init=False)

    def run(self, events: Sequence[Event], answer: PromptReply | None, *, goes_on: bool = False) -> None:
        """Play events until the watch is done.

        Args:
            answer: what the board answers to a carriage return at its prompt; None: nothing.
            goes_on: True: stop after these events, since more will follow; False: play silence after them.

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
        """Send a carriage return; insert its answer among the events that are still to come."""
        if answer is None or self.now_ns < answer.since_ns:
            return
        size = len(answer.text)
        t_ns = self.now_ns + ANSWERED_NS + self.timing.bytes_ns(size)
        earlier = [event for event in self._coming if event.t_ns <= t_ns]
        later = [event for event in self._coming if event.t_ns > t_ns]
        last = next((event for event in reversed([*self.captured, *earlier]) if isinstance(event, Chunk)), None)
        reply = Chunk(t_ns, last.end if last else 0, answer.text)
        self._coming = deque([*earlier, reply, *(evolve(event, position=event.position + size) for event in later)])
