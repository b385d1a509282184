"""The result of a suspend, the evidence for its mode, and its samples."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from attrs import Factory, frozen

from lab.benchmarks.boot import BootWatch, MomentLike
from lab.benchmarks.lowpower.kernellog import END, SuspendLog, stamp
from lab.benchmarks.lowpower.modes import MCU_ONLY, RTC, SuspendPlan
from lab.benchmarks.lowpower.power import Off, PhasePowerProtocol, SteadyPower
from lab.benchmarks.lowpower.preflight import PrintkSettings
from lab.benchmarks.lowpower.watch import WakeEdge
from lab.boards import BoardType
from lab.errors import BoardTransientError
from lab.metrics import Flag, Metric, SampleRecord, uncertainty
from lab.metrics.catalogue import BOOT_POWER_ON, BOOT_STAGE, RESUMES
from lab.metrics.model import sample_of
from lab.metrics.uncertainty import UNCERTAIN_SHARE

CLOCK_PPM = 100.0  # largest error of a board's crystal
RTC_OFF_S = 3.0  # the RTC is read in whole seconds, twice, by a shell
STAMP_NS = 1_000  # printk's stamps are cut to microseconds: a difference of two is wrong by less than one
MEAN_SLEEP_S: Final = 8  # a shorter sleep may have no mean power: docs/low-power.md, "Uncertainty of one reading"


@frozen
class SuspendResult:
    """A suspend and resume that went well.

    Attributes:
        log: the kernel's lines.
        edge: the host's edge that woke the board; None: the RTC did.
        is_named: the firmware names that source.
        first_byte, answer: of the console after the wake-up.
        asleep_s: silence of the console, on the host's clock.
        found: the kernel's consoles and log level, as they were and are again.
        evidence: for the mode.
        unverified: missing evidence; empty: verified.
        mcu_text: output of the MCU's UART meanwhile.
        power: of the rails while asleep.
        energy: from the command to the answer. None: not measured.
        no_power: why sampled rails have no mean power while asleep; empty: they have one, or are not sampled.
        unchecked: missing confirmations of the kernel's lines; empty: none.
        errors: of the kernel while it suspended and resumed.
        lost_lines: of the kernel's log, on the console.
        rtc_off_s: by which the RTC is ahead of the host's clock since before the suspend; None: unknown.
        temperatures_c: "before" and "after" -> thermal zone or sensor of the board -> its temperature.
        throttled: cooling devices that slowed a processor down afterwards.
    """

    plan: SuspendPlan
    log: SuspendLog
    edge: WakeEdge | None
    first_byte: MomentLike | None
    answer: MomentLike
    asleep_s: float
    found: PrintkSettings
    evidence: tuple[ModeEvidence, ...]
    unverified: str
    mcu_text: str
    power: PhasePowerProtocol | None
    energy: PhasePowerProtocol | None = None
    no_power: str = ""
    unchecked: str = ""
    errors: tuple[str, ...] = ()
    lost_lines: int = 0
    rtc_off_s: float | None = None
    temperatures_c: Mapping[str, Mapping[str, float]] = Factory(dict)
    throttled: tuple[str, ...] = ()
    is_named: bool = False

    @property
    def kernel_ms(self) -> tuple[float, float]:
        """The vendor's resume latency and its ±, in milliseconds."""
        latency_s = self.log.latency_s or 0.0
        return latency_s * 1e3, STAMP_NS / 1e6 + latency_s * CLOCK_PPM / 1e3

    @property
    def flags(self) -> frozenset[Flag]:
        """Doubts of all its numbers."""
        doubts = {
            Flag.MODE_UNVERIFIED: self.unverified,
            Flag.NOT_CROSS_CHECKED: self.unchecked,
            Flag.KERNEL_ERRORS: self.errors,
            Flag.CONSOLE_OVERRUN: self.lost_lines,
            Flag.THROTTLED: self.throttled,
            Flag.CLOCK_DISAGREES: self.rtc_off_s is not None and abs(self.rtc_off_s) > RTC_OFF_S,
        }
        return frozenset(flag for flag, doubt in doubts.items() if doubt)

    @property
    def outside_kernel_ms(self) -> tuple[float, float] | None:
        """Time from the edge to the answer without the kernel's, and its ±: the firmware's and the shell's (ms)."""
        if self.edge is None:
            return None
        (whole, unsure), (kernel, _) = self.since_edge_ms(self.answer), self.kernel_ms
        return whole - kernel, unsure

    def since_edge_ms(self, moment: MomentLike) -> tuple[float, float]:
        """Time from the wake-up edge to a moment, and its ± (ms).

        A board that printed before the acknowledgement had been woken by then; no output came before the request, and
        moving an earlier stamp adds to its ±. On a busy host the edge may also have come later than its stamp, which
        adds to the byte's ±.
        """
        if self.edge is None:
            return 0.0, 0.0
        asked_ns = self.edge.requested_ns
        edge_ns = min(self.edge.t_ns, max(asked_ns, (self.first_byte or self.answer).t_ns))
        heard_ns = max(asked_ns, moment.t_ns)
        moved_ns = heard_ns - moment.t_ns
        bound_ns = uncertainty.of_interval(edge_ns - asked_ns, moment.uncertainty_ns + moved_ns + self.edge.late_ns)
        return (heard_ns - edge_ns) / 1e6, bound_ns / 1e6


