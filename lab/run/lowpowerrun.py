"""A low-power run: modes × cycles on one board, resumable."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from attrs import asdict, define, evolve, field, frozen

from lab.benchmarks.boot import BootWatch
from lab.benchmarks.boot.crosscheck import contradictions, doubts
from lab.benchmarks.cycles import CycleAttempt, nothing_before_cycle, run_cycles
from lab.benchmarks.lowpower.modes import SuspendPlan, mode_of, wake_of
from lab.benchmarks.lowpower.power import Off, SteadyPower
from lab.benchmarks.lowpower.result import SuspendResult
from lab.benchmarks.lowpower.samples import MEAN_SLEEP_S, expected, of_boot, of_rails, of_state, of_suspend, params
from lab.console.holders import fairly
from lab.errors import BoardlabError, BoardTransientError, LabStableError
from lab.host.clock import Clock
from lab.metrics import Flag, Sample, SampleRecord
from lab.metrics.catalogue import RESUMES, STATES
from lab.metrics.declared import Limits
from lab.results import ArtifactRef, MomentRecord, Run, Store
from lab.results.records import POWER_TRACE
from lab.run.attempts import (
    AttemptRecorder,
    AttemptResult,
    Losses,
    base_of,
    check_clocks,
    clocks_document,
    moment_record,
    port_flags,
    recording,
    sample_record,
    stored_metrics,
)
from lab.run.board import Board, Status, cross_check
from lab.run.progress import Progress

KIND = "low_power"
KNOWN = 3  # suspends of the run, from which on their median says something
APART_MS = 500.0  # of a firmware and a shell from their usual time; some 100 ms are a board's own


@frozen
class Cycle:
    """A good cycle; `suspended` None: a boot out of its mode, with `checked`, the board's own facts; or a power state."""

    samples: list[SampleRecord]
    suspended: SuspendResult | None
    moments: tuple[MomentRecord, ...] = ()
    checked: Mapping[str, Any] = field(factory=dict)
    steady: SteadyPower | None = None


