"""A run of a lab's own tests: the numbers that they hand to `measure`, cycle by cycle.

Each cycle is an attempt, as of the other runs: recorded by the same engine, with its console log, its failure class
and the state of the board.
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
    base_of,
    check_clocks,
    clocks_document,
    moment_record,
    port_flags,
    sample_record,
    store_recording,
    uncounted_number,
)
from lab.run.engine import RunEngine
from lab.run.moment_sources import Signal, signal

KIND: Final = "measure"
_POLL_S: Final = 1.0  # between two looks at the console
_PROBE_S: Final = 0.02  # between two tries of the network
_BLOCK_RESOLUTION_S: Final = 1e-3  # of a block of Python, with the way to the board in it
_LARGEST_FILE: Final = 64 << 20  # bytes of an attached file
_EVENTS: Final = {"gpio": "edge", "pin": "edge", "can": "frame"}  # of an address's scheme; others: an answer


@define
class Measure:
    """The numbers of one cycle of a test, by the fixture `measure`.

    Attributes:
        params: distinguish the test's numbers from those of its other parameters.
        silence: from power on to the board's first moment, where `moment` has looked for it.
        moments: of `moment`.
        samples: what was measured.
        refused: what a wrong call measured, with the reason; it is kept in the attempt.
        files: attached ones by name.
    """

    run: Run
    _store: Store
    _declarations: Declarations
    _board: Any
    _clock: Clock
    params: Mapping[str, str]
    _silences: Sequence[PowerOnSilence] = ()
    _earlier: PowerEdge | None = None  # of the cycle before
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
        """Record a number of this cycle, or several.

        Args:
            name: of the metric, e.g. "camera.first_frame".
            value: in `unit`; a list has several samples of the cycle.
            unit, better, resolution, definition, version: as of `lab.metrics.Metric`; needed where metrics.toml does
                not declare the metric, and only in its first call.
            uncertainty: ± of each value, in `unit`; default: half of the resolution.
            params: further ones that distinguish this number, e.g. {"camera": "left"}.

        Raises:
            ConfigurationError: the metric is not declared, or otherwise, here or in the results.
            TestStableError: a value is no finite number.
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
        """Record the seconds that a block takes, by this host's clock; one that fails records nothing.

        Args:
            name: of the metric, in seconds.
            definition, version, params: as of a call.
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
        """Record the time to a line of the console, by the stamps that time the boots.

        It waits for the line unless it has come already; the first one behind `since` counts.

        Args:
            name: of the metric, in seconds.
            pattern: regular expression within a line, e.g. "application ready".
            since: regular expression of the line to count from; empty: from the power switch's acknowledgement of on.
            definition, version, params: as of a call.

        Raises:
            ConfigurationError: a wrong pattern, another unit declared, or a board without stamps or power switch.
            BoardTransientError: the line did not come (`moment_missing`).
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
        """Record the time from power on to the board's first signal beside its console, on this host's clock.

        As `answers` does, of one signal.

        Args:
            name: of the metric, in seconds.
            address: `lab.run.moment_sources.FORMS`; of a URL the status has to be below 400.
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
        """Record the times from power on to several signals of one start.

        It is called as soon as the board is switched on (`strategy.switch_on()`). An answer of the network came
        between the start of the last try that failed and the end of the first that did not; the kernel stamps edges
        and frames.

        Args:
            addresses: metric, in seconds -> address, `lab.run.moment_sources.FORMS`.

        Raises:
            ConfigurationError: a wrong address, another unit declared, or stamps of another host's clock.
            BoardTransientError: one did not come in time (`moment_missing`); the others are recorded.
        """
        console, edge = self._board.console, self._edge()
        if getattr(console, "relation", None) is not None:
            raise ConfigurationError("measure.answer: the console is on another host, whose clock is not this one's")
        deadline_ns = self._clock.now_ns() + round(timeout_s * NS_PER_S)
        with ExitStack() as signals:
            waiting: dict[str, Signal] = {}
            for name, address in addresses.items():
                waiting[name] = signal(address, self._clock, edge.requested_ns, self._pin)
                signals.callback(waiting[name].close)
            while waiting:
                for name, expected in list(waiting.items()):
                    if (answer := expected.poll()) is not None:
                        del waiting[name]
                        address = addresses[name]
                        end = Moment(name, answer.t_ns, answer.uncertainty_ns, base_of(console), address)
                        start = power_on(edge, self._first_byte(end))
                        event = _EVENTS.get(address.partition(":")[0], "answer")
                        text = f"the first {event} of {address}"
                        self._record_interval(name, start, end, edge, text, definition, version, params)
                if waiting and self._clock.now_ns() > deadline_ns:
                    raise BoardTransientError(
                        f"{', '.join(addresses[name] for name in waiting)} did not come within {timeout_s:g} s: is "
                        "the address right, and does the board send it? The last its console said was "
                        f"{self._board.tail()!r}",
                        failure="moment_missing",
                    )
                console.poll(_PROBE_S if waiting else 0)

    def _pin(self, name: str) -> Callable[[], bool]:
        """Reader of a pin's level, by labgrid's driver of this name."""
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
        """Wait for a line of the console, behind the line `since`; they become moments of the cycle."""
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
                    f"no line of the console fits {missing!r} within {timeout_s:g} s; "
                    f"the last it said was {self._board.tail()!r}",
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
        """Record an interval; `edge`: its begin is the power's."""
        value_s = (end.t_ns - start.t_ns) / NS_PER_S
        bound_s = of_interval(start.uncertainty_ns, end.uncertainty_ns) / NS_PER_S
        doubts = {
            Flag.OFF_UNVERIFIED: edge is not None and not edge.off_verified,
            Flag.ON_UNVERIFIED: edge is not None and not self._is_confirmed(edge),
            Flag.UNCERTAIN: bound_s > UNCERTAIN_SHARE * value_s,
        }
        flags = frozenset(flag for flag, holds in doubts.items() if holds)
        about = f"From {f'the line {since!r}' if since else 'power on'} to {text}."
        is_declared = name in self._declarations.metrics
        declaration = {
            "unit": "s",
            "better": "lower",
            "resolution": None if is_declared else MOMENT_RESOLUTION_S,
            "definition": definition if definition is not None or is_declared else about,
            "version": version,
        }
        self._record(name, value_s, bound_s, params, (start.position, end.position), flags, declaration)

    def _is_confirmed(self, edge: PowerEdge) -> bool:
        """True if the rails, or the run's other boots, confirm when the power came."""
        moments = find_moments(self._board.console.capture, self._board.type.moments, self._board.timing())
        if not moments:
            return False
        self.silence = PowerOnSilence.of(edge, moments[0])
        return edge.on_verified and not doubt(edge, self.silence, self._silences)

    def _edge(self) -> PowerEdge:
        edge = _last_edge(self._board)
        if edge is None or edge is self._earlier:
            raise ConfigurationError(
                "the board was not switched on in this cycle, or its strategy is older than this boardlab: bring it "
                "up by `strategy.transition`, or say `since`, a line to count from"
            )
        return edge

    def _first_byte(self, end: Moment) -> Moment:
        """The first that the board printed: power was on by then."""
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
        """Record numbers; what a wrong call measured is kept with the attempt."""
        several = isinstance(value, Iterable) and not isinstance(value, (str, bytes))
        values: list[object] = [] if several else [value]
        try:
            for item in value if isinstance(value, Iterable) and several else ():
                values.append(item)
            all_params = self._params(params)
            metric = self._declarations.metric(name, **declaration)
            self._store.check_definition(metric)
            for number in _values(name, values):
                self.samples.append(sample_of(metric, all_params, number, uncertainty, flags, window, declared=True))
        except Exception as error:
            own_params: Mapping[Any, Any] = params or {}
            if not isinstance(own_params, Mapping):
                own_params = {"params": repr_short(params)}
            self.refused.append(
                {
                    "metric": str(name),
                    "value": repr_short(values if several else value),
                    "unit": declaration["unit"],
                    "params": {str(key): str(text) for key, text in {**self.params, **own_params}.items()},
                    "why": str(error),
                }
            )
            raise

    def _params(self, params: Mapping[str, str] | None) -> dict[str, str]:
        """The parameters of a number: the test's, and those of the call.

        Raises:
            ConfigurationError: one is no text, or contradicts the test's.
        """
        own = params or {}
        if not isinstance(own, Mapping):
            raise ConfigurationError(
                f"measure: params {repr_short(params)}: give names and texts, e.g. params={{'camera': 'left'}}"
            )
        wrong = [key for key, text in own.items() if not (isinstance(key, str) and isinstance(text, str) and key)]
        if wrong:
            raise ConfigurationError(
                f"measure: params {wrong!r}: names and values are texts, e.g. params={{'camera': 'left'}}"
            )
        contradicted = [name for name, text in own.items() if self.params.get(name, text) != text]
        if contradicted:
            raise ConfigurationError(
                f"measure: params {', '.join(contradicted)}: the test has a parameter of that name, with another "
                "value; give yours another name"
            )
        return {**self.params, **own}

    def attach(self, file: Path | str | bytes, name: str = "") -> None:
        """Keep a file with the cycle, as evidence of its numbers.

        Args:
            file: a path, or the contents.
            name: default: the path's last part.

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
                f"measure.attach: {name or 'contents without a name'}, {len(data)} bytes: give a name, and at most "
                f"{_LARGEST_FILE} bytes"
            )
        self.files[name] = data

    def _window(self) -> tuple[int | None, int | None]:
        """The console's bytes since the call before, as positions of its stream."""
        last = next((event for event in reversed(self._board.console.capture) if isinstance(event, Chunk)), None)
        if last is None:
            return None, None
        start = max(self._window_start, base_of(self._board.console))
        self._window_start = last.position + len(last.data)
        return start, self._window_start