KERNEL, MCU_UART, POWER = "the kernel's lines", "the MCU's UART", "the power of the rails"
FIRMWARE = "the firmware's lines on the console"
_MCU_SUSPENDED = "Suspend request to MCU-only mode received"


@frozen
class ModeEvidence:
    """One source's evidence of the mode.

    Attributes:
        source: its name.
        says: the mode; empty: none.
        why_not: reason for none.
    """

    source: str
    says: str
    why_not: str = ""


def of_mcu(text: str | None) -> ModeEvidence:
    """The evidence of the MCU's UART; None: not read.

    Its silence proves nothing, for its firmware may be another.
    """
    if text is None:
        return ModeEvidence(MCU_UART, "", "the env has no SideConsoleDriver for it")
    suspended = _MCU_SUSPENDED in text
    return ModeEvidence(MCU_UART, MCU_ONLY if suspended else "", "" if suspended else "it said nothing of MCU-only")


def of_firmware(text: str, plan: SuspendPlan, board: BoardType) -> ModeEvidence | None:
    """The evidence of the firmware's lines; None: no mode prints any.

    Its silence is none for another mode: a quiet build prints nothing.
    """
    signed = {name: mode.signature for name in board.sleep if (mode := board.low_power.modes[name]).signature}
    if not signed:
        return None
    reported = next((name for name, signature in signed.items() if re.search(signature, text)), "")
    lacks = f"it printed nothing like {signed[plan.mode]!r}" if plan.mode in signed else "it printed no mode's text"
    return ModeEvidence(FIRMWARE, reported, "" if reported else lacks)


def of_power(total_mw: float | None, board: BoardType, why_none: str = "") -> ModeEvidence:
    """Judge the power of all rails.

    None: it is not known, for this reason; empty: no rails are measured.
    """
    if total_mw is None:
        return ModeEvidence(POWER, "", why_none or "no rails are measured")
    fit = [mode for mode, (low, high) in board.low_power.total_mw.items() if low <= total_mw <= high]
    why_not = "" if len(fit) == 1 else f"{total_mw:.1f} mW fits {', '.join(fit) or 'no mode'}"
    return ModeEvidence(POWER, fit[0] if len(fit) == 1 else "", why_not)


def verify(mode: str, evidence: Sequence[ModeEvidence]) -> str:
    """Judge all evidence; return the missing parts, or "" if verified.

    Raises:
        BoardTransientError: a source names another mode.
    """
    wrong = [source for source in evidence if source.says not in {"", mode}]
    if wrong:
        text = "; ".join(f"{source.source}: {source.says}" for source in wrong)
        raise BoardTransientError(
            f"{mode} was asked for and not reached ({text}): its selection depends on the run's release "
            "(lab/boards: releases.*.low_power), and the device manager's firmware has the last word",
            failure="wrong_sleep_mode",
        )
    if any(source.says == mode for source in evidence):
        return ""
    return f"nothing says that {mode} was reached: " + "; ".join(f"{e.source}: {e.why_not}" for e in evidence)


def suspend_samples(
    done: SuspendResult, flags: frozenset[Flag], log: bytes, base: int, edge_flags: frozenset[Flag] = frozenset()
) -> list[SampleRecord]:
    """The kernel's resume latency, and the host's after its own edge.

    Args:
        edge_flags: of what counts from the edge, since another source may have woken the board.
        log: the console's output of this cycle.
        base: its position in the console's stream.
    """
    flags = flags | done.flags
    metrics, samples = RESUMES[done.plan.mode], []

    def add(
        metric: Metric | None, figure: tuple[float, float], window: tuple[int, int], doubts: frozenset[Flag] = flags
    ) -> None:
        value, unsure = figure
        doubt = {Flag.UNCERTAIN} if unsure > UNCERTAIN_SHARE * value else set()
        if metric is not None:
            samples.append(sample_of(metric, params(done.plan), value, unsure, doubts | doubt, window))

    start, end = (max(log.rfind(stamp(t_s).encode()), 0) for t_s in (done.log.start_s or 0.0, done.log.end_s or 0.0))
    line_end = max(log.find(END.encode(), end), 0) + len(END)
    add(metrics.kernel, done.kernel_ms, (base + log.rfind(b"\n", 0, start) + 1, base + line_end))
    if done.edge is not None:
        first = done.first_byte or done.answer
        window = (first.position - 1, done.answer.position)
        add(metrics.first_byte, done.since_edge_ms(first), (window[0], first.position), flags | edge_flags)
        add(metrics.prompt, done.since_edge_ms(done.answer), window, flags | edge_flags)
    if done.power is not None:  # the board slept until it said its answer
        end = done.answer.position
        samples += _powers(params(done.plan), done.power, flags, (end - len(done.answer.text), end))
    return [*samples, *_energy(done, flags)]