@define
class LowPowerRun:
    """Measures a run's pending cycles.

    Attributes:
        run: from the store; `run.plan` has `cycles`, `modes` (and power states), `wake`, `sleep_s` and `medium`, and `energy` if
            each cycle measures it, and `shuffle` if all modes' cycles have one random order.
        retries: further attempts a cycle after a transient failure.
        before_cycle: called before each cycle, see `run_cycles`. limits: of metrics, by the lab.
    """

    store: Store
    run: Run
    board: Board
    progress: Progress
    clock: Clock
    sleep: Callable[[float], None]
    retries: int
    before_cycle: Callable[[], None] = nothing_before_cycle
    limits: Limits = field(factory=dict)
    _trace: Path = field(init=False)
    _losses: Losses = field(init=False)

    def plan(self, mode: str) -> SuspendPlan:
        """One suspend of this run."""
        wake = wake_of(self.board.type, mode, str(self.run.plan["wake"]), self.board.wired)
        return SuspendPlan(mode, wake, int(self.run.plan["sleep_s"]), bool(self.run.plan.get("energy")))

    def pending(self, mode: str) -> list[int]:
        """The cycles of this mode without a sample."""
        metric = RESUMES[mode].metrics[0]
        done = {s.cycle for s in self.store.samples(self.run.id, metric=metric.name)}
        return [cycle for cycle in range(1, int(self.run.plan["cycles"]) + 1) if cycle not in done]

    def missing(self, mode: str) -> list[str]:
        """The metrics of every good cycle that this mode lacks.

        A missing power has its reason.
        """
        if mode in STATES:
            wanted = {RESUMES[mode].rail.name, RESUMES[mode].total.name}
            return sorted(wanted - stored_metrics(self.store, self.run.id, mode=mode))
        wanted = {metric.name for metric in expected(self.plan(mode), has_rails=self.board.rails is not None)}
        absent = wanted - stored_metrics(self.store, self.run.id, mode=mode)
        rail = RESUMES[mode].rail
        if rail.name not in absent:
            return sorted(absent)
        suspends = [
            attempt.details.get("suspend") or {}
            for attempt in self.store.attempts(self.run.id)
            if attempt.ok and attempt.params.get("mode") == mode
        ]
        why = next((suspend["no_power"] for suspend in reversed(suspends) if suspend.get("no_power")), "")
        return sorted(absent - {rail.name} | {f"{rail.name}: {why}" if why else rail.name})

    def measure(self, mode: str) -> None:
        """Measure the pending cycles of one mode, or with `shuffle` those of all modes.

        Raises:
            BoardlabError: a cycle could not be measured within its retries; the others are in the store. With `shuffle` a
                board's transient failure is raised at the end.
        """
        if not self.run.plan.get("shuffle"):
            self._measure(mode, self.pending(mode))
            return
        order = [(name, cycle) for name in self.run.plan["modes"] for cycle in self.pending(name)]
        Random(self.run.id).shuffle(order)  # noqa: S311 - an order, no secret
        failed: BoardTransientError | None = None
        for name, cycle in order:
            try:
                self._measure(name, [cycle])
            except BoardTransientError as error:
                failed = error
        if failed is not None:
            raise failed

    def _measure(self, mode: str, pending: Sequence[int]) -> None:
        self.board.select_medium(str(self.run.plan["medium"]))
        self.board.low_power.release = self.run.release
        cycles, plan = int(self.run.plan["cycles"]), None if mode in STATES else self.plan(mode)
        of = {"mode": mode} if plan is None else params(plan)
        recorder = AttemptRecorder(self.store, self.run.id, self.clock, self.limits)
        self._losses = Losses(self.board.console)

        def one(_cycle: int, _number: int) -> Cycle:
            recorder.start()
            self._losses.flags()  # earlier losses are not of this cycle
            self.board.console.capture = []
            self._trace.unlink(missing_ok=True)
            with fairly(self.board.console):
                if plan is None:
                    return self._steady(mode)
                return self._boot(plan) if mode_of(self.board.type, plan).boots else self._suspend(plan)

        def record(attempt: CycleAttempt[Cycle]) -> None:
            recorder.record(attempt, self._evidence(of, attempt.result))
            if attempt.error is not None:
                is_last = not attempt.again
                self.progress.bad(mode, attempt.cycle, cycles, attempt.number, attempt.error, is_last=is_last)
            elif attempt.result is not None and attempt.result.steady is not None:
                self._report(attempt.result.steady, attempt.cycle, cycles)
            elif plan is not None and attempt.result is not None:
                first = attempt.result.samples[0]
                in_s = Sample(first.value / 1e3, first.uncertainty / 1e3, attempt.cycle)
                self.progress.good(mode, attempt.cycle, cycles, in_s)
                done = attempt.result.suspended
                if done is not None and done.unverified:
                    self.progress.write(f"{mode:5} mode unverified: {done.unverified}")
                if done is not None and done.unchecked:
                    self.progress.write(f"{mode:5} not cross-checked: {done.unchecked}")
                if done is not None and done.errors:
                    self.progress.write(f"{mode:5} the kernel: {done.errors[0]}")
                if done is not None and done.no_power and plan.sleep_s >= MEAN_SLEEP_S:
                    self.progress.write(f"{mode:5} no power: {done.no_power}")

        with TemporaryDirectory(prefix="boardlab-trace-") as folder:
            self._trace = Path(folder) / "power.trace"
            run_cycles(pending, one, record, retries=self.retries, sleep=self.sleep, before_cycle=self.before_cycle)

    def _steady(self, state: str) -> Cycle:
        done: SteadyPower = self.board.low_power.steady(state, int(self.run.plan["sleep_s"]), self._trace)
        console = self.board.console
        samples = of_state(done, self._flags(), base_of(console) + len(console.captured()))
        if done.power.total.mean_w is None:
            dead = ", ".join(rail.rail for rail in done.power.rails if rail.measured and rail.mean_w is None)
            raise LabStableError(
                f"no good sample of {dead} in the state {state}: the sensors do not answer, as those that the board feeds do not while it is "
                "off. `--lab-mode` names the states to measure",
                failure="power_sensor",
            )
        return Cycle(samples, None, steady=done)

    def _report(self, done: SteadyPower, number: int, cycles: int) -> None:
        """A line about a power state, and one about its temperature."""
        total = done.power.total
        milliwatt = Sample((total.mean_w or 0.0) * 1e3, (total.uncertainty_w or 0.0) * 1e3, number)
        self.progress.good(done.state, number, cycles, milliwatt, "mW")
        if done.temperatures_c:
            zone, warmest_c = max(done.temperatures_c.items(), key=lambda each: each[1])
            self.progress.write(f"{done.state:5} {warmest_c:.1f} °C ({zone})")

    def _suspend(self, plan: SuspendPlan) -> Cycle:
        done: SuspendResult = self.board.low_power.cycle(plan, self._trace)
        console = self.board.console
        check_clocks(console, (done.edge or done.first_byte or done.answer).t_ns)
        flags = self._flags() | self._clock_flags(done)
        samples = of_suspend(done, flags, console.captured(), base_of(console))
        return Cycle(samples, done, self._moments(done))

    def _boot(self, plan: SuspendPlan) -> Cycle:
        self.board.low_power.enter(plan)
        end = len(self.board.console.captured())
        off: Off | None = self.board.low_power.rails_off(plan, self._trace)
        watch: BootWatch = self.board.low_power.cold_boot()
        check_clocks(self.board.console, watch.power.requested_ns)
        base = base_of(self.board.console)
        start = self.board.console.captured().rfind(b"\n", 0, max(0, end - 2)) + 1  # the kernel's last line
        moments = tuple(moment_record(moment, base) for moment in watch.moments)
        flags = self._flags()
        rails = of_rails(off, plan, flags, (base + start, base + end))
        boot = of_boot(watch, plan, flags)
        checked, doubts = self._cross_checked(watch, plan)
        return Cycle([*(evolve(each, flags=each.flags | doubts) for each in boot), *rails], None, moments, checked)

    def _cross_checked(self, watch: BootWatch, plan: SuspendPlan) -> tuple[Mapping[str, Any], frozenset[Flag]]:
        """The board's own facts of its boot, and their doubts.

        Raises:
            BoardlabError: they contradict the moments.
        """
        try:
            found = cross_check(self.board)
            if found is not None:
                self.board.low_power.check_kept()
        except BoardTransientError as error:
            if error.failure in {"rtc_lost", "wrong_sleep_mode"}:
                raise
            found = None
            self.progress.write(f"the board is not asked about its boot: {error}")
        except BoardlabError as error:  # the boot is over, and is not to blame
            self.progress.write(f"the board is not asked about its boot: {error}")
            found = None
        self.board.status = Status.unknown  # each cycle begins with a power cycle
        if found is None or watch.prompt is None:
            return {}, frozenset({Flag.NOT_CROSS_CHECKED})
        known = [details["cross_check"] for details in self._good(plan) if details.get("cross_check")]
        for contradiction in contradictions(found, watch.start, watch.prompt, known):
            raise contradiction
        return found.document(watch.start, watch.prompt), found.flags | doubts(found, watch.start, watch.prompt, known)

    def _good(self, plan: SuspendPlan) -> list[Mapping[str, Any]]:
        """Details of the run's good attempts of this plan."""
        return [each.details for each in self.store.good_attempts(self.run.id) if each.params == params(plan)]

    def _clock_flags(self, done: SuspendResult) -> frozenset[Flag]:
        """`clock_disagrees` if host and kernel differ by another time than in the run's other suspends."""
        suspends = [details.get("suspend") or {} for details in self._good(done.plan)]
        usual = [suspend["outside_kernel_ms"] for suspend in suspends if suspend.get("outside_kernel_ms") is not None]
        if done.outside_kernel_ms is None or len(usual) < KNOWN:
            return frozenset()
        value, unsure = done.outside_kernel_ms
        apart = abs(value - statistics.median(usual)) - unsure > APART_MS
        return frozenset({Flag.CLOCK_DISAGREES} if apart else ())

    def _moments(self, done: SuspendResult) -> tuple[MomentRecord, ...]:
        base = base_of(self.board.console)
        first = done.first_byte
        marks = [moment_record(moment, base) for moment in (first, done.answer) if moment]
        if done.edge is not None and first is not None:
            edge = done.edge
            marks.insert(
                0, MomentRecord("wake_edge", edge.t_ns, edge.uncertainty_ns, first.position - 1 - base, edge.source)
            )
        return tuple(marks)

    def _power_trace(self) -> tuple[ArtifactRef, ...]:
        """The trace of the rails' sampler in this attempt, if any."""
        if not self._trace.exists():
            return ()
        return (self.store.artifacts.put(self._trace.read_bytes(), kind=POWER_TRACE),)

    def _flags(self) -> frozenset[Flag]:
        virtual = frozenset({Flag.SIMULATED}) if self.board.type.virtual else frozenset()
        return port_flags(self.board.console.info) | virtual | self._losses.flags()

    def _evidence(self, of: Mapping[str, str], cycle: Cycle | None) -> AttemptResult:
        console = self.board.console
        return AttemptResult(
            params=dict(of),
            artifacts=(*recording(self.store, console), *self._power_trace()),
            details={
                "port": asdict(console.info.meta) if console.info else None,
                "software": dict(self.board.software),
                **clocks_document(console),
                "suspend": _suspend_details(cycle.suspended) if cycle and cycle.suspended else None,
                **({"cross_check": cycle.checked} if cycle and cycle.checked else {}),
                **({"state": _state_details(cycle.steady)} if cycle and cycle.steady else {}),
            },
            samples=tuple(sample_record(s, base_of(console)) for s in cycle.samples) if cycle else (),
            moments=cycle.moments if cycle else (),
        )


def _suspend_details(done: SuspendResult) -> dict[str, object]:
    return {
        "kernel": asdict(done.log),
        "found": asdict(done.found),
        "asleep_s": done.asleep_s,
        "evidence": [asdict(each) for each in done.evidence],
        "unverified": done.unverified,
        "unchecked": done.unchecked,
        "errors": list(done.errors),
        "lost_lines": done.lost_lines,
        "outside_kernel_ms": done.outside_kernel_ms and done.outside_kernel_ms[0],
        "no_power": done.no_power,
        "temperatures_c": done.temperatures_c,
        "mcu_uart": done.mcu_text,
        "energy_span_ns": None if done.energy is None else [done.energy.start_ns, done.energy.end_ns],
    }


def _state_details(done: SteadyPower) -> dict[str, object]:
    return {
        "span_ns": [done.power.start_ns, done.power.end_ns],
        "program": done.program,
        "busy": list(done.busy),
        "temperatures_c": dict(done.temperatures_c),
        "throttled": list(done.throttled),
    }
