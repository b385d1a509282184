"""A low-power run: it measures the modes and power states of its plan, cycle by cycle, and can be resumed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

from attrs import asdict, define, evolve, field, frozen

from lab.benchmarks.boot import BootWatch
from lab.benchmarks.boot.crosscheck import contradictions
from lab.benchmarks.boot.timeline import RECENT, TimeLine, Usual, judge, learn
from lab.benchmarks.lowpower.modes import SuspendPlan, mode_of, wake_of
from lab.benchmarks.lowpower.power import Off, SteadyPower
from lab.benchmarks.lowpower.result import (
    MEAN_SLEEP_S,
    SuspendResult,
    boot_samples,
    expected_metrics,
    params,
    rail_samples,
    state_samples,
    suspend_samples,
)
from lab.errors import BoardlabError, BoardTransientError, LabStableError
from lab.metrics import Flag, Sample, SampleRecord
from lab.metrics.catalogue import RESUMES, STATES
from lab.results import ArtifactRef, Moment
from lab.results.records import POWER_TRACE
from lab.run.attempts import (
    AttemptResult,
    check_clocks,
    clocks_document,
    log_base,
    moment_record,
    port_flags,
    sample_record,
    store_recording,
)
from lab.run.board import Status, cross_check
from lab.run.engine import CycleRun

KIND = "low_power"


@frozen
class LowPowerCycle:
    """A good cycle: a suspend with its resume, a boot out of a mode, or a power state.

    Attributes:
        suspend: result of a suspend; None for the other kinds.
        cross_check: document of the board's own record of a boot; empty for the other kinds.
        steady: result of a power state; None for the other kinds.
    """

    samples: list[SampleRecord]
    suspend: SuspendResult | None = None
    moments: tuple[Moment, ...] = ()
    cross_check: Mapping[str, Any] = field(factory=dict)
    steady: SteadyPower | None = None


@define
class LowPowerRun(CycleRun[LowPowerCycle]):
    """Measures the modes and power states of a plan.

    `run.plan` has `cycles`, `modes` (with the power states), `wake`, `sleep_s` and `medium`. It has `energy` if each
    cycle measures energy, and `shuffle` if the cycles of all modes are measured in one random order.
    """

    ITEMS: ClassVar[str] = "modes"
    ITEM: ClassVar[str] = "mode"

    _trace: Path = field(init=False)

    def suspend_plan(self, mode: str) -> SuspendPlan:
        """Return how each cycle of a mode suspends and wakes the board."""
        wake = wake_of(self.board.type, mode, str(self.run.plan["wake"]), self.board.wired)
        return SuspendPlan(mode, wake, int(self.run.plan["sleep_s"]), bool(self.run.plan.get("energy")))

    def missing(self, mode: str) -> list[str]:
        """Return the metrics that each good cycle should have, and no cycle of this mode has.

        The power is followed by the reason why it is missing, e.g. "suspend.power.rail: the sleep is too short".
        Sampled rails without a power are named, too.
        """
        rail = RESUMES[mode].rail.name
        if mode in STATES:
            absent = {rail, RESUMES[mode].total.name} - self.measured_metrics(mode)
            return sorted(absent | self._silent_rails(mode, rail))
        planned = {
            metric.name for metric in expected_metrics(self.suspend_plan(mode), has_rails=self.board.rails is not None)
        }
        absent = planned - self.measured_metrics(mode)
        if rail not in absent:
            # A sleep too short to be planned with a power may still have sampled some rails: the others are no fault.
            return sorted(absent | (self._silent_rails(mode, rail) if rail in planned else set()))
        suspends = [attempt.details.get("suspend") or {} for attempt in self.good_attempts(mode=mode)]
        reason = next((suspend["no_power"] for suspend in reversed(suspends) if suspend.get("no_power")), "")
        return sorted(absent - {rail} | {f"{rail}: {reason}" if reason else rail})

    def _silent_rails(self, mode: str, metric: str) -> set[str]:
        """Return the sampled rails without a power, if other rails of the mode have one."""
        samples = [sample for attempt in self.good_attempts(mode=mode) for sample in attempt.samples]
        with_power = {sample.params["rail"] for sample in samples if sample.metric == metric}
        if not with_power or self.board.rails is None:
            return set()
        sampled = {rail.name for rail in self.board.rails.config.measured}
        return {f"{metric} of {rail}: its sensor gave no sample" for rail in sampled - with_power}

    def measure(self, mode: str, only: Sequence[int] | None = None) -> None:
        """Measure the pending cycles of one mode, or with `shuffle` those of all modes.

        Raises:
            BoardlabError: a cycle failed, and so did its retries; the others are in the store. With `shuffle` a
                transient failure of the board is raised only after all cycles have been tried.
        """
        with TemporaryDirectory(prefix="boardlab-trace-") as folder:
            self._trace = Path(folder) / "power.trace"
            if only is not None or not self.run.plan.get("shuffle"):
                super().measure(mode, only)
                return
            order = [(name, cycle) for name in self.items for cycle in self.pending(name)]
            Random(self.run.id).shuffle(order)  # noqa: S311 - an order, no secret
            failure: BoardTransientError | None = None
            for name, cycle in order:
                try:
                    super().measure(name, [cycle])
                except BoardTransientError as error:
                    failure = error
            if failure is not None:
                raise failure

    def prepare(self, item: str) -> None:  # noqa: ARG002 - all modes boot from one medium
        self.board.select_medium(str(self.run.plan["medium"]))
        self.board.low_power.release = self.run.release

    def try_cycle(self, item: str) -> LowPowerCycle:
        self.losses.flags()  # forget the bytes that were lost before this cycle
        self._trace.unlink(missing_ok=True)
        if item in STATES:
            return self._measure_state(item)
        plan = self.suspend_plan(item)
        return self._boot(plan) if mode_of(self.board.type, plan).boots else self._suspend(plan)

    def report(self, item: str, cycle: int, result: LowPowerCycle) -> None:
        cycles = self.cycles(item)
        if result.steady is not None:
            total, temperatures_c = result.steady.power.total, result.steady.temperatures_c
            if total.mean_w is None or total.uncertainty_w is None:
                self.progress.write(f"{item:5} no total power: the sensor of a rail gave no sample")
            else:
                power_mw = Sample(total.mean_w * 1e3, total.uncertainty_w * 1e3, cycle)
                self.progress.cycle_done(item, cycles, power_mw, "mW")
            if temperatures_c:
                zone = max(temperatures_c, key=temperatures_c.__getitem__)
                self.progress.write(f"{item:5} {temperatures_c[zone]:.1f} °C ({zone})")
            return
        latency_ms = result.samples[0]
        self.progress.cycle_done(item, cycles, Sample(latency_ms.value / 1e3, latency_ms.uncertainty / 1e3, cycle))
        suspend = result.suspend
        if suspend is None:
            return
        no_power = suspend.no_power if suspend.plan.sleep_s >= MEAN_SLEEP_S else ""
        remarks = {
            "mode unverified": suspend.unverified,
            "not cross-checked": suspend.unchecked,
            "the kernel": suspend.errors[0] if suspend.errors else "",
            "no power": no_power,
        }
        for title, remark in remarks.items():
            if remark:
                self.progress.write(f"{item:5} {title}: {remark}")

    def _measure_state(self, state: str) -> LowPowerCycle:
        """Measure the power of the board in a power state.

        Raises:
            LabStableError: a rail's sensor gave no sample (`power_sensor`).
        """
        steady: SteadyPower = self.board.low_power.steady(state, int(self.run.plan["sleep_s"]), self._trace)
        console = self.board.console
        samples = state_samples(steady, self._flags(), log_base(console) + len(console.captured()))
        if steady.power.total.mean_w is None:
            dead = ", ".join(rail.rail for rail in steady.power.rails if rail.measured and rail.mean_w is None)
            raise LabStableError(
                f"no sample of {dead} in the state {state}: the sensors do not answer. Sensors that the board itself "
                "powers cannot answer while it is off: leave this state out by naming the others with `--lab-mode`",
                failure="power_sensor",
            )
        return LowPowerCycle(samples, steady=steady)

    def _suspend(self, plan: SuspendPlan) -> LowPowerCycle:
        """Suspend and wake the board; flag a time outside the kernel that differs from the recent suspends'."""
        suspend: SuspendResult = self.board.low_power.cycle(plan, self._trace)
        console = self.board.console
        check_clocks(console, (suspend.edge or suspend.first_byte or suspend.answer).t_ns)
        flags = self._flags()
        recent = self.good_attempts(**params(suspend.plan))[-RECENT:]
        # From the wake-up edge to the answer at the prompt, less the time that the kernel accounts for.
        times_ms = [(attempt.details.get("suspend") or {}).get("outside_kernel_ms") for attempt in recent]
        usual = Usual.of([time_ms / 1e3 for time_ms in times_ms if time_ms is not None])
        if usual is not None and suspend.outside_kernel_ms is not None:
            value_ms, unsure_ms = suspend.outside_kernel_ms
            if abs(usual.beyond_s(value_ms / 1e3)) > unsure_ms / 1e3:
                flags |= {Flag.CLOCK_DISAGREES}
        edge_flags = frozenset() if suspend.is_named or usual else frozenset({Flag.NOT_CROSS_CHECKED})
        base, edge, first_byte = log_base(console), suspend.edge, suspend.first_byte
        samples = suspend_samples(suspend, flags, console.captured(), base, edge_flags)
        moments = [moment_record(moment, base) for moment in (first_byte, suspend.answer) if moment]
        if edge is not None and first_byte is not None:
            position = first_byte.position - 1 - base
            moments.insert(0, Moment("wake_edge", edge.t_ns, edge.uncertainty_ns, position, edge.source))
        return LowPowerCycle(samples, suspend, tuple(moments))

    def _boot(self, plan: SuspendPlan) -> LowPowerCycle:
        """Enter a mode that ends with a cold boot, measure its rails, and boot the board out of it."""
        self.board.low_power.enter(plan)
        end = len(self.board.console.captured())
        off: Off | None = self.board.low_power.rails_off(plan, self._trace)
        watch: BootWatch = self.board.low_power.cold_boot()
        check_clocks(self.board.console, watch.power.requested_ns)
        base = log_base(self.board.console)
        # The window of the rails' samples is the last line that the kernel printed before the mode.
        start = self.board.console.captured().rfind(b"\n", 0, max(0, end - 2)) + 1
        moments = tuple(moment_record(moment, base) for moment in watch.moments)
        flags = self._flags()
        off_rails = rail_samples(off, plan, flags, (base + start, base + end))
        boot = boot_samples(watch, plan, flags)
        record, doubt_flags = self._cross_check(watch, plan)
        samples = [evolve(sample, flags=sample.flags | doubt_flags) for sample in boot]
        return LowPowerCycle([*samples, *off_rails], None, moments, record)

    def _cross_check(self, watch: BootWatch, plan: SuspendPlan) -> tuple[Mapping[str, Any], frozenset[Flag]]:
        """Ask the board for its own record of the boot.

        Returns:
            The record as a document, empty if there is none, and the flags of the boot's numbers by it.

        Raises:
            BoardlabError: the record contradicts the moments, or the board did not keep what the mode has to keep.
        """
        check = None
        try:
            check = cross_check(self.board, watch.log.marks)
            if check is not None:
                self.board.low_power.check_kept()
        except BoardlabError as error:  # the boot succeeded; a failed login is no reason to drop it
            if isinstance(error, BoardTransientError) and error.failure in {"rtc_lost", "wrong_sleep_mode"}:
                raise
            check = None
            self.progress.write(f"the board is not asked about its boot: {error}")
        self.board.status = Status.unknown  # so the next cycle begins with a power cycle
        if check is None or watch.prompt is None:
            return {}, frozenset({Flag.NOT_CROSS_CHECKED})
        attempts = self.good_attempts(**params(plan))
        others = [attempt.details["cross_check"] for attempt in attempts if attempt.details.get("cross_check")]
        spoken = watch.spoken if watch.log.has_times and not check.is_first(watch.split_ns) else None
        for contradiction in contradictions(check, watch.start, spoken, watch.prompt, others):
            raise contradiction
        line = check.time_line(watch.start, watch.prompt, watch.time_line)
        doubts = judge(line, learn(map(TimeLine.of_document, others))).flags
        if line.getty is not None:
            # Later cycles cannot lift this flag from the first ones, which are not judged again (as boot runs do).
            doubts -= {Flag.NOT_CROSS_CHECKED}
        return {**check.document(), **line.document()}, check.flags | doubts

    def _flags(self) -> frozenset[Flag]:
        """Return the flags of the port, of a virtual board, and of bytes that were lost."""
        virtual = frozenset({Flag.SIMULATED}) if self.board.type.virtual else frozenset()
        return port_flags(self.board.console.info) | virtual | self.losses.flags()

    def evidence(self, item: str, result: LowPowerCycle | None) -> AttemptResult:
        console = self.board.console
        base, trace = log_base(console), list[ArtifactRef]()
        if self._trace.exists():  # only a cycle that has sampled the rails has one
            trace = [self.store.artifacts.put(self._trace.read_bytes(), kind=POWER_TRACE)]
        details = {**self.port_details(), "software": dict(self.board.software), **clocks_document(console)}
        details["suspend"] = _suspend_details(result.suspend) if result and result.suspend else None
        if result and result.cross_check:
            details["cross_check"] = result.cross_check
        if result and result.steady:
            steady = result.steady
            details["state"] = {
                "span_ns": [steady.power.start_ns, steady.power.end_ns],
                "program": steady.program,
                "busy": list(steady.busy),
                "temperatures_c": dict(steady.temperatures_c),
                "throttled": list(steady.throttled),
            }
        return AttemptResult(
            params={"mode": item} if item in STATES else params(self.suspend_plan(item)),
            artifacts=(*store_recording(self.store, console), *trace),
            details=details,
            samples=tuple(sample_record(sample, base) for sample in result.samples) if result else (),
            moments=result.moments if result else (),
        )


def _suspend_details(suspend: SuspendResult) -> dict[str, object]:
    """Return the evidence of a suspend as details of an attempt."""
    return {
        "kernel": asdict(suspend.log),
        "found": asdict(suspend.found),
        "asleep_s": suspend.asleep_s,
        "evidence": [asdict(line) for line in suspend.evidence],
        "unverified": suspend.unverified,
        "unchecked": suspend.unchecked,
        "errors": list(suspend.errors),
        "lost_lines": suspend.lost_lines,
        "outside_kernel_ms": suspend.outside_kernel_ms and suspend.outside_kernel_ms[0],
        "no_power": suspend.no_power,
        "temperatures_c": suspend.temperatures_c,
        "mcu_uart": suspend.mcu_text,
        "energy_span_ns": None if suspend.energy is None else [suspend.energy.start_ns, suspend.energy.end_ns],
    }
