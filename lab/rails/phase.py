"""Power between two instants of a trace: mean, energy and their ±.

A sample is the mean of its window, which ended at most one poll before it was found. Only samples whose whole window
lies in the phase for sure count, so that a slow sensor never mixes two phases; the first and the last of them are held
to the ends of the phase. A separately requested energy also takes the samples up to uncertain ends; their uncertainty
is in its ±. Energy is the integral by trapezoids, mean power is energy by time, so that unevenly spaced samples weigh
by their time. docs/rails.md has the budget of the ±.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
from attrs import evolve, frozen

from lab.benchmarks.boot.records import MomentLike
from lab.boards.hardware import RAIL_OFF_V
from lab.errors import TestStableError
from lab.metrics import Flag, uncertainty
from lab.rails.model import NO_VALUES, Channel, PhasePower, RailPower, UncertaintyBudget
from lab.rails.plausibility import Samples, exceeds_input, find_copies, flag_swapped, of_rail, stands_still

if TYPE_CHECKING:
    from lab.rails.trace import Trace


FEWEST: Final = 4  # fewer samples are no mean
GAP: Final = 1.9  # periods between two samples
CLOCK: Final = 1.1  # times the nominal period, or by it: limits of a monitor's clock


@frozen(eq=False)
class Span:
    """The cut of a phase in nanoseconds, with bounds of its ends.

    Attributes:
        whole: its samples are those between its ends, regardless of their uncertainty.
    """

    start_ns: int
    end_ns: int
    start_uncertainty_ns: int
    end_uncertainty_ns: int
    whole: bool = False

    @property
    def sure_ns(self) -> tuple[int, int]:
        """The instants between which all samples lie."""
        if self.whole:
            return self.start_ns, self.end_ns
        return self.start_ns + self.start_uncertainty_ns, self.end_ns - self.end_uncertainty_ns

    @property
    def seconds(self) -> float:
        """Its length in seconds."""
        return (self.end_ns - self.start_ns) / 1e9


def cut(
    trace: Trace,
    start_ns: int,
    end_ns: int,
    start_uncertainty_ns: int = 0,
    end_uncertainty_ns: int = 0,
    *,
    whole: bool = False,
) -> PhasePower:
    """The power of every rail between two uncertain instants.

    They are of CLOCK_MONOTONIC_RAW, each known to ± its uncertainty.

    Args:
        whole: for an energy: samples that may lie outside count, too.

    Raises:
        TestStableError: the phase has no length.
    """
    if end_ns <= start_ns:
        raise TestStableError(
            f"a phase from {start_ns} to {end_ns} ns has no length; the earlier moment comes first", failure="phase"
        )
    span = Span(start_ns, end_ns, start_uncertainty_ns, end_uncertainty_ns, whole)
    index = {channel.rail: number for number, channel in enumerate(trace.meta.channels)}
    stuck = stands_still(trace, list(index.values()), start_ns, end_ns)
    rails: list[RailPower] = []
    inside: list[Samples] = []
    for rail in trace.meta.rails:
        if rail.name not in index:
            rails.append(RailPower(rail.name, rail.volts, measured=False))
            continue
        power, samples = _rail(trace, index[rail.name], span)
        rails.append(evolve(power, flags=power.flags | {Flag.POWER_STUCK}) if stuck else power)
        inside.append(samples)
    twins = find_copies(trace, start_ns, end_ns)
    rails = [evolve(r, flags=r.flags | {Flag.POWER_IMPLAUSIBLE}) if r.rail in twins else r for r in rails]
    rails = flag_swapped(trace, rails)
    inputs = {rail.name for rail in trace.meta.rails if rail.input}
    measured = zip([rail for rail in rails if rail.measured], inside, strict=True)
    fed = [(rail, samples) for rail, samples in measured if rail.rail not in inputs]
    total = _total([rail for rail, _ in fed], [samples for _, samples in fed])
    if any(exceeds_input(total, rail) for rail in rails if rail.rail in inputs):
        total = evolve(total, flags=total.flags | {Flag.POWER_IMPLAUSIBLE})
    return PhasePower(start_ns, end_ns, tuple(rails), total, tuple(sorted(inputs)))


def samples_of(trace: Trace, number: int) -> Samples:
    """The good samples of the channel with this index."""
    channel = trace.meta.channels[number]
    records = trace.records[(trace.records["rail"] == number) & (trace.records["mark"] & NO_VALUES == 0)]
    volts_v = records["bus_uv"] * 1e-6
    amperes = (records["shunt_nv"] - channel.offset_nv) * 1e-9 / (channel.shunt_mohm * 1e-3)
    centre_ns = records["t_ns"] - (trace.meta.window_ns + trace.meta.late_ns) // 2
    return Samples(centre_ns, volts_v * amperes, volts_v, amperes)


def _rail(trace: Trace, number: int, span: Span) -> tuple[RailPower, Samples]:
    meta, channel = trace.meta, trace.meta.channels[number]
    every = samples_of(trace, number)
    half_ns = (meta.window_ns + meta.late_ns) // 2
    from_ns, until_ns = span.sure_ns
    first, last = np.searchsorted(every.centre_ns, (from_ns + half_ns, until_ns - half_ns + 1))
    inside = every.part(first, last)
    count = len(inside.centre_ns)
    expected = max(0, (until_ns - from_ns - 2 * half_ns) // _period_ns(inside.centre_ns, meta.period_ns))
    flags = set(of_rail(trace, number, span.start_ns, span.end_ns, inside))
    if count < FEWEST:
        flags.add(Flag.POWER_FEW_SAMPLES)
    if not count:
        return RailPower(channel.rail, channel.volts, expected=expected, flags=frozenset(flags)), inside
    if (
        len(inside.centre_ns) > 1 and int(np.diff(inside.centre_ns).max()) > GAP * meta.period_ns
    ) or count < expected - max(1, expected // 100):
        flags.add(Flag.POWER_GAP)
    # The rail had the first sample's power before it, and the last one's behind it.
    seconds = (inside.centre_ns - span.start_ns) / 1e9
    power = inside.power_w
    ends = power[0] * seconds[0] + power[-1] * (span.seconds - seconds[-1])
    energy_j = float(ends + np.trapezoid(power, seconds))
    mean_w = energy_j / span.seconds
    parts, energy_bound_j = _uncertainty(channel, every, inside, span, meta.window_ns + meta.late_ns, mean_w)
    return RailPower(
        rail=channel.rail,
        volts=channel.volts,
        mean_v=float(inside.volts_v.mean()),
        uncertainty_v=_volts_bound(channel, inside),
        mean_w=mean_w,
        uncertainty_w=_together(parts),
        min_w=float(inside.power_w.min()),
        max_w=float(inside.power_w.max()),
        energy_j=energy_j,
        energy_uncertainty_j=energy_bound_j,
        samples=count,
        expected=expected,
        parts=parts,
        flags=frozenset(flags),
    ), inside


def _period_ns(centre_ns: npt.NDArray[np.int64], nominal_ns: int) -> int:
    """The chip's own period: its clock is within 10 % of the nominal one (TI SBOS547, conversion times)."""
    apart_ns = np.diff(centre_ns)
    usual_ns = apart_ns[apart_ns < GAP * nominal_ns]
    return (
        round(min(max(float(usual_ns.mean()), nominal_ns / CLOCK), nominal_ns * CLOCK))
        if len(usual_ns)
        else nominal_ns
    )


