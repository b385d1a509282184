"""What runs of all kinds record: samples, the console's recording, and what the port says about the board."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from lab.benchmarks.boot import BootSample
from lab.console.model import Event
from lab.console.recording import encode
from lab.console.serialport import is_pty
from lab.console.status import PortInfo
from lab.errors import BoardlabError
from lab.metrics import Flag
from lab.results import ArtifactRef, SampleRecord, Store
from lab.results.records import CONSOLE_INDEX, CONSOLE_LOG


class Console(Protocol):
    """What a run needs of the console driver."""

    capture: list[Event]
    info: PortInfo | None

    def blamed(self, error: BoardlabError) -> BoardlabError:
        """What a failure is, now that somebody looks who else reads the port."""
        ...

    def start_capture(self) -> None:
        """Forget what was read before."""
        ...

    def captured(self) -> bytes:
        """The bytes of `capture`."""
        ...

    def overruns(self) -> int:
        """How many characters the port's driver has lost since `start_capture`."""
        ...


def sample_record(sample: BootSample, base: int) -> SampleRecord:
    """A sample for the store; `base`: where in the stream the attempt's log begins."""
    return SampleRecord(
        metric=sample.metric.name,
        params=dict(sample.params),
        value=sample.sample.value,
        uncertainty=sample.sample.uncertainty,
        flags=frozenset(str(flag) for flag in sample.sample.flags),
        log_start=max(0, sample.log_start - base),
        log_end=sample.log_end - base,
    )


def recording(store: Store, console: Console) -> tuple[ArtifactRef, ...]:
    """The console's log of an attempt, kept with its stamps; nothing where it said nothing."""
    if not console.capture or console.info is None:
        return ()
    log, index = encode(console.info.meta, console.capture)
    return (store.artifacts.put(log, kind=CONSOLE_LOG), store.artifacts.put(index, kind=CONSOLE_INDEX))


def base_of(console: Console) -> int:
    """Where in the console's stream an attempt's log begins."""
    return console.capture[0].position if console.capture else 0


def port_flags(info: PortInfo | None) -> frozenset[Flag]:
    """No real board hangs on a pseudo terminal."""
    simulated = info is not None and is_pty(Path(info.meta.device))
    return frozenset({Flag.SIMULATED}) if simulated else frozenset()
