"""A run of a lab's own tests: the numbers that they hand to `measure`, cycle by cycle.

Each cycle is an attempt, as of the other runs: recorded by the same recorder, with its console log, its failure class and
the state of the board.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import Any, Final

from attrs import asdict, define, evolve, field

from lab.benchmarks.cycles import CycleAttempt
from lab.console.model import Chunk
from lab.errors import BoardlabError, ConfigurationError, TestStableError
from lab.host.clock import Clock
from lab.metrics import Flag, Sample, SampleRecord
from lab.metrics.declared import Declarations
from lab.metrics.model import sample_of
from lab.results import ArtifactRef, Run, Store
from lab.results.records import ATTACHED, MEASURED
from lab.run.attempts import (
    AttemptRecorder,
    AttemptResult,
    Losses,
    RunConsole,
    base_of,
    clocks_document,
    port_flags,
    recording,
    sample_record,
)
from lab.run.progress import Progress

KIND: Final = "measure"
TEST: Final = "test"  # the parameter of attempts: the test's id
_LARGEST_FILE: Final = 64 << 20  # bytes of an attached file


@define
class Measure:
    """The numbers of one cycle of a test: what the fixture `measure` gives.

    Attributes:
        params: distinguish the test's numbers from those of its other parameters.
        samples: what was measured. refused: what a wrong call measured, with the reason; it is kept in the attempt.
        files: attached ones by name.
    """

    run: Run
    _store: Store
    _declarations: Declarations
    _console: RunConsole
    params: Mapping[str, str]
    samples: list[SampleRecord] = field(factory=list)
    refused: list[dict[str, object]] = field(factory=list)
    files: dict[str, bytes] = field(factory=dict)
    _window_start: int = field(default=0, init=False)

    def __call__(
        self,
        name: str,
        value: float | Iterable[float],
        *,
        unit: str | None = None,
        better: str | None = None,
        resolution: float | None = None,
        definition: str | None = None,
        version: int | None = None,
        uncertainty: float | None = None,
        params: Mapping[str, str] | None = None,
    ) -> None:
        """Record a number of this cycle, or several.

        Args:
            name: of the metric, e.g. "camera.first_frame".
            value: in `unit`; a list has several samples of the cycle.
            unit, better, resolution, definition, version: as of `lab.metrics.Metric`; needed where metrics.toml does not
                declare the metric, and only in its first call.
            uncertainty: ± of each value, in `unit`; default: half of the resolution.
            params: further ones that distinguish this number, e.g. {"camera": "left"}.

        Raises:
            ConfigurationError: the metric is not declared, or otherwise, here or in the results.
            TestStableError: a value is no finite number.
        """
        window, all_params = self._window(), {**self.params, **(params or {})}
        try:
            metric = self._declarations.metric(
                name, unit=unit, better=better, resolution=resolution, definition=definition, version=version
            )
            self._store.check_definition(metric)
            for each in _values(name, value):
                self.samples.append(
                    sample_of(metric, _texts(all_params), each, uncertainty, (), window, declared=True)
                )
        except BoardlabError as error:
            self.refused.append(
                {
                    "metric": str(name),
                    "value": repr(value)[:200],
                    "unit": unit,
                    "params": _shown(all_params),
                    "why": str(error),
                }
            )
            raise

    def attach(self, file: Path | str | bytes, name: str = "") -> None:
        """Keep a file with the cycle, as evidence of its numbers.

        Args:
            file: a path, or the contents. name: default: the path's last part.

        Raises:
            ConfigurationError: it cannot be read, is too large, or has no name.
        """
        if isinstance(file, bytes):
            data = file
        else:
            name = name or Path(file).name
            try:
                data = Path(file).read_bytes()
            except OSError as error:
                raise ConfigurationError(f"measure.attach: {file} cannot be read: {error.strerror}") from error
        if not name or len(data) > _LARGEST_FILE:
            raise ConfigurationError(
                f"measure.attach: {name or 'contents without a name'}, {len(data)} bytes: give a name, and at most {_LARGEST_FILE} bytes"
            )
        self.files[name] = data

    def _window(self) -> tuple[int | None, int | None]:
        """The console's bytes since the call before, as positions of its stream."""
        last = next((event for event in reversed(self._console.capture) if isinstance(event, Chunk)), None)
        if last is None:
            return None, None
        start = max(self._window_start, base_of(self._console))
        self._window_start = last.position + len(last.data)
        return start, self._window_start


def _values(name: str, value: object) -> list[float]:
    """The numbers of a call.

    Raises:
        TestStableError: one is no finite number, or there is none.
    """
    given: list[object] = (
        list(value) if isinstance(value, Iterable) and not isinstance(value, (str, bytes)) else [value]
    )
    found: list[float] = []
    for each in given:
        if isinstance(each, Real) and not isinstance(each, bool) and math.isfinite(each):
            found.append(float(each))
        else:
            raise TestStableError(f"measure({name!r}): expected a finite number, or a list of them; got {each!r}")
    if not found:
        raise TestStableError(f"measure({name!r}): the list is empty; measure at least one number")
    return found