def _uncertainty(
    channel: Channel, every: Samples, inside: Samples, span: Span, blur_ns: int, mean_w: float
) -> tuple[UncertaintyBudget, float]:
    """The parts of the mean's ±, and the energy's ±."""
    watt_per_nv = float(inside.volts_v.mean()) * 1e-9 / (channel.shunt_mohm * 1e-3)
    count = len(inside.power_w)
    spread = float(inside.power_w.std(ddof=1)) if count > 1 else channel.noise_nv * watt_per_nv
    cut_j = edge_j = 0.0
    for edge_ns, bound_ns in (
        (span.start_ns, span.start_uncertainty_ns),
        (span.end_ns, span.end_uncertainty_ns),
    ):
        reach = (edge_ns - bound_ns - blur_ns, edge_ns + bound_ns + blur_ns)
        first, last = np.searchsorted(every.centre_ns, reach)
        near = every.power_w[first:last] if last > first else inside.power_w[:1]
        cut_j += float(np.abs(near - mean_w).max()) * bound_ns / 1e9
        edge_j += float(np.abs(near).max()) * bound_ns / 1e9
    parts = UncertaintyBudget(
        resolution_w=channel.shunt_lsb_nv * watt_per_nv,
        sensor_w=2 * abs(mean_w) * channel.gain  # of the shunt's voltage and of the bus's
        + channel.offset_bound_nv * watt_per_nv
        + channel.bus_offset_uv * 1e-6 * abs(float(inside.amperes.mean())),
        shunt_w=abs(mean_w) * channel.tolerance,
        noise_w=_noise(spread, count),
        edges_w=cut_j / span.seconds,
    )
    steady_w = uncertainty.combine((parts.resolution_w, parts.sensor_w, parts.shunt_w, parts.noise_w))
    return parts, uncertainty.combine((steady_w * span.seconds, edge_j))


