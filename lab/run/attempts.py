"""The evidence of an attempt: console log, moments, samples, lost bytes and clocks."""

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
    """The console driver's interface for a run.

    Attributes:
        capture: events since `start_capture`: chunks of bytes with stamps, and gaps.
        info: the port; None: the driver is not connected.
    """

    capture: list[Event]
    info: PortInfo | None

    def blame_sharing(self, error: BoardlabError) -> BoardlabError:
        """Return another error if a second program reads the port, else this one."""
        ...

    def start_capture(self) -> None:
        """Discard earlier input and start a capture."""
        ...

    def captured(self) -> bytes:
        """Return the bytes of `capture`."""
        ...

    def overruns(self) -> int:
        """Return how many characters the driver has lost since `start_capture`."""
        ...


@define
class ByteLossDetector:
    """Detects bytes that a console has lost, by the driver's counters and by gaps.

    A number in the remaining text may lack a digit without any sign of it.
    """

    console: RunConsole
    _overruns: int = field(default=0, init=False)
    _events: list[Event] = field(factory=list, init=False)
    _examined_events: int = field(default=0, init=False)

    def flags(self) -> frozenset[Flag]:
        """Return `console_overrun` if bytes were lost since the last call, else no flag.

        Raises:
            LabTransientError: the console server has vanished.
        """
        events, overruns = self.console.capture, self.console.overruns()
        new_events = events[self._examined_events if events is self._events else 0 :]
        earlier_overruns = self._overruns if overruns >= self._overruns else 0  # each power on restarts the counter
        self._events, self._examined_events, self._overruns = events, len(events), overruns
        lost = overruns > earlier_overruns or any(isinstance(event, Gap) for event in new_events)
        return frozenset({Flag.CONSOLE_OVERRUN} if lost else ())


@frozen
class AttemptResult:
    """The evidence that is stored with an attempt.

    A failed attempt has artifacts and details only.

    Attributes:
        params: the attempt's item of the run's plan, e.g. {"medium": "sd"}.
        artifacts: stored files, e.g. the console's log.
        details: further facts, as JSON.
    """

    params: Mapping[str, str]
    artifacts: tuple[ArtifactRef, ...]
    details: Mapping[str, object]
    samples: tuple[SampleRecord, ...] = ()
    moments: tuple[Moment, ...] = ()


def moment_record(moment: MomentLike, log_base: int) -> Moment:
    """Return a moment with its position in the log in place of that in the console's stream.

    Args:
        log_base: stream position at which the log begins, see `log_base`.
    """
    return Moment(moment.name, moment.t_ns, moment.uncertainty_ns, moment.position - log_base, moment.text)


def sample_record(sample: SampleRecord, log_base: int) -> SampleRecord:
    """Return a sample with its window in the log in place of that in the console's stream.

    A window that ends before the log begins is dropped.

    Args:
        log_base: stream position at which the log begins, see `log_base`.
    """
    flags = frozenset(str(flag) for flag in sample.flags)
    if sample.log_end is None or sample.log_end < log_base:
        return evolve(sample, flags=flags, log_start=None, log_end=None)
    start = max(0, (sample.log_start or 0) - log_base)
    return evolve(sample, flags=flags, log_start=start, log_end=sample.log_end - log_base)


def uncounted_number(sample: SampleRecord) -> dict[str, object]:
    """Return a number that a failed attempt measured, as an entry of its details."""
    metric = sample.declared or catalogue.find(sample.metric)
    unit = metric.unit if metric else ""
    return {"metric": sample.metric, "value": sample.value, "unit": unit, "params": dict(sample.params)}


def store_recording(store: Store, console: RunConsole) -> tuple[ArtifactRef, ...]:
    """Store the attempt's console log, and its stamps as a second file.

    Returns:
        Both files; empty if the board printed nothing.
    """
    if not console.capture or console.info is None:
        return ()
    log, index = encode(console.info.meta, console.capture)
    return (store.artifacts.put(log, kind=CONSOLE_LOG), store.artifacts.put(index, kind=CONSOLE_INDEX))


def log_base(console: RunConsole) -> int:
    """Return the position in the console's stream at which the attempt's log begins."""
    return console.capture[0].position if console.capture else 0


def port_flags(info: PortInfo | None) -> frozenset[Flag]:
    """Return the flags of every number that is read from this port.

    A pseudo terminal is `simulated`: no real board has one. A TCP port of another program is `remote_stamp`: the
    stamps are of the arrival over the network.
    """
    if info is None:
        return frozenset()
    simulated = {Flag.SIMULATED} if info.meta.pty or is_pty(Path(info.meta.device)) else set()
    return frozenset(simulated | ({Flag.REMOTE_STAMP} if info.meta.adapter == BARE_ADAPTER else set()))


def check_clocks(console: RunConsole, since_ns: int) -> None:
    """Check that a remote console's clock has not jumped since an instant.

    Args:
        since_ns: the instant, by that clock. A local console is not checked.

    Raises:
        LabTransientError: the clock is unrelated to this host's (`clock_unrelated`), or its host is out of reach.
    """
    check = getattr(console, "check_clock", None)
    if check is not None:
        check(since_ns)


def clocks_document(console: RunConsole) -> dict[str, object]:
    """Return the relation of a remote console's clock to this host's, as details of an attempt.

    Returns:
        The relation by the key `console_clock`; empty for a local console.
    """
    relation: ClockRelation | None = getattr(console, "relation", None)
    if relation is None:
        return {}
    try:
        return {"console_clock": relation.document()}
    except LabTransientError as error:
        return {"console_clock": {"host": relation.name, "unrelated": str(error)}}
