"""A suspend that is under way, as the console shows it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from attrs import define, evolve, field

from lab.benchmarks.boot.crosscheck import DMESG
from lab.benchmarks.lowpower.kernellog import read_log
from lab.benchmarks.lowpower.preflight import (
    PrintkSettings,
    Stats,
    stats,
)
from lab.benchmarks.lowpower.watch import SuspendWatch
from lab.console.model import LATE_WINDOW_NS, Lateness
from lab.console.moments import MomentFinder, feed_watch
from lab.control.cold_boot import POLL_S
from lab.control.lost_power import explain_silence
from lab.errors import BoardlabError, BoardTransientError
from lab.run.board import Board

T = TypeVar("T")


def answer_or_none(question: Callable[[], T]) -> T | None:
    """The board's answer; None: it gave none, which is a flag of the number and loses no cycle."""
    try:
        return question()
    except BoardlabError:
        return None


@define(eq=False)
class SuspendMonitor:
    """Feeds what the console says to the watch of a suspend.

    Attributes:
        finders: of the watch's moments.
        printk: the kernel's consoles before it.
        before: its counters before it.
        before_ns: when the board said the counters.
        taken: how much of the console's capture the watch has.
    """

    board: Board
    watch: SuspendWatch
    finders: list[MomentFinder]
    printk: PrintkSettings
    before: Stats | None
    before_ns: int
    taken: int
    _late: bool = field(default=False, init=False)

    def step(self) -> None:
        """Take what the console says.

        Raises:
            BoardTransientError: the suspend has failed.
            LabTransientError: the host was suspended meanwhile.
        """
        console, watch = self.board.console, self.watch
        console.poll(POLL_S)
        for event in console.capture[self.taken :]:
            feed_watch(watch, event, self.finders)
        self.taken = len(console.capture)
        try:
            with explain_silence(self.board, rails=False):
                watch.check(self.board.power.clock.now_ns())
            self._late = False
        except BoardTransientError as error:
            if self._has_link and not self._late:
                self._late = True
                console.sync()  # bytes on a slow link may still come from the board
                self.step()
                return
            if watch.done:
                raise self._explain(error) from error
            raise

    def asleep(self, now_ns: int) -> bool:
        """Return whether the board sleeps, after a sync with its console."""
        return self.watch.asleep(now_ns) and not (self._has_link and self.board.console.sync())

    @property
    def _has_link(self) -> bool:
        return getattr(self.board.console, "relation", None) is not None

    def settle_edge(self) -> None:
        """Add the lateness of a busy host to the wake-up edge."""
        edge = self.watch.edge
        if edge is not None:
            late = [
                event.lateness_ns
                for event in self.board.console.capture
                if isinstance(event, Lateness) and abs(event.t_ns - edge.t_ns) <= LATE_WINDOW_NS
            ]
            self.watch.edge = evolve(edge, late_ns=max(late, default=0))

    def drain(self) -> None:
        """Whatever came so far is no answer to the next command."""
        while self.board.console.poll(POLL_S):
            pass
        self.board.console.forget_input()

    def _explain(self, error: BoardTransientError) -> BoardTransientError:
        """A failure of a board that answers, with what its kernel says."""
        self.drain()
        shell, before = self.board.linux, self.before
        reason = read_log(answer_or_none(lambda: shell.run(DMESG)[0]) or (), self.board.type).reason
        after = answer_or_none(lambda: stats(shell, self.board.type))
        failed = before is not None and after is not None and after.fail > before.fail and after.last_failed
        reasons = [*([repr(reason)] if reason else []), *([f"its suspend_stats name {failed}"] if failed else [])]
        text = f"{error}. The kernel: {', '.join(reasons)}"
        return BoardTransientError(text, failure=error.failure) if reasons else error