def _texts(params: Mapping[Any, Any]) -> dict[str, str]:
    wrong = [key for key, text in params.items() if not (isinstance(key, str) and isinstance(text, str) and key)]
    if wrong:
        raise ConfigurationError(
            f"measure: params {wrong!r}: names and values are texts, e.g. params={{'camera': 'left'}}"
        )
    return dict(params)


def _shown(params: Mapping[Any, Any]) -> dict[str, str]:
    return {str(key): str(text) for key, text in params.items()}


@define
class MeasureRun:
    """Records the cycles of a session's tests.

    Attributes:
        run: from the store; `run.plan` has the `tests`, and the cycles of each (`repeats`).
        board: a board of `lab.run.board`, or one of labgrid's own drivers (`lab.pytest_plugin.labgridboard`).
    """

    store: Store
    run: Run
    board: Any
    progress: Progress
    clock: Clock
    declarations: Declarations
    _recorder: AttemptRecorder = field(init=False)
    _losses: Losses = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._recorder = AttemptRecorder(self.store, self.run.id, self.clock, self.declarations.limits)
        self._losses = Losses(self.board.console)

    def cycles(self, test: str) -> int:
        """The planned cycles of a test."""
        return int(self.run.plan["repeats"].get(test, 1))

    def begin(self, params: Mapping[str, str]) -> Measure:
        """Begin an attempt at a cycle."""
        self._recorder.start()
        self.board.console.capture = []
        self._losses.flags()  # earlier losses are not of this cycle
        return Measure(self.run, self.store, self.declarations, self.board.console, params)

    def record(self, test: str, attempt: CycleAttempt[Measure], measure: Measure) -> None:
        """Store an attempt that has ended, with all that it measured.

        Raises:
            BoardlabError: the store cannot be written.
        """
        name, cycles = test.rpartition("::")[2], self.cycles(test)
        self._recorder.record(attempt, self._evidence(test, measure, ok=attempt.error is None))
        if attempt.error is not None:
            is_last = not attempt.again
            self.progress.bad(name, attempt.cycle, cycles, attempt.number, attempt.error, is_last=is_last)
        elif measure.samples:
            first = measure.samples[0]
            metric = first.declared
            sample = Sample(first.value, first.uncertainty, attempt.cycle)
            self.progress.good(name, attempt.cycle, cycles, sample, metric.unit if metric else "")

    def _evidence(self, test: str, measure: Measure, *, ok: bool) -> AttemptResult:
        console = self.board.console
        flags = self._flags()
        samples = tuple(_in_log(sample, base_of(console), flags) for sample in measure.samples)
        measured: Sequence[Mapping[str, object]] = [] if ok else [_document(sample) for sample in samples]
        return AttemptResult(
            params={TEST: test},
            artifacts=(*recording(self.store, console), *self._files(measure)),
            details={
                "port": asdict(console.info.meta) if console.info else None,
                "software": dict(self.board.software),
                **clocks_document(console),
                **({MEASURED: [*measured, *measure.refused]} if measured or measure.refused else {}),
            },
            samples=samples if ok else (),
        )

    def _files(self, measure: Measure) -> list[ArtifactRef]:
        return [self.store.artifacts.put(data, kind=f"{ATTACHED}{name}") for name, data in measure.files.items()]

    def _flags(self) -> frozenset[Flag]:
        virtual = frozenset({Flag.SIMULATED}) if self.run.provenance.get("virtual") is True else frozenset()
        return port_flags(self.board.console.info) | virtual | self._losses.flags()


def _in_log(sample: SampleRecord, base: int, flags: frozenset[Flag]) -> SampleRecord:
    """The sample with its flags, and its window in the log; a part of the stream that the log lacks is no window."""
    flagged = evolve(sample, flags=sample.flags | flags)
    if sample.log_end is None or sample.log_end < base:
        return evolve(flagged, log_start=None, log_end=None)
    return sample_record(flagged, base)


def _document(sample: SampleRecord) -> dict[str, object]:
    unit = sample.declared.unit if sample.declared else ""
    return {"metric": sample.metric, "value": sample.value, "unit": unit, "params": dict(sample.params)}


def pending(store: Store, run_id: int | None, test: str, cycles: int) -> list[int]:
    """The cycles of a test without a good attempt; `run_id` None: the run has not begun."""
    done = set()
    if run_id is not None:
        done = {each.cycle for each in store.good_attempts(run_id) if each.params.get(TEST) == test}
    return [cycle for cycle in range(1, cycles + 1) if cycle not in done]
