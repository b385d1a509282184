"""A run of a lab's own tests, which hand their numbers to the fixture `measure`.

Each cycle of a test is an attempt. The engine of the other runs stores it, with its console log, its failure class and
the state of the board.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from decimal import Decimal
from numbers import Real
from pathlib import Path
from typing import Any, ClassVar, Final

from attrs import asdict, define, evolve, field

from lab.benchmarks.boot import PowerEdge
from lab.benchmarks.boot.poweron import PowerOnSilence, doubt, silences
from lab.benchmarks.boot.samples import power_on
from lab.benchmarks.cycles import CycleAttempt
from lab.boards import MomentPattern
from lab.console.model import Chunk
from lab.console.moments import MomentFinder, find_moments
from lab.errors import BoardTransientError, ConfigurationError, LabTransientError, TestStableError
from lab.host.clock import NS_PER_S, Clock
from lab.metrics import Flag, Moment, Sample, SampleRecord
from lab.metrics.lab_metrics import MOMENT_RESOLUTION_S, Declarations
from lab.metrics.model import LARGEST, repr_short, sample_of
from lab.metrics.uncertainty import UNCERTAIN_SHARE, of_interval
from lab.results import Run, Store
from lab.results.records import ATTACHED, MEASURED, TEST
from lab.run.attempts import (
    AttemptResult,
    check_clocks,
    clocks_document,
    log_base,
    moment_record,
    port_flags,
    sample_record,
    store_recording,
    uncounted_number,
)
from lab.run.engine import RunEngine
from lab.run.moment_sources import Signal, signal

KIND: Final = "measure"
_POLL_S: Final = 1.0  # longest wait for bytes of the console before the time limit is checked again
_PROBE_S: Final = 0.02  # between two tries of the network
_BLOCK_RESOLUTION_S: Final = 1e-3  # of the time of a Python block, which contains the way to the board and back
_MAX_FILE_BYTES: Final = 64 << 20  # of an attached file
_EVENTS: Final = {"gpio": "edge", "pin": "edge", "can": "frame"}  # scheme -> noun for its events; others: "answer"


@define
class Measure:
    """The fixture `measure`: it collects the numbers of one cycle of a test.

    Attributes:
        params: parameters of the test; they distinguish its numbers from those with other parameters.
        silence: time from power on to the board's first moment; None: `moment` was not called.
        moments: console lines that `moment` has waited for.
        samples: numbers that were recorded.
        refused: numbers of wrong calls, each with the reason; they are stored as details of the attempt.
        files: name -> contents of the attached files.
    """

    run: Run
    _store: Store
    _declarations: Declarations
    _board: Any
    _clock: Clock
    params: Mapping[str, str]
    _silences: Sequence[PowerOnSilence] = ()  # of the run's other cycles
    _previous_edge: PowerEdge | None = None  # the board's latest power on before this cycle
    silence: PowerOnSilence | None = None
    moments: list[Moment] = field(factory=list)
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
        """Record one number of this cycle, or several.

        Args:
            name: name of the metric, e.g. "camera.first_frame".
            value: number in `unit`; each number of a list becomes a sample of the cycle.
            unit, better, resolution, definition, version: the metric's declaration, as in `lab.metrics.Metric`. The
                first call needs it unless metrics.toml declares the metric.
            uncertainty: ± of each value, in `unit`; default: half of the resolution.
            params: further parameters that distinguish this number, e.g. {"camera": "left"}.

        Raises:
            ConfigurationError: the metric is not declared, or it is declared differently in metrics.toml, in an
                earlier call or in the results.
            TestStableError: a value is not a finite number.
        """
        declaration = {
            "unit": unit,
            "better": better,
            "resolution": resolution,
            "definition": definition,
            "version": version,
        }
        self._record(name, value, uncertainty, params, self._window(), frozenset(), declaration)

    @contextmanager
    def time(
        self,
        name: str,
        *,
        definition: str | None = None,
        version: int | None = None,
        params: Mapping[str, str] | None = None,
    ) -> Iterator[None]:
        """Record how long a block takes, by this host's clock; a block that raises records nothing.

        Args:
            name: name of the metric, whose unit is the second.
            definition, version, params: as in a call of the fixture.
        """
        start_ns = self._clock.now_ns()
        yield
        value_s = (self._clock.now_ns() - start_ns) / NS_PER_S
        self(
            name,
            value_s,
            unit="s",
            better="lower",
            resolution=None if name in self._declarations.metrics else _BLOCK_RESOLUTION_S,
            definition=definition,
            version=version,
            params=params,
        )

    def moment(
        self,
        name: str,
        pattern: str,
        *,
        since: str = "",
        timeout_s: float = 60.0,
        definition: str | None = None,
        version: int | None = None,
        params: Mapping[str, str] | None = None,
    ) -> None:
        """Record the time to a line of the console, by the stamps that also time the boots.

        The call waits for the line unless it has come already. The first matching line after `since` counts.

        Args:
            name: name of the metric, whose unit is the second.
            pattern: regular expression within a line, e.g. "application ready".
            since: regular expression of the line at which the time begins; empty: it begins when the power switch
                acknowledges the power on.
            timeout_s: how long the call waits for the line.
            definition, version, params: as in a call of the fixture.

        Raises:
            ConfigurationError: a pattern is wrong, the metric is declared with another unit, or the board has no
                stamps or no power switch.
            BoardTransientError: the line did not come in time (`moment_missing`).
            LabTransientError: the console is gone, or its clock has jumped.
        """
        end = self._wait_for_line(pattern, since, timeout_s)
        edge = None if since else self._edge()
        start = power_on(edge, self._first_byte(end)) if edge is not None else self.moments[-2]
        check_clocks(self._board.console, edge.requested_ns if edge is not None else start.t_ns)
        text = f"the arrival of the last byte of {pattern!r}"
        self._record_interval(name, start, end, edge, text, definition, version, params, since)

    def answer(
        self,
        name: str,
        address: str,
        *,
        timeout_s: float = 120.0,
        definition: str | None = None,
        version: int | None = None,
        params: Mapping[str, str] | None = None,
    ) -> None:
        """Record the time from power on to one signal of the board outside its console.

        It is `answers` with one signal.

        Args:
            name: name of the metric, whose unit is the second.
            address: where the signal comes from, one of `lab.run.moment_sources.FORMS`. A URL has answered when its
                status is below 400.
            timeout_s: how long the call waits for the signal.
            definition, version, params: as in a call of the fixture.

        Raises:
            ConfigurationError, BoardTransientError: as `answers`.
        """
        self.answers({name: address}, timeout_s=timeout_s, definition=definition, version=version, params=params)

    def answers(
        self,
        addresses: Mapping[str, str],
        *,
        timeout_s: float = 120.0,
        definition: str | None = None,
        version: int | None = None,
        params: Mapping[str, str] | None = None,
    ) -> None:
        """Record the times from power on to several signals of one start, on this host's clock.

        Call it as soon as the board is switched on (`strategy.switch_on()`). A network answer came between the start
        of the last try that failed and the end of the first one that succeeded: that is its ±. Edges and frames have
        the kernel's stamps.

        Args:
            addresses: name of a metric, whose unit is the second -> address (`lab.run.moment_sources.FORMS`).
            timeout_s: how long the call waits for all signals together.
            definition, version, params: as in a call of the fixture; they hold for each signal.

        Raises:
            ConfigurationError: an address is wrong, a metric is declared with another unit, or the console's stamps
                are of another host's clock.
            BoardTransientError: a signal did not come in time (`moment_missing`); the others are recorded.
        """
        console, edge = self._board.console, self._edge()
        if getattr(console, "relation", None) is not None:
            raise ConfigurationError(
                "measure.answer needs the console and the signals on one clock, and the console is on another host: "
                "run the test on that host"
            )
        deadline_ns = self._clock.now_ns() + round(timeout_s * NS_PER_S)
        with ExitStack() as signals:
            waiting: dict[str, Signal] = {}
            for name, address in addresses.items():
                waiting[name] = signal(address, self._clock, edge.requested_ns, self._pin)
                signals.callback(waiting[name].close)
            while waiting:
                for name, source in list(waiting.items()):
                    if (answer := source.poll()) is not None:
                        del waiting[name]
                        address = addresses[name]
                        end = Moment(name, answer.t_ns, answer.uncertainty_ns, log_base(console), address)
                        start = power_on(edge, self._first_byte(end))
                        event = _EVENTS.get(address.partition(":")[0], "answer")
                        text = f"the first {event} of {address}"
                        self._record_interval(name, start, end, edge, text, definition, version, params)
                if waiting and self._clock.now_ns() > deadline_ns:
                    raise BoardTransientError(
                        f"{', '.join(addresses[name] for name in waiting)} did not come within {timeout_s:g} s: is "
                        "the address right, and does the board send it? The console's last output was "
                        f"{self._board.tail()!r}",
                        failure="moment_missing",
                    )
                console.poll(_PROBE_S if waiting else 0)

    def _pin(self, name: str) -> Callable[[], bool]:
        """Return a function that reads the level of a pin by labgrid's driver of this name."""
        try:
            driver = self._board.target.get_driver("DigitalOutputProtocol", name=name)
        except Exception as error:
            raise ConfigurationError(
                f"pin://{name}: the env has no driver of this name that reads a pin: {error}"
            ) from error

        def level() -> bool:
            try:
                return bool(driver.get())
            except Exception as error:
                raise LabTransientError(
                    f"pin://{name}: its level cannot be read: {type(error).__name__}: {error}", failure="tester_broken"
                ) from error

        return level

    def _wait_for_line(self, pattern: str, since: str, timeout_s: float) -> Moment:
        """Wait for a line of the console that comes after the line `since`.

        Both lines become moments of the cycle, `since` before the other.
        """
        console = self._board.console
        if not hasattr(console, "poll"):
            raise ConfigurationError(
                "measure.moment needs the console's stamps: an environment with a BoardStrategy and a "
                "StampedConsoleDriver"
            )
        try:
            patterns = [MomentPattern(text, text, times=0) for text in (since, pattern) if text]
        except ValueError as error:
            raise ConfigurationError(f"measure.moment: {error}") from error
        deadline_ns = self._clock.now_ns() + round(timeout_s * NS_PER_S)
        finder, matches, read = MomentFinder(patterns, self._board.timing()), list[Moment](), 0
        while True:
            events = console.capture[read:]
            read += len(events)
            matches += [match for event in events for match in finder.feed(event)]
            start = next((match for match in matches if match.name == since), None)
            after = start.position if start is not None else 0
            end = next((match for match in matches if match.name == pattern and match.position > after), None)
            if end is not None and (start is not None or not since):
                self.moments += [moment for moment in (start, end) if moment is not None]
                return end
            left_ns = deadline_ns - self._clock.now_ns()
            if not console.poll(max(0.0, min(left_ns / NS_PER_S, _POLL_S))) and left_ns <= 0:
                missing = since if since and start is None else pattern
                raise BoardTransientError(
                    f"no line of the console matches {missing!r} within {timeout_s:g} s; "
                    f"the console's last output was {self._board.tail()!r}",
                    failure="moment_missing",
                )

    def _record_interval(
        self,
        name: str,
        start: Any,
        end: Moment,
        edge: PowerEdge | None,
        text: str,
        definition: str | None,
        version: int | None,
        params: Mapping[str, str] | None,
        since: str = "",
    ) -> None:
        """Record an interval between two moments of the console or of the power.

        Args:
            edge: the power on that it begins at; None: it begins at the line `since`.
            text: what it ends at, for the metric's definition.
        """
        value_s = (end.t_ns - start.t_ns) / NS_PER_S
        bound_s = of_interval(start.uncertainty_ns, end.uncertainty_ns) / NS_PER_S
        doubts = {
            Flag.OFF_UNVERIFIED: edge is not None and not edge.off_verified,
            Flag.ON_UNVERIFIED: edge is not None and not self._is_confirmed(edge),
            Flag.UNCERTAIN: bound_s > UNCERTAIN_SHARE * value_s,
        }
        flags = frozenset(flag for flag, applies in doubts.items() if applies)
        default_definition = f"From {f'the line {since!r}' if since else 'power on'} to {text}."
        is_declared = name in self._declarations.metrics
        declaration = {
            "unit": "s",
            "better": "lower",
            "resolution": None if is_declared else MOMENT_RESOLUTION_S,
            "definition": definition if definition is not None or is_declared else default_definition,
            "version": version,
        }
        self._record(name, value_s, bound_s, params, (start.position, end.position), flags, declaration)

    def _is_confirmed(self, edge: PowerEdge) -> bool:
        """Return True if the rails, or the run's other boots, confirm the instant of power on."""
        moments = find_moments(self._board.console.capture, self._board.type.moments, self._board.timing())
        if not moments:
            return False
        self.silence = PowerOnSilence.of(edge, moments[0])
        return edge.on_verified and not doubt(edge, self.silence, self._silences)

    def _edge(self) -> PowerEdge:
        """Return the power on of this cycle.

        Raises:
            ConfigurationError: the board was not switched on in it.
        """
        edge = _last_edge(self._board)
        if edge is None or edge is self._previous_edge:
            raise ConfigurationError(
                "the board was not switched on in this cycle, or its strategy is older than this boardlab: bring it "
                "up by `strategy.transition`, or give `since`, the line at which the time begins"
            )
        return edge

    def _first_byte(self, end: Moment) -> Moment:
        """Return the board's first output, by which the power was on; `end` if there is none."""
        first = next((event for event in self._board.console.capture if isinstance(event, Chunk)), None)
        return end if first is None else Moment("", first.t_ns, 0, first.position, first.data[:40].decode("latin-1"))

    def _record(
        self,
        name: str,
        value: float | Iterable[float],
        uncertainty: float | None,
        params: Mapping[str, str] | None,
        window: tuple[int | None, int | None],
        flags: frozenset[Flag],
        declaration: Mapping[str, Any],
    ) -> None:
        """Record the numbers of one call.

        The numbers of a wrong call are added to `refused` with the error, so that a night's values are not lost by a
        wrong declaration.
        """
        is_list = isinstance(value, Iterable) and not isinstance(value, (str, bytes))
        values: list[object] = [] if is_list else [value]
        try:
            # One by one: if a generator raises, `refused` has the numbers before that.
            for number in value if isinstance(value, Iterable) and is_list else ():
                values.append(number)
            all_params = self._merge_params(params)
            metric = self._declarations.metric(name, **declaration)
            self._store.check_definition(metric)
            for number in _finite_numbers(name, values):
                self.samples.append(sample_of(metric, all_params, number, uncertainty, flags, window, declared=True))
        except Exception as error:
            call_params: Mapping[Any, Any] = params or {}
            if not isinstance(call_params, Mapping):
                call_params = {"params": repr_short(params)}
            self.refused.append(
                {
                    "metric": str(name),
                    "value": repr_short(values if is_list else value),
                    "unit": declaration["unit"],
                    "params": {str(key): str(text) for key, text in {**self.params, **call_params}.items()},
                    "why": str(error),
                }
            )
            raise

    def _merge_params(self, params: Mapping[str, str] | None) -> dict[str, str]:
        """Return the parameters of the test with those of a call.

        Raises:
            ConfigurationError: one of the call is not a text, or contradicts the test's.
        """
        call_params = params or {}
        if not isinstance(call_params, Mapping):
            raise ConfigurationError(
                f"measure: params {repr_short(params)}: give names and texts, e.g. params={{'camera': 'left'}}"
            )
        wrong = [
            name
            for name, text in call_params.items()
            if not (isinstance(name, str) and isinstance(text, str) and name)
        ]
        if wrong:
            raise ConfigurationError(
                f"measure: params {wrong!r}: names and values are texts, e.g. params={{'camera': 'left'}}"
            )
        contradicted = [name for name, text in call_params.items() if self.params.get(name, text) != text]
        if contradicted:
            raise ConfigurationError(
                f"measure: params {', '.join(contradicted)}: the test has a parameter of that name, with another "
                "value; give yours another name"
            )
        return {**self.params, **call_params}

    def attach(self, file: Path | str | bytes, name: str = "") -> None:
        """Store a file with the cycle, as evidence of its numbers.

        Args:
            file: the path of the file, or its contents.
            name: name in the store; default: the path's last part.

        Raises:
            ConfigurationError: the file cannot be read, is larger than 64 MiB, or has no name.
        """
        if isinstance(file, bytes):
            data = file
        else:
            name = name or Path(file).name
            try:
                data = Path(file).read_bytes()
            except OSError as error:
                raise ConfigurationError(f"measure.attach: {file} cannot be read: {error.strerror}") from error
        if not name or len(data) > _MAX_FILE_BYTES:
            raise ConfigurationError(
                f"measure.attach: {name or 'contents without a name'}, {len(data)} bytes: give a name, and at most "
                f"{_MAX_FILE_BYTES} bytes"
            )
        self.files[name] = data

    def _window(self) -> tuple[int | None, int | None]:
        """Return first and end position of the console's bytes since the previous call; None: there are none."""
        last = next((event for event in reversed(self._board.console.capture) if isinstance(event, Chunk)), None)
        if last is None:
            return None, None
        start = max(self._window_start, log_base(self._board.console))
        self._window_start = last.position + len(last.data)
        return start, self._window_start