def _volts_bound(channel: Channel, inside: Samples) -> float:
    """The mean voltage's ±: register step, offset, gain and spread."""
    count, mean_v = len(inside.volts_v), float(inside.volts_v.mean())
    spread = float(inside.volts_v.std(ddof=1)) if count > 1 else 0.0
    return uncertainty.combine(
        (channel.bus_lsb_uv * 1e-6, channel.bus_offset_uv * 1e-6, abs(mean_v) * channel.gain, _noise(spread, count))
    )


def _noise(spread: float, count: int) -> float:
    """The ± of a mean by its spread; for one sample, typical."""
    return uncertainty.of_deviation(spread, count) if count > 1 else uncertainty.NORMAL_95 * spread


def _together(parts: UncertaintyBudget) -> float:
    return uncertainty.combine((parts.resolution_w, parts.sensor_w, parts.shunt_w, parts.noise_w, parts.edges_w))


def _total(rails: list[RailPower], inside: list[Samples]) -> RailPower:
    measured = [rail for rail in rails if rail.measured]
    flags = frozenset[Flag]().union(*(rail.flags for rail in measured))
    samples, expected = sum(rail.samples for rail in measured), sum(rail.expected for rail in measured)
    whole = [rail for rail in measured if rail.parts is not None]
    if len(whole) < len(measured):
        return RailPower("total", samples=samples, expected=expected, flags=flags)
    budgets = [rail.parts for rail in whole if rail.parts is not None]
    parts = UncertaintyBudget(
        resolution_w=uncertainty.combine(part.resolution_w for part in budgets),
        sensor_w=uncertainty.combine(part.sensor_w for part in budgets),
        shunt_w=uncertainty.combine(part.shunt_w for part in budgets),
        noise_w=uncertainty.combine(part.noise_w for part in budgets),
        edges_w=sum(part.edges_w for part in budgets),  # all rails are cut at the same two instants
    )
    times = inside[0].centre_ns
    summed = np.sum([np.interp(times, part.centre_ns, part.power_w) for part in inside], axis=0)
    return RailPower(
        rail="total",
        mean_w=sum(rail.mean_w or 0.0 for rail in whole),
        uncertainty_w=_together(parts),
        min_w=float(summed.min()),
        max_w=float(summed.max()),
        energy_j=sum(rail.energy_j or 0.0 for rail in whole),
        energy_uncertainty_j=sum(rail.energy_uncertainty_j or 0.0 for rail in whole),
        samples=samples,
        expected=expected,
        parts=parts,
        flags=flags,
    )


ON_SHARE: Final = 0.5  # of a rail's nominal voltage; a supply that was cut may hold some of it for seconds