def _last_edge(board: Any) -> PowerEdge | None:
    """The board's last power on; None: none in this session, or its strategy is an older boardlab's."""
    edge: PowerEdge | None = getattr(board, "edge", None)
    return edge


def _values(name: str, values: Sequence[Any]) -> list[float]:
    """The numbers of a call.

    Raises:
        TestStableError: one is no finite number, or there is none.
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
                f"measure({name!r}): expected a finite number, or a list of them; got {repr_short(value, 40)}; the "
                f"largest is {LARGEST:g}"
            )
        numbers.append(number)
    if not numbers:
        raise TestStableError(f"measure({name!r}): the list is empty; measure at least one number")
    return numbers


@define
class MeasureRun(RunEngine):
    """Records the cycles of a session's tests; pytest tries them.

    `run.plan` has the `tests`, and the cycles of each (`repeats`).
    """

    ITEMS: ClassVar[str] = "tests"
    ITEM: ClassVar[str] = TEST

    declarations: Declarations = field(factory=Declarations)
    _test_of: dict[tuple[str, frozenset[tuple[str, str]]], str] = field(init=False, factory=dict)  # by number

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        for attempt in self.attempts:
            for sample in attempt.samples:
                self._test_of[sample.metric, frozenset(sample.params.items())] = attempt.params[TEST]

    def cycles(self, item: str) -> int:
        return int(self.run.plan["repeats"].get(item, 1))

    def begin(self, params: Mapping[str, str]) -> Measure:
        """Begin an attempt at a cycle."""
        self.start_attempt()
        self.losses.flags()  # earlier losses are not of this cycle
        others = silences(attempt.details.get("power_on") for attempt in self.good_attempts())
        return Measure(
            self.run, self.store, self.declarations, self.board, self.clock, params, others, _last_edge(self.board)
        )

    def check_test(self, test: str, measure: Measure) -> None:
        """Refuse numbers that another test of the run has measured.

        Raises:
            ConfigurationError: the message names both tests.
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
        """Store an attempt that has ended, with all that it measured.

        Raises:
            BoardlabError: the store cannot be written.
        """
        title, cycles = test.rpartition("::")[2], self.cycles(test)
        ok = attempt.error is None
        console = self.board.console
        base = base_of(console)
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
