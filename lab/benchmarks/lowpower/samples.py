"""Samples of a good suspend, or of a boot from it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from lab.benchmarks.boot import BootWatch
from lab.benchmarks.boot.samples import UNCERTAIN_SHARE
from lab.benchmarks.lowpower.kernellog import END, stamp
from lab.benchmarks.lowpower.modes import RTC, SuspendPlan
from lab.benchmarks.lowpower.power import Off, PhasePowerProtocol, SteadyPower
from lab.benchmarks.lowpower.result import SuspendResult
from lab.metrics import Flag, Metric, SampleRecord, uncertainty
from lab.metrics.catalogue import BOOT_POWER_ON, BOOT_STAGE, RESUMES
from lab.metrics.model import sample_of

MEAN_SLEEP_S: Final = 8  # a shorter sleep may have no mean power: docs/low-power.md, "Uncertainty of one reading"


def of_suspend(
    done: SuspendResult, flags: frozenset[Flag], log: bytes, base: int, edge_flags: frozenset[Flag] = frozenset()
) -> list[SampleRecord]:
    """The kernel's resume latency, and the host's after its own edge.

    Args:
        edge_flags: of what counts from the edge, since another source may have woken the board.
        log: the console's output of this cycle. base: its position in the console's stream.
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


def of_state(done: SteadyPower, flags: frozenset[Flag], end: int) -> list[SampleRecord]:
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


def of_boot(watch: BootWatch, plan: SuspendPlan, flags: frozenset[Flag]) -> list[SampleRecord]:
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


def of_rails(
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