def first_rise_ns(trace: Trace) -> tuple[int, int] | None:
    """Earliest and latest instant at which the first rail came up; None: no sensor says.

    Where none was down at first, both are that of the first sample; where none came up, the last sample is the
    earliest.
    """
    rises: list[tuple[int, int]] = []
    seen_ns: list[int] = []
    for number, channel in enumerate(trace.meta.channels):
        records = trace.records[trace.records["rail"] == number]
        up = (records["mark"] & NO_VALUES == 0) & (records["bus_uv"] >= ON_SHARE * channel.volts * 1e6)
        if not (records["mark"] & NO_VALUES == 0).any():
            continue
        seen_ns += [int(records["t_ns"][0]), int(records["t_ns"][-1])]
        first = int(np.argmax(up))
        if up.any() and first > 0:
            before_ns = int(records["t_ns"][first - 1]) - trace.meta.window_ns - trace.meta.late_ns
            rises.append((before_ns, int(records["t_ns"][first])))
        elif not up.any():
            rises.append((int(records["t_ns"][-1]), np.iinfo(np.int64).max))
    if not seen_ns:
        return None
    return min(rises, key=lambda rise: rise[1]) if rises else (min(seen_ns), min(seen_ns))


ASLEEP: Final = 0.95  # of the awake power: a board that sleeps takes less
BOUNDS: Final = 2.0  # times, or by it, those of the board type's mode: boards differ


def check_sleep(
    trace: Trace, power: PhasePower, suspend_ns: tuple[int, int], bounds_mw: Sequence[float] | None = None
) -> PhasePower:
    """The power of a sleep, flagged where it is none.

    Sensors that do not show the sleep are `power_stuck`; a total far from what the mode takes is `power_implausible`,
    and a rail that is off before or after it.

    Args:
        suspend_ns: the board was surely awake before the one and after the other.
        bounds_mw: of the total in its mode; None: unknown.
    """
    total_w = power.total.mean_w
    if total_w is None:
        return power
    inputs = {rail.name for rail in trace.meta.rails if rail.input}
    dead = set[str]()
    awake_w: float | None = 0.0
    for number, channel in enumerate(trace.meta.channels):
        if channel.rail not in inputs:
            samples = samples_of(trace, number)
            apart_ns = (trace.meta.window_ns + trace.meta.late_ns) // 2
            awake = (samples.centre_ns < suspend_ns[0] - apart_ns) | (samples.centre_ns > suspend_ns[1] + apart_ns)
            if awake.any() and float(samples.volts_v[awake].mean()) < RAIL_OFF_V:
                dead.add(channel.rail)
            awake_w = awake_w + float(samples.power_w[awake].mean()) if awake_w is not None and awake.any() else None
    flags = set[Flag]()
    if awake_w is not None and total_w >= ASLEEP * awake_w:
        flags.add(Flag.POWER_STUCK)
    if bounds_mw and not bounds_mw[0] / BOUNDS <= total_w * 1e3 <= bounds_mw[1] * BOUNDS:
        flags.add(Flag.POWER_IMPLAUSIBLE)
    return _add_flags(power, flags, dead)


def check_awake(power: PhasePower) -> PhasePower:
    """The power of a board that runs, flagged where a rail is off."""
    return _add_flags(power, set(), {r.rail for r in power.rails if r.mean_v is not None and r.mean_v < RAIL_OFF_V})


def _add_flags(power: PhasePower, flags: Set[Flag], dead: Set[str]) -> PhasePower:
    """The power with flags of all rails, and those of rails that are off while the board runs."""
    off = {Flag.POWER_IMPLAUSIBLE} if dead else set[Flag]()
    rails = (
        evolve(rail, flags=rail.flags | flags | (off if rail.rail in dead else set())) if rail.measured else rail
        for rail in power.rails
    )
    return evolve(power, rails=tuple(rails), total=evolve(power.total, flags=power.total.flags | flags | off))


@frozen
class StagePower:
    """A board's power from one console moment to the next.

    Attributes:
        start, end: the names of the moments.
    """

    start: str
    end: str
    power: PhasePower


def stages(trace: Trace, moments: Sequence[MomentLike]) -> list[StagePower]:
    """The trace's stages in order, with their moments' uncertainties."""
    first_ns, last_ns = trace.span_ns
    inside = [moment for moment in moments if first_ns <= moment.t_ns <= last_ns]
    return [
        StagePower(
            begin.name,
            end.name,
            cut(trace, begin.t_ns, end.t_ns, begin.uncertainty_ns, end.uncertainty_ns),
        )
        for begin, end in pairwise(inside)
        if end.t_ns > begin.t_ns
    ]
