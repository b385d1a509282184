"""A suspend that is under way, as the console shows it."""

from __future__ import annotations

from attrs import define, evolve, field

from lab.benchmarks.lowpower.kernellog import read_log
from lab.benchmarks.lowpower.preflight import PrintkSettings, Stats
from lab.benchmarks.lowpower.watch import SuspendWatch
from lab.console.model import LATE_WINDOW_NS, Lateness
from lab.console.moments import MomentFinder, feed_watch
from lab.errors import BoardTransientError
from lab.strategies.drivenboard import DrivenBoard
from lab.strategies.following import power_asked

POLL_S = 0.05


@define(eq=False)
class SuspendMonitor:
    """Feeds what the console says to the watch of a suspend.

    Attributes:
        finders: of the watch's moments.
        found, before: the kernel's consoles and counters before it.
        taken: how much of the console's capture the watch has.
    """

    board: DrivenBoard
    watch: SuspendWatch
    finders: list[MomentFinder]
    found: PrintkSettings
    before: Stats
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
            with power_asked(self.board, rails=False):
                watch.check(self.board.power.clock.now_ns())
            self._late = False
        except BoardTransientError as error:
            if self._has_link and not self._late:
                self._late = True
                console.sync()  # what a slow link to another host still has may speak for the board
                self.step()
                return
            if watch.done:
                raise self._explained(error) from error
            raise

    def asleep(self, now_ns: int) -> bool:
        """Whether the board sleeps: what a slow link to the console's host still has would speak against it."""
        return self.watch.asleep(now_ns) and not (self._has_link and self.board.console.sync())

    @property
    def _has_link(self) -> bool:
        return getattr(self.board.console, "relation", None) is not None

    def settle_edge(self) -> None:
        """Add to the wake-up edge what the console's reader has noticed of a busy host around it."""
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

    def _explained(self, error: BoardTransientError) -> BoardTransientError:
        """A failure of a board that answers, with what its kernel says."""
        self.drain()
        reason = read_log(self.board.linux.run("dmesg")[0], self.board.type).reason
        return BoardTransientError(f"{error}. The kernel: {reason!r}", failure=error.failure) if reason else error
