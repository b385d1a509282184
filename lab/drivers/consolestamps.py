"""Time between two printed texts, by the console server's stamps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from attrs import frozen

from lab.benchmarks.output import missing
from lab.benchmarks.section import Marks, OutputSpan
from lab.boards import MomentPattern
from lab.console.model import Chunk, Event, Gap, LineTiming, Suspended, interval
from lab.console.moments import find_moments
from lab.errors import LabTransientError
from lab.metrics import Moment

_BEGIN, _END = "begin", "end"


@frozen
class ConsoleStamps:
    """A `lab.run.session.Stamps` of a StampedConsoleDriver.

    Attributes:
        timing: how exactly the stamps are known.
    """

    console: Any
    timing: Callable[[], LineTiming]

    def since_now(self) -> Callable[[Marks], OutputSpan]:
        before = len(self.console.capture)

        def span(marks: Marks) -> OutputSpan:
            return _span(self.console.capture, before, marks, self.timing())

        return span


def _span(events: Sequence[Event], before: int, marks: Marks, timing: LineTiming) -> OutputSpan:
    """Measure the span in the events behind the first `before`.

    Earlier events are evaluated, too, as they show the lateness of the reader.
    """
    _check(events[before:])
    start = next((event.position for event in events[before:] if isinstance(event, Chunk)), 0)
    patterns = [MomentPattern(_BEGIN, marks.begin), MomentPattern(_END, marks.end)]
    found = [moment for moment in find_moments(events, patterns, timing) if moment.position > start]
    begin = _first(found, _BEGIN, marks.begin)
    end = _first([moment for moment in found if moment.position > begin.position], _END, marks.end)
    took = interval(begin, end)
    between = end.position - begin.position
    return OutputSpan(
        took.seconds, took.uncertainty_s, timing.bytes_ns(len(begin.text)) / 1e9, timing.bytes_ns(between) / 1e9
    )


def _first(moments: Sequence[Moment], name: str, pattern: str) -> Moment:
    found = next((moment for moment in moments if moment.name == name), None)
    if found is None:
        raise missing("the console", f"a text like {pattern!r}", moments[-1].text if moments else "")
    return found


def _check(events: Sequence[Event]) -> None:
    for event in events:
        if isinstance(event, Suspended):
            raise LabTransientError(
                f"the host's clock went {abs(event.missing_ns) / 1e9:.3f} s {'behind' if event.missing_ns > 0 else 'ahead'} while the board "
                "was timed: the host was suspended, or its virtual machine paused or moved. Keep it awake while it measures "
                "(systemctl mask sleep.target)",
                failure="host_suspended",
            )
        if isinstance(event, Gap):
            raise LabTransientError(
                "bytes of the console are missing in what was timed: look at the adapter (dmesg) and the console server "
                "(lab console list)",
                failure="adapter_lost",
            )
