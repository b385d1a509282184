"""Plausibility of a rail's samples in a phase: its flags.

A number of a sensor is doubted by what else is known: its chip's ready flag and overflow (`lab.rails.ina`), the noise
that each conversion has, the rail's nominal voltage, its other rails, and the input that feeds them. Sources: TI
SBOS547 (INA226), SBOS644 (INA231), SBOS448 (INA219).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
from attrs import evolve, frozen

from lab.boards.hardware import RAIL_OFF_V
from lab.metrics import Flag, uncertainty
from lab.rails.model import NO_VALUES, Channel, RailPower, TraceMark

if TYPE_CHECKING:
    from lab.rails.trace import Trace


NEAR: Final = 0.12  # supplies are regulated to some percent, and a step of load droops
STARTED_NS: Final = 50_000_000  # in which a supply has started, or fallen
SOME: Final = 0.02  # of a phase's samples
MOVED_LSB: Final = 40  # change of another rail after a change of the board's state
_MOVED_SHARE: Final = 0.3
COARSE_LSB: Final = 20  # of a load that stays within one step for long
# Samples of one value, with a load beyond `COARSE_LSB`, of a sensor whose noise is unknown (a kernel's driver).
STILL: Final = 300
MOST_W: Final = 60.0  # of a rail without `max_w`: the supply of a whole board (12 V and 5 A, USB PD at 20 V and 3 A)
REAL_NOISE: Final = 0.5  # of a real chip at least, as a share of `Channel.noise_nv`, which is a cautious one
NEVER: Final = 30.0  # -ln of a chance: that a healthy sensor stands still for so long is 1e-13
CHANGES: Final = 4  # values of a rail that no other one has by chance, too
_WIDTHS: Final = (1, 2, 3)  # codes: one value, or one with a step of jitter to one or both sides
TOO_MANY: Final = 1.3  # times the samples that a chip converts, at which its ready flag is none
Records = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]


@frozen(eq=False)
class Samples:
    """The good samples of one rail.

    Attributes:
        centre_ns: the middle of each one's window.
        power_w, volts_v, amperes: of each.
    """

    centre_ns: npt.NDArray[np.int64]
    power_w: Floats
    volts_v: Floats
    amperes: Floats

    def part(self, first: int, last: int) -> Samples:
        """Those from one index to another."""
        some = slice(first, last)
        return Samples(self.centre_ns[some], self.power_w[some], self.volts_v[some], self.amperes[some])


def of_rail(trace: Trace, number: int, start_ns: int, end_ns: int, inside: Samples) -> Iterator[Flag]:
    """The flags of a channel in a phase.

    Args:
        inside: its good samples in the phase.
    """
    records = _between(trace, number, start_ns, end_ns)
    marks = int(np.bitwise_or.reduce(records["mark"])) if len(records) else 0
    if marks & TraceMark.NACK:
        yield Flag.POWER_NACK
    if marks & TraceMark.RESET:
        yield Flag.SENSOR_RESET
    if (
        marks & TraceMark.STALE
        or _ready_too_often(trace, records)
        or stands_still(trace, [number], start_ns, end_ns)
        or _frozen(trace, number, start_ns, end_ns)
    ):
        yield Flag.POWER_STUCK
    if (
        marks & (TraceMark.SATURATED | TraceMark.IMPLAUSIBLE)
        or _exceeds(trace, number)
        or not _plausible(trace, number, inside)
    ):
        yield Flag.POWER_IMPLAUSIBLE


def _plausible(trace: Trace, number: int, inside: Samples) -> bool:
    """True if the rail is off without current, or nominal with power."""
    count = len(inside.volts_v)
    if not count:
        return True
    channel = trace.meta.channels[number]
    least_nv = 2 * channel.shunt_lsb_nv + 4 * channel.noise_nv + channel.offset_bound_nv
    least_a = least_nv * 1e-9 / (channel.shunt_mohm * 1e-3)
    off = inside.volts_v < RAIL_OFF_V
    low_v, high_v = _bounds_v(trace, channel.rail)
    on = (inside.volts_v >= low_v) & (inside.volts_v <= high_v) & ~off
    out_of_range = ~(off | on)
    out_of_range[1:-1] &= ~(off[:-2] & on[2:] | on[:-2] & off[2:])  # the mean of a sample in which it was switched
    edges = STARTED_NS / trace.meta.period_ns
    draws_while_off = int((off & (np.abs(inside.amperes) > least_a)).sum())
    return (
        int(out_of_range.sum()) <= SOME * count
        and draws_while_off <= max(min(SOME * count, edges), min(2, count // 10))
        and float(inside.power_w.min()) >= -channel.volts * least_a
    )


def _bounds_v(trace: Trace, name: str) -> tuple[float, float]:
    """The voltages that a rail has while it is on."""
    rail = next(rail for rail in trace.meta.rails if rail.name == name)
    if rail.scaled and not rail.range_v:
        return RAIL_OFF_V, math.inf
    low_v, high_v = rail.range_v or (rail.volts, rail.volts)
    return (1 - NEAR) * low_v, (1 + NEAR) * high_v


def flag_swapped(trace: Trace, rails: Sequence[RailPower]) -> list[RailPower]:
    """The rails; two with each other's voltage are flagged.

    Their voltages alone may be near enough.
    """
    fixed = {rail.name for rail in trace.meta.rails if not rail.scaled}
    swapped = set[str]()
    for first, other in combinations([rail for rail in rails if rail.rail in fixed], 2):
        if first.mean_v is not None and other.mean_v is not None:
            both = (first, other.volts), (other, first.volts)
            if all(abs((rail.mean_v or 0.0) - volts) < abs((rail.mean_v or 0.0) - rail.volts) for rail, volts in both):
                swapped |= {first.rail, other.rail}
    return [
        evolve(rail, flags=rail.flags | {Flag.POWER_IMPLAUSIBLE}) if rail.rail in swapped else rail for rail in rails
    ]


def exceeds_input(total: RailPower, supply: RailPower) -> bool:
    """True if the rails take more than their input gives."""
    if total.mean_w is None or supply.mean_w is None:
        return False
    known_w = uncertainty.combine((total.uncertainty_w or 0.0, supply.uncertainty_w or 0.0))
    return total.mean_w - supply.mean_w > known_w


def _exceeds(trace: Trace, number: int) -> bool:
    """True if the rail exceeds its maximum power.

    Then its shunt or its sensor is another one.
    """
    channel = trace.meta.channels[number]
    is_input = any(rail.input for rail in trace.meta.rails if rail.name == channel.rail)
    most_w = channel.max_w or (math.inf if is_input else MOST_W)
    records = trace.records[trace.records["rail"] == number]
    power_w = records["bus_uv"] * 1e-12 * records["shunt_nv"] / channel.shunt_mohm
    return len(power_w) > 0 and float(power_w.max()) > most_w


def _ready_too_often(trace: Trace, records: Records) -> bool:
    """True if there are more samples than the chip converts.

    A bus that repeats its last answer has the ready flag in each.
    """
    good = records["t_ns"][records["mark"] & NO_VALUES == 0]
    return len(good) > 8 and len(good) > TOO_MANY * (int(good[-1] - good[0]) / trace.meta.period_ns + 1)


def stands_still(trace: Trace, channels: Sequence[int], start_ns: int, end_ns: int) -> bool:
    """True if these channels all repeat one value, for longer than their noise allows.

    All blocks count that reach into the phase; they overlap by half.
    """
    for width in _WIDTHS:
        cost = sum(_surprise(trace, number, width) for number in channels)
        if cost * len(trace.records) < NEVER:
            continue
        count = math.ceil(NEVER / cost)
        step_ns = max(1, count * trace.meta.period_ns // 2)
        edges = np.arange(start_ns - step_ns, end_ns + 2 * step_ns, step_ns)
        if np.all([_still_blocks(trace, number, edges, width, 0.9 * count) for number in channels], axis=0).any():
            return True
    return False


def _surprise(trace: Trace, number: int, width: int) -> float:
    """-ln of the largest chance that a noisy sample is within so many codes."""
    channel = trace.meta.channels[number]
    noise = REAL_NOISE * channel.noise_nv / channel.shunt_lsb_nv
    if noise:
        return -math.log(math.erf(width / 2 / noise / math.sqrt(2)))
    codes = trace.records["shunt_nv"][trace.records["rail"] == number] / channel.shunt_lsb_nv
    return NEVER / STILL if width == 1 and len(codes) and np.abs(codes).min() >= COARSE_LSB else 0.0


def _still_blocks(
    trace: Trace, number: int, edges: npt.NDArray[np.int64], width: int, fewest: float
) -> npt.NDArray[np.bool_]:
    """Which blocks, from each edge to the next but one, have enough samples, all within so many codes."""
    channel = trace.meta.channels[number]
    records = _between(trace, number, int(edges[0]), int(edges[-1]) - 1)
    records = records[records["mark"] & NO_VALUES == 0]
    at = np.searchsorted(records["t_ns"], edges)
    still = at[2:] - at[:-2] >= fewest
    if not still.any():
        return still
    for name, lsb in (("shunt_nv", channel.shunt_lsb_nv), ("bus_uv", channel.bus_lsb_uv)):
        values = np.append(records[name], records[name][-1]).astype(np.int64)  # an edge may be behind the last record
        low, high = np.minimum.reduceat(values, at[:-1]), np.maximum.reduceat(values, at[:-1])
        still &= np.maximum(high[1:], high[:-1]) - np.minimum(low[1:], low[:-1]) <= (width - 1) * lsb
    return still


def _frozen(trace: Trace, number: int, start_ns: int, end_ns: int) -> bool:
    """True if the rail's value froze before the phase, unlike others."""
    before_ns = start_ns - (end_ns - start_ns)
    own = _between(trace, number, before_ns, end_ns)
    if (
        len(own) < 2
        or not _same(own, trace.meta.channels[number])
        or int(own["t_ns"][0]) > start_ns - trace.meta.window_ns
    ):
        return False
    channel = trace.meta.channels[number]
    is_on = int(own["bus_uv"][0]) >= RAIL_OFF_V * 1e6
    if is_on and abs(int(own["shunt_nv"][0]) - channel.offset_nv) < COARSE_LSB * channel.shunt_lsb_nv:
        return False  # so small a load may well stay within one step
    for other, channel in enumerate(trace.meta.channels):
        if other == number:
            continue
        codes = _between(trace, other, before_ns, end_ns)["shunt_nv"].astype(np.int64)
        moved = int(np.ptp(codes)) if len(codes) else 0
        if moved > MOVED_LSB * channel.shunt_lsb_nv and moved > _MOVED_SHARE * int(np.abs(codes).max()):
            return True
    return False


def _same(records: Records, channel: Channel) -> bool:
    """True if the values differ by one code at most."""
    steps = (("shunt_nv", channel.shunt_lsb_nv), ("bus_uv", channel.bus_lsb_uv))
    return all(int(np.ptp(records[name].astype(np.int64))) <= lsb for name, lsb in steps)


def find_copies(trace: Trace, start_ns: int, end_ns: int) -> frozenset[str]:
    """Rails of which two say the same, sample by sample, while it changes: one sensor, read as both."""
    parts = {channel.rail: _between(trace, at, start_ns, end_ns) for at, channel in enumerate(trace.meta.channels)}
    alike = set[str]()
    for (name, first), (other, second) in combinations(parts.items(), 2):
        same = len(first) == len(second) and all((first[n] == second[n]).all() for n in ("shunt_nv", "bus_uv"))
        if same and len(np.unique(first["shunt_nv"])) >= CHANGES:
            alike |= {name, other}
    return frozenset(alike)


def _between(trace: Trace, number: int, start_ns: int, end_ns: int) -> Records:
    first, last = np.searchsorted(trace.records["t_ns"], (start_ns, end_ns + 1))
    some = trace.records[first:last]
    records: Records = some[some["rail"] == number]
    return records
