"""Recording of attempts: times, failure, samples and evidence."""

from __future__ import annotations

import datetime as dt
import hashlib
import os
import platform
import socket
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

from attrs import define, evolve, field, frozen

from lab.benchmarks.boot.records import MomentLike
from lab.benchmarks.cycles import CycleAttempt
from lab.boards import BoardType
from lab.console.lookup import BARE_ADAPTER
from lab.console.model import Event, Gap
from lab.console.recording import encode
from lab.console.serial_line import is_pty
from lab.console.status import PortInfo
from lab.errors import BoardlabError, ConfigurationError, LabTransientError
from lab.host.clock import NS_PER_S, Clock, utc_now
from lab.host.clockrelation import ClockRelation
from lab.host.process import CpuTimes, cpu_times
from lab.metrics import Flag, catalogue
from lab.metrics.declared import Limits
from lab.results import ArtifactRef, AttemptRecord, MomentRecord, SampleRecord, Store
from lab.results.records import CONSOLE_INDEX, CONSOLE_LOG, HOST_BUSY, LIMITS, OK


class RunConsole(Protocol):
    """The console driver's interface for a run."""

    capture: list[Event]
    info: PortInfo | None

    def blamed(self, error: BoardlabError) -> BoardlabError:
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
class Losses:
    """Detects lost bytes of a console: driver's counters or gaps.

    A number read from the rest may lack a digit, and nothing in it shows that.
    """

    console: RunConsole
    _overruns: int = field(default=0, init=False)
    _events: list[Event] = field(factory=list, init=False)
    _seen: int = field(default=0, init=False)  # so many of them

    def flags(self) -> frozenset[Flag]:
        """Flags of the bytes since the last call.

        Raises:
            LabTransientError: the console server has vanished.
        """
        events, overruns = self.console.capture, self.console.overruns()
        new = events[self._seen if events is self._events else 0 :]
        before = self._overruns if overruns >= self._overruns else 0  # it counts anew from each power-on
        self._events, self._seen, self._overruns = events, len(events), overruns
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
    moments: tuple[MomentRecord, ...] = ()


@define
class AttemptRecorder:
    """Stores a run's attempts, each as soon as it has ended.

    Attributes:
        limits: of metrics, which a number keeps with its attempt.
    """

    store: Store
    run_id: int
    clock: Clock
    limits: Limits = field(factory=dict)
    _started: tuple[dt.datetime, int] = field(init=False)
    _cpu: CpuTimes | None = field(init=False)

    def start(self) -> None:
        """Start an attempt."""
        self._started = (utc_now(), self.clock.now_ns())
        self._cpu = cpu_times()

    @property
    def elapsed_s(self) -> float:
        """Time since the attempt began."""
        return (self.clock.now_ns() - self._started[1]) / NS_PER_S

    def record(self, attempt: CycleAttempt[Any], evidence: AttemptResult) -> None:
        """Store the attempt that was started last.

        Raises:
            BoardlabError: the store cannot be written.
        """
        error = attempt.error
        self.store.record_attempt(
            self.run_id,
            AttemptRecord(
                cycle=attempt.cycle,
                number=attempt.number,
                params=dict(evidence.params),
                outcome=OK if error is None else error.failure,
                fault=None if error is None else error.fault,
                transient=None if error is None else error.transient,
                message="" if error is None else str(error),
                started_at=self._started[0],
                duration_s=self.elapsed_s,
                samples=evidence.samples,
                artifacts=evidence.artifacts,
                moments=evidence.moments,
                details={**evidence.details, **self._host_load(), **self._limits(evidence.samples)},
            ),
        )

    def _limits(self, samples: Iterable[SampleRecord]) -> dict[str, object]:
        names = dict.fromkeys(sample.metric for sample in samples if self.limits.get(sample.metric))
        found = {name: [limit.document() for limit in self.limits[name]] for name in names}
        return {LIMITS: found} if found else {}

    def _host_load(self) -> dict[str, object]:
        now = cpu_times()
        busy = None if now is None or self._cpu is None else now.busy_since(self._cpu)
        return {} if busy is None else {HOST_BUSY: round(busy, 3)}


def moment_record(moment: MomentLike, base: int) -> MomentRecord:
    """A moment for the store; `base`: stream position of the log."""
    return MomentRecord(moment.name, moment.t_ns, moment.uncertainty_ns, moment.position - base, moment.text)


def sample_record(sample: SampleRecord, base: int) -> SampleRecord:
    """The sample with its window relative to the log's `base`."""
    start, end = sample.log_start or 0, sample.log_end or 0
    flags = frozenset(str(flag) for flag in sample.flags)
    return evolve(sample, flags=flags, log_start=max(0, start - base), log_end=end - base)


def uncounted(sample: SampleRecord) -> dict[str, object]:
    """A number that a failed attempt measured, for its details."""
    metric = sample.declared or catalogue.find(sample.metric)
    unit = metric.unit if metric else ""
    return {"metric": sample.metric, "value": sample.value, "unit": unit, "params": dict(sample.params)}


def recording(store: Store, console: RunConsole) -> tuple[ArtifactRef, ...]:
    """Store the attempt's console log with stamps; () without output."""
    if not console.capture or console.info is None:
        return ()
    log, index = encode(console.info.meta, console.capture)
    return (store.artifacts.put(log, kind=CONSOLE_LOG), store.artifacts.put(index, kind=CONSOLE_INDEX))


def stored_metrics(store: Store, run_id: int, **item: str) -> frozenset[str]:
    """Metrics of an item in a run's good attempts, e.g. `medium="sd"`."""
    return frozenset(
        sample.metric
        for attempt in store.attempts(run_id)
        if attempt.ok and item.items() <= attempt.params.items()
        for sample in attempt.samples
    )


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


# --- Provenance of a run ---


_BLOCK = 1 << 20


def collect(
    *,
    board_type: BoardType,
    board: str,
    release: str,
    env: Path,
    images: Mapping[str, Path],
    clock: Clock,
    console: str | None = None,
    simulated: bool = False,
    confirms: int | None = None,
    provisioned: Mapping[str, object] | None = None,
) -> dict[str, object]:
    """The provenance of a run.

    Args:
        env: the labgrid environment; its hash identifies it.
        images: name -> file, as the environment's `images:` has them; each is hashed.
        console: its device; a board on a pseudo terminal is not real.
        simulated: it is on another host's pseudo terminal.
        provisioned: medium -> contents written by boardlab (`lab.provision.labels.document`).
        confirms: the run that this one confirms (`lab.judge.run_judge`).

    Raises:
        ConfigurationError: a named image cannot be read.
    """
    return {
        "board_type": board_type.name,
        "board_title": board_type.title,
        "board": board,
        "virtual": board_type.virtual or simulated or (console is not None and is_pty(Path(console))),
        "release": release,
        "host": socket.gethostname(),
        "host_kernel": platform.release(),
        "host_cpus": os.cpu_count(),
        "python": platform.python_version(),
        "boardlab": version("boardlab"),
        "labgrid": version("labgrid"),
        "clock": clock.name,
        "env": env.name,
        "env_sha256": sha256_of(env),
        "images_sha256": {name: sha256_of(path) for name, path in images.items()},
        **({} if confirms is None else {"confirms": confirms}),
        **({"provisioned": dict(provisioned)} if provisioned else {}),
    }


def sha256_of(path: Path) -> str:
    """Hex digest of a file's content.

    Raises:
        ConfigurationError: it cannot be read.
    """
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while block := file.read(_BLOCK):
                digest.update(block)
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror}; mend `images:` in the env") from error
    return digest.hexdigest()
