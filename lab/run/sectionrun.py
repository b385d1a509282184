"""A run of sections: each is an attempt in the store, with its samples and everything that was printed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TypeAlias

from attrs import define, field

from lab.benchmarks.cycles import Attempt, run_cycles
from lab.benchmarks.section import ParsedReading, Preflight, Section, preflight
from lab.errors import BoardlabError, TestStableError
from lab.host.clock import Clock
from lab.metrics import Flag, by_name, uncertainty
from lab.results import Run, SampleRecord, Store
from lab.results.records import CONSOLE_LOG
from lab.run.recorded import AttemptRecorder, AttemptResult, stored_metrics
from lab.run.session import BoardSession
from lab.run.setup import RunSetup

KIND = "sections"


Measured: TypeAlias = tuple[ParsedReading, ...]


@define
class SectionRun:
    """Measures sections on one board, and keeps what they said.

    Attributes:
        session: a new one for each attempt, at the prompt that the section runs at.
        simulated: every sample says that the board is no real one.
        write: takes a line for the person at the terminal.
        retries: further attempts after a transient failure.
        judged: looks at a failure again, e.g. at who else reads the board's console.
    """

    store: Store
    run: Run
    session: Callable[[Section], BoardSession]
    simulated: bool
    write: Callable[[str], None]
    clock: Clock
    sleep: Callable[[float], None]
    retries: int
    setup: RunSetup = field(factory=RunSetup)
    judged: Callable[[], AbstractContextManager[None]] = nullcontext
    _session: BoardSession | None = field(default=None, init=False)

    def done(self, section: Section) -> bool:
        """Whether the run has the section already."""
        return any(a.ok and a.params.get("section") == section.name for a in self.store.attempts(self.run.id))

    def missing(self, section: Section) -> list[str]:
        """The metrics that the section declares and of which the run has no sample in the store."""
        return sorted(set(section.metrics) - stored_metrics(self.store, self.run.id, section=section.name))

    def preflight(self, section: Section) -> Preflight:
        """Check what the section needs, on the board as it is."""
        return preflight(section, self.session(section))

    def measure(self, section: Section) -> None:
        """Measure a section, with retries.

        Raises:
            BoardlabError: it could not be measured; what it printed is in the store.
        """

        recorder = AttemptRecorder(self.store, self.run.id, self.clock)

        def one(_cycle: int, _number: int) -> Measured:
            recorder.start()
            with self.judged():
                self._session = self.session(section)
                with _restored(section, self._session):
                    readings = tuple(section.measure(self._session))
            _check(section, readings)
            return readings

        def record(attempt: Attempt[Measured]) -> None:
            recorder.record(attempt, self._evidence(section, attempt.result or ()))
            self.write(_line(section, attempt, recorder.elapsed_s, is_last=attempt.number > self.retries))

        run_cycles([1], one, record, retries=self.retries, sleep=self.sleep)

    def _evidence(self, section: Section, readings: Iterable[ParsedReading]) -> AttemptResult:
        log = bytes(self._session.transcript) if self._session else b""
        flags = frozenset(self.setup.flags) | ({Flag.SIMULATED} if self.simulated else frozenset())
        return AttemptResult(
            params={"section": section.name},
            artifacts=(self.store.artifacts.put(log, kind=CONSOLE_LOG),) if log else (),
            details={"setup": dict(self.setup.facts), "simulated": self.simulated},
            samples=tuple(_sample(reading, flags) for reading in readings),
        )


@contextmanager
def _restored(section: Section, session: BoardSession) -> Iterator[None]:
    """Put back what the section changes; where both fail, the first error is the one that tells."""
    try:
        yield
    except BoardlabError as error:
        try:
            section.restore(session)
        except BoardlabError as second:
            error.add_note(f"and putting back failed: {second}")
        raise
    else:
        section.restore(session)


def _check(section: Section, readings: Iterable[ParsedReading]) -> None:
    names = {reading.metric for reading in readings}
    unknown = sorted(names - set(section.metrics))
    if unknown or not names:
        raise TestStableError(
            f"section {section.name} reads {', '.join(unknown) or 'nothing'}, and declares {', '.join(section.metrics)}: "
            "mend its module in lab/benchmarks"
        )


def _sample(reading: ParsedReading, flags: frozenset[Flag]) -> SampleRecord:
    step = max(reading.quantum, by_name(reading.metric).resolution)
    return SampleRecord(
        metric=reading.metric,
        params=dict(reading.params),
        value=reading.value,
        uncertainty=uncertainty.of_step(step),
        flags=frozenset(str(flag) for flag in flags | reading.flags),
        log_start=reading.start,
        log_end=reading.end,
    )


def _line(section: Section, attempt: Attempt[Measured], seconds: float, *, is_last: bool) -> str:
    if attempt.error is not None:
        what_next = "retry" if attempt.error.transient and not is_last else "stop"
        return (
            f"{section.name:22} attempt {attempt.number} FAILED [{attempt.error.failure}, {attempt.error.fault}]: "
            f"{attempt.error} -> {what_next}"
        )
    return f"{section.name:22} {len(attempt.result or ()):4} numbers  {seconds:7.1f} s"


def durations(store: Store, board_type: str) -> Mapping[str, float]:
    """Section -> how long it took on a board of this type the last time, in seconds."""
    found: dict[str, float] = {}
    for run in store.runs(limit=50):
        if run.kind == KIND and run.board_type == board_type:
            for attempt in store.attempts(run.id):
                if attempt.ok:
                    found.setdefault(attempt.params["section"], attempt.duration_s)
    return found


def facts_before(store: Store, run: Run) -> Mapping[str, str]:
    """The setup of the board's last run before this one; empty where there is none."""
    for earlier in store.runs():
        if earlier.kind == KIND and earlier.board == run.board and earlier.id < run.id:
            for attempt in store.attempts(earlier.id):
                if attempt.ok:
                    setup = attempt.details.get("setup", {})
                    return {str(name): str(value) for name, value in setup.items()}
    return {}
