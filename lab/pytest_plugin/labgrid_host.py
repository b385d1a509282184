"""A labgrid driver with CommandProtocol as a host of sections, and the console's stamps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from attrs import frozen

from lab.benchmarks.output import missing
from lab.benchmarks.section import Marks, OutputSpan
from lab.boards import MomentPattern
from lab.console.model import Chunk, Event, Gap, LineTiming, Suspended, interval
from lab.console.moments import find_moments
from lab.drivers import guarded_calls
from lab.drivers.guarded_calls import SHELL, TESTER, UBOOT, DriverRole
from lab.drivers.prompt import MORE_S
from lab.errors import BoardlabError, BoardTransientError, LabTransientError
from lab.metrics import Moment
from lab.run.session import CommandResult

_BEGIN, _END = "begin", "end"  # of an output that the console times
_NO_ANSWER: Final = frozenset({"timeout", "failed", "unreachable"})


def _nothing() -> None: ...


@frozen
class LabgridHost:
    """A driver with CommandProtocol.

    Attributes:
        name: how messages call it.
        error: whose fault it is when it does not answer.
        is_shell: a POSIX shell, whose output may hold any bytes; else U-Boot's prompt.
        lost_hook: called when it does not answer; its state is not known from then on.
    """

    driver: Any
    name: str
    error: type[BoardTransientError | LabTransientError] = BoardTransientError
    is_shell: bool = True
    lost_hook: Callable[[], None] = _nothing

    def run(self, command: str, timeout_s: float) -> CommandResult:
        """Run a command and return its output and status.

        Raises:
            BoardTransientError, LabTransientError: it did not end in time, or the answer came in pieces.
            BoardlabError: the driver failed otherwise, see `lab.drivers.guarded_calls`.
        """
        more = {"codec": "utf-8", "decodeerrors": "replace"} if self.is_shell else {}

        def run() -> CommandResult:
            stdout, stderr, status = self.driver.run(command, timeout=timeout_s, **more)
            return CommandResult([*stdout, *stderr], status)

        try:
            return guarded_calls.call(self.driver, self._kind, f"`{command}` on {self.name}", run, timeout_s + MORE_S)
        except BoardlabError as error:
            self.lost_hook()
            if self._kind is TESTER or error.failure.removeprefix(f"{self._kind.name}_") not in _NO_ANSWER:
                raise
            raise BoardTransientError(
                f"`{command}` did not end on {self.name} within {timeout_s:g} s, or its answer came in pieces; the "
                f"board is power-cycled before the next try. {error}",
                failure="command_timeout",
            ) from error

    @property
    def _kind(self) -> DriverRole:
        if issubclass(self.error, LabTransientError):
            return TESTER
        return SHELL if self.is_shell else UBOOT


@frozen
class ConsoleStamps:
    """Time between two printed texts, by the console server's stamps (`lab.run.session.Stamps`).

    Attributes:
        console: a StampedConsoleDriver.
        timing: how exactly the stamps are known.
    """

    console: Any
    timing: Callable[[], LineTiming]

    def since_now(self) -> Callable[[Marks], OutputSpan]:
        before = len(self.console.capture)

        def span(marks: Marks) -> OutputSpan:
            timing = self.timing()
            _check_unbroken(self.console.capture[before:])
            start = next((event.position for event in self.console.capture[before:] if isinstance(event, Chunk)), 0)
            patterns = [MomentPattern(_BEGIN, marks.begin), MomentPattern(_END, marks.end)]
            moments = [
                moment for moment in find_moments(self.console.capture, patterns, timing) if moment.position > start
            ]
            begin = _first_moment(moments, _BEGIN, marks.begin)
            end = _first_moment([moment for moment in moments if moment.position > begin.position], _END, marks.end)
            took = interval(begin, end)
            between = end.position - begin.position
            return OutputSpan(
                took.seconds,
                took.uncertainty_s,
                timing.bytes_ns(len(begin.text)) / 1e9,
                timing.bytes_ns(between) / 1e9,
            )

        return span


def _first_moment(moments: Sequence[Moment], name: str, pattern: str) -> Moment:
    for moment in moments:
        if moment.name == name:
            return moment
    raise missing("the console", f"a text like {pattern!r}", moments[-1].text if moments else "")


def _check_unbroken(events: Sequence[Event]) -> None:
    for event in events:
        if isinstance(event, Suspended):
            raise LabTransientError(
                f"the host's clock went {abs(event.missing_ns) / 1e9:.3f} s "
                f"{'behind' if event.missing_ns > 0 else 'ahead'} while the board was timed: the host was suspended, "
                "or its virtual machine paused or moved. Keep it awake while it measures (systemctl mask sleep.target)",
                failure="host_suspended",
            )
        if isinstance(event, Gap):
            raise LabTransientError(
                "bytes of the console are missing in what was timed: look at the adapter (dmesg) and the console "
                "server (lab console list)",
                failure="adapter_lost",
            )