def _powers(
    of: dict[str, str], measured: PhasePowerProtocol, flags: frozenset[Flag], window: tuple[int, int]
) -> Iterator[SampleRecord]:
    metrics = RESUMES[of["mode"]]
    for metric, power in [*((metrics.rail, rail) for rail in measured.rails), (metrics.total, measured.total)]:
        if power.mean_w is not None and power.uncertainty_w is not None:
            # At 0 V a step of the current is none of power.
            bound = max(power.uncertainty_w * 1e3, uncertainty.of_step(metric.resolution))
            yield sample_of(metric, of | {"rail": power.rail}, power.mean_w * 1e3, bound, flags | power.flags, window)
    if metrics.efficiency is not None and (efficiency := measured.efficiency) is not None:
        yield sample_of(metrics.efficiency, of, *efficiency, flags | measured.total.flags, window)


def state_samples(done: SteadyPower, flags: frozenset[Flag], end: int) -> list[SampleRecord]:
    """Power samples of a board: off, idle or at full load.

    Args:
        end: of the console's stream.
    """
    of = {"mode": done.state, **({"program": done.program} if done.program else {})}
    flags |= {Flag.THROTTLED} if done.throttled else set()
    return list(_powers(of, done.power, flags, (end, end)))


def _energy(done: SuspendResult, flags: frozenset[Flag]) -> Iterator[SampleRecord]:
    """Energy samples of each rail with a value, and of the total."""
    metric, end = RESUMES[done.plan.mode].energy, done.answer.position
    if done.energy is None or metric is None:
        return
    for power in (*done.energy.rails, done.energy.total):
        if power.energy_j is not None and power.energy_uncertainty_j is not None:
            figures = (power.energy_j, power.energy_uncertainty_j, flags | power.flags)
            window = (end - len(done.answer.text), end)
            yield sample_of(metric, params(done.plan) | {"rail": power.rail}, *figures, window)


def boot_samples(watch: BootWatch, plan: SuspendPlan, flags: frozenset[Flag]) -> list[SampleRecord]:
    """The time from the wake-up edge to the login prompt.

    Raises:
        BoardTransientError: the boot's moments are not those of a boot.
    """
    numbers = watch.finish()
    whole = next(number for number in numbers if number.metric == BOOT_POWER_ON.name)
    flags |= {Flag(flag) for number in numbers if number.metric != BOOT_STAGE.name for flag in number.flags}
    metric = RESUMES[plan.mode].prompt
    assert metric is not None, "a mode has one"  # noqa: S101 - of the type
    return [sample_of(metric, params(plan), whole.value * 1e3, whole.uncertainty * 1e3, flags, (0, whole.log_end))]


def rail_samples(
    off: Off | None, plan: SuspendPlan, flags: frozenset[Flag], window: tuple[int, int]
) -> list[SampleRecord]:
    """The voltage of the highest rail that must be off, if measured.

    Args:
        window: the window of the kernel's line on entering the mode, in the console's stream.
    """
    metric = RESUMES[plan.mode].rail_voltage
    if off is None or metric is None:
        return []
    return [sample_of(metric, params(plan), off.volts, off.uncertainty_v, flags | off.flags, window)]


def expected_metrics(plan: SuspendPlan, *, has_rails: bool) -> frozenset[Metric]:
    """The metrics that every good suspend of this plan has.

    Args:
        has_rails: the board's rails are measured; a short sleep still has no mean power, and a voltage or
            the total may be missing.
    """
    metrics = RESUMES[plan.mode]
    resumes = metrics.kernel is not None
    host = (metrics.first_byte, metrics.prompt) if plan.wake != RTC or not resumes else ()
    power = (metrics.rail,) if has_rails and resumes and plan.sleep_s >= MEAN_SLEEP_S else ()
    energy = (metrics.energy,) if plan.energy else ()
    return frozenset(m for m in (metrics.kernel, *host, *power, *energy) if m is not None)


def params(plan: SuspendPlan) -> dict[str, str]:
    """The parameters of this suspend's numbers."""
    return {"mode": plan.mode, "wake": plan.wake}
