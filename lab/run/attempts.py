"""Evidence of an attempt: console log, moments, samples, lost bytes and clocks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from attrs import define, evolve, field, frozen

from lab.benchmarks.boot.records import MomentLike
from lab.console.model import Event, Gap
from lab.console.published import BARE_ADAPTER
from lab.console.recording import encode
from lab.console.serial_port import is_pty
from lab.console.status import PortInfo
from lab.errors import BoardlabError, LabTransientError
from lab.host.clockrelation import ClockRelation
from lab.metrics import Flag, catalogue
from lab.results import ArtifactRef, Moment, SampleRecord, Store
from lab.results.records import CONSOLE_INDEX, CONSOLE_LOG


class RunConsole(Protocol):
    """The console driver's interface for a run."""

    capture: list[Event]
    info: PortInfo | None

    def blame_sharing(self, error: BoardlabError) -> BoardlabError:
        """Return the failure, explained by another reader of the port if any."""
        ...

    def start_capture(self) -> None:
        """Discard earlier input and start a capture."""
        ...

    def captured(self) -> bytes:
        """The bytes of `capture`."""
        ...

    def overruns(self) -> int:
        """Number of characters lost by the driver since `start_capture`."""
        ...


@define
class ByteLossDetector:
    """Detects lost bytes of a console: driver's counters or gaps.

    A number read from the rest may lack a digit, and nothing in it shows that.
    """

    console: RunConsole
    _overruns: int = field(default=0, init=False)
    _events: list[Event] = field(factory=list, init=False)
    _examined: int = field(default=0, init=False)  # number of these events

    def flags(self) -> frozenset[Flag]:
        """Flags of the bytes since the last call.

        Raises:
            LabTransientError: the console server has vanished.
        """
        events, overruns = self.console.capture, self.console.overruns()
        new = events[self._examined if events is self._events else 0 :]
        before = self._overruns if overruns >= self._overruns else 0  # it counts anew from each power-on
        self._events, self._examined, self._overruns = events, len(events), overruns
        lost = overruns > before or any(isinstance(event, Gap) for event in new)
        return frozenset({Flag.CONSOLE_OVERRUN} if lost else ())


@frozen
class AttemptResult:
    """The result of an attempt; a failed one has artifacts and details.

    Attributes:
        params: its item of the run's plan, e.g. {"medium": "sd"}.
    """

    params: Mapping[str, str]
    artifacts: tuple[ArtifactRef, ...]
    details: Mapping[str, object]
    samples: tuple[SampleRecord, ...] = ()
    moments: tuple[Moment, ...] = ()


def moment_record(moment: MomentLike, base: int) -> Moment:
    """A moment for the store; `base`: stream position of the log."""
    return Moment(moment.name, moment.t_ns, moment.uncertainty_ns, moment.position - base, moment.text)


def sample_record(sample: SampleRecord, base: int) -> SampleRecord:
    """The sample with its window relative to the log's `base`.

    A part of the stream that the log lacks is no window.
    """
    flags = frozenset(str(flag) for flag in sample.flags)
    if sample.log_end is None or sample.log_end < base:
        return evolve(sample, flags=flags, log_start=None, log_end=None)
    return evolve(sample, flags=flags, log_start=max(0, (sample.log_start or 0) - base), log_end=sample.log_end - base)


def uncounted_number(sample: SampleRecord) -> dict[str, object]:
    """The document of a number that a failed attempt measured."""
    metric = sample.declared or catalogue.find(sample.metric)
    unit = metric.unit if metric else ""
    return {"metric": sample.metric, "value": sample.value, "unit": unit, "params": dict(sample.params)}


def store_recording(store: Store, console: RunConsole) -> tuple[ArtifactRef, ...]:
    """Store the attempt's console log with stamps; () without output."""
    if not console.capture or console.info is None:
        return ()
    log, index = encode(console.info.meta, console.capture)
    return (store.artifacts.put(log, kind=CONSOLE_LOG), store.artifacts.put(index, kind=CONSOLE_INDEX))


def base_of(console: RunConsole) -> int:
    """Stream position at which an attempt's log begins."""
    return console.capture[0].position if console.capture else 0


def port_flags(info: PortInfo | None) -> frozenset[Flag]:
    """Flags of every number on this port.

    `simulated`: no real board uses a pseudo terminal; `remote_stamp`: another program's TCP port.
    """
    if info is None:
        return frozenset()
    simulated = {Flag.SIMULATED} if info.meta.pty or is_pty(Path(info.meta.device)) else set()
    return frozenset(simulated | ({Flag.REMOTE_STAMP} if info.meta.adapter == BARE_ADAPTER else set()))


def check_clocks(console: RunConsole, since_ns: int) -> None:
    """Check that a remote console's clock did not jump since then.

    Raises:
        LabTransientError: it is unrelated to this host's (`clock_unrelated`), or that host is out of reach.
    """
    check = getattr(console, "check_clock", None)
    if check is not None:
        check(since_ns)


def clocks_document(console: RunConsole) -> dict[str, object]:
    """A remote console's clock relation for an attempt's details; {} if local."""
    relation: ClockRelation | None = getattr(console, "relation", None)
    if relation is None:
        return {}
    try:
        return {"console_clock": relation.document()}
    except LabTransientError as error:
        return {"console_clock": {"host": relation.name, "unrelated": str(error)}}