def _last_edge(board: Any) -> PowerEdge | None:
    """Return the board's last power on; None: none in this session, or its strategy is of an older boardlab."""
    edge: PowerEdge | None = getattr(board, "edge", None)
    return edge


def _finite_numbers(name: str, values: Sequence[Any]) -> list[float]:
    """Convert the values of a call to floats.

    Raises:
        TestStableError: a value is not a finite number, or there is no value.
    """
    numbers: list[float] = []
    for value in values:
        is_number = isinstance(value, (Real, Decimal)) and not isinstance(value, bool)
        try:
            number = float(value) if is_number else math.nan
        except OverflowError:
            number = math.inf
        if not abs(number) <= LARGEST:
            raise TestStableError(
                f"measure({name!r}): got {repr_short(value, 40)}; give a finite number up to {LARGEST:g}, or a list of "
                "such numbers"
            )
        numbers.append(number)
    if not numbers:
        raise TestStableError(f"measure({name!r}): the list is empty; measure at least one number")
    return numbers


@define
class MeasureRun(RunEngine):
    """Records the cycles of a session's tests, which pytest runs.

    `run.plan` has the names of the `tests`, and the number of cycles of each (`repeats`).

    Attributes:
        declarations: the metrics that metrics.toml declares.
    """

    ITEMS: ClassVar[str] = "tests"
    ITEM: ClassVar[str] = TEST

    declarations: Declarations = field(factory=Declarations)
    # Metric and parameters of a number -> the test that measures it.
    _test_of: dict[tuple[str, frozenset[tuple[str, str]]], str] = field(init=False, factory=dict)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        for attempt in self.attempts:
            for sample in attempt.samples:
                self._test_of[sample.metric, frozenset(sample.params.items())] = attempt.params[TEST]

    def cycles(self, item: str) -> int:
        return int(self.run.plan["repeats"].get(item, 1))

    def begin(self, params: Mapping[str, str]) -> Measure:
        """Begin an attempt at a cycle, and return its fixture.

        Args:
            params: parameters of the test.
        """
        self.start_attempt()
        self.losses.flags()  # forget the bytes that were lost before this cycle
        other_silences = silences(attempt.details.get("power_on") for attempt in self.good_attempts())
        return Measure(
            self.run,
            self.store,
            self.declarations,
            self.board,
            self.clock,
            params,
            other_silences,
            _last_edge(self.board),
        )

    def check_test(self, test: str, measure: Measure) -> None:
        """Require that no other test of the run measures the same numbers.

        Raises:
            ConfigurationError: another one does; the message names both.
        """
        for sample in measure.samples:
            other = self._test_of.setdefault((sample.metric, frozenset(sample.params.items())), test)
            if other != test:
                raise ConfigurationError(
                    f"{other} and {test} measure {sample.metric} with the same parameters, {dict(sample.params)}: "
                    "their numbers would be one. Give one another name, or a parameter, e.g. params={'test': "
                    "'second'}"
                )

    def record(self, test: str, attempt: CycleAttempt[Measure], measure: Measure) -> None:
        """Store an attempt that has ended, with its numbers and files.

        The numbers of a failed attempt are stored as details: no statistic counts them.

        Raises:
            BoardlabError: the store cannot be written.
        """
        title, cycles = test.rpartition("::")[2], self.cycles(test)
        ok = attempt.error is None
        console = self.board.console
        base = log_base(console)
        virtual = frozenset({Flag.SIMULATED}) if self.run.provenance.get("virtual") is True else frozenset()
        flags = port_flags(console.info) | virtual | self.losses.flags()
        samples = tuple(sample_record(evolve(sample, flags=sample.flags | flags), base) for sample in measure.samples)
        uncounted = [*([] if ok else map(uncounted_number, samples)), *measure.refused]
        files = [self.store.artifacts.put(data, kind=f"{ATTACHED}{name}") for name, data in measure.files.items()]
        self.store_attempt(
            self.attempt_start,
            attempt,
            AttemptResult(
                params={TEST: test},
                artifacts=(*store_recording(self.store, console), *files),
                details={
                    **self.port_details(),
                    "software": dict(self.board.software),
                    **clocks_document(console),
                    **({"power_on": asdict(measure.silence)} if measure.silence else {}),
                    **({MEASURED: uncounted} if uncounted else {}),
                },
                samples=samples if ok else (),
                moments=tuple(moment_record(moment, base) for moment in measure.moments if moment.position >= base),
            ),
        )
        if attempt.error is not None:
            self.progress.attempt_failed(title, cycles, attempt)
        elif measure.samples:
            first = measure.samples[0]
            unit = first.declared.unit if first.declared else ""
            self.progress.cycle_done(title, cycles, Sample(first.value, first.uncertainty, attempt.cycle), unit)
