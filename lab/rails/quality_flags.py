"""What is doubtful about a rail's samples in a phase. They are flags, which never change a value."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from lab.boards.hardware import RAIL_OFF_V
from lab.metrics import Flag
from lab.rails.model import Mark

if TYPE_CHECKING:
    from lab.rails.trace import Trace

NEAR: Final = 0.12  # supplies are regulated to some percent, and a step of load droops
LONG_REPEAT: Final = 32  # samples of a noisy sensor that are all the same
MOVED_LSB: Final = 40  # what another rail moves when the board's state has changed
_MOVED_SHARE: Final = 0.3
Floats = npt.NDArray[np.float64]
Records = npt.NDArray[Any]


def of_rail(trace: Trace, number: int, start_ns: int, end_ns: int, volts_v: Floats, power_w: Floats) -> Iterator[Flag]:
    """The flags of a channel in a phase.

    Args:
        volts_v, power_w: of its good samples in the phase.
    """
    records = _between(trace, number, start_ns, end_ns)
    marks = int(np.bitwise_or.reduce(records["mark"])) if len(records) else 0
    if marks & Mark.NACK:
        yield Flag.POWER_NACK
    if marks & Mark.RESET:
        yield Flag.SENSOR_RESET
    if marks & Mark.STALE or _repeats(trace, number, records) or _frozen(trace, number, start_ns, end_ns):
        yield Flag.POWER_STUCK
    if (
        marks & (Mark.SATURATED | Mark.IMPLAUSIBLE)
        or _exceeds(trace, number)
        or not _plausible(trace, number, volts_v, power_w)
    ):
        yield Flag.POWER_IMPLAUSIBLE


def _plausible(trace: Trace, number: int, volts_v: Floats, power_w: Floats) -> bool:
    """Whether the rail is off, or has its nominal voltage, and takes power."""
    if not len(volts_v):
        return True
    channel = trace.meta.channels[number]
    on = np.abs(volts_v - channel.volts) <= NEAR * channel.volts
    off = volts_v < RAIL_OFF_V
    out_of_range = 1.0 - float((on | off).mean())
    min_nv = -(2 * channel.shunt_lsb_nv + 4 * channel.noise_nv + channel.offset_bound_nv)
    min_w = channel.volts * min_nv * 1e-9 / (channel.shunt_mohm * 1e-3)
    return out_of_range <= 0.02 and float(power_w.min()) >= min_w


def _exceeds(trace: Trace, number: int) -> bool:
    """Whether the rail took more than it can, anywhere in the trace: then its shunt or its sensor is another one."""
    channel = trace.meta.channels[number]
    if not channel.max_w:
        return False
    records = trace.records[trace.records["rail"] == number]
    power_w = records["bus_uv"] * 1e-12 * records["shunt_nv"] / channel.shunt_mohm
    return len(power_w) > 0 and float(power_w.max()) > channel.max_w


def _repeats(trace: Trace, number: int, records: Records) -> bool:
    """Whether a sensor whose noise would show says the same again and again."""
    channel = trace.meta.channels[number]
    noisy = channel.noise_nv >= 0.4 * channel.shunt_lsb_nv
    return noisy and len(records) >= LONG_REPEAT and _same(records)


def _frozen(trace: Trace, number: int, start_ns: int, end_ns: int) -> bool:
    """Whether the rail says what it said before the phase, while others have moved with the board's state."""
    before_ns = start_ns - (end_ns - start_ns)
    own = _between(trace, number, before_ns, end_ns)
    if len(own) < 2 or not _same(own) or int(own["t_ns"][0]) > start_ns - trace.meta.window_ns:
        return False
    for other, channel in enumerate(trace.meta.channels):
        if other == number:
            continue
        codes = _between(trace, other, before_ns, end_ns)["shunt_nv"].astype(np.int64)
        moved = int(np.ptp(codes)) if len(codes) else 0
        if moved > MOVED_LSB * channel.shunt_lsb_nv and moved > _MOVED_SHARE * int(np.abs(codes).max()):
            return True
    return False


def _same(records: Records) -> bool:
    return len(np.unique(records["shunt_nv"])) == 1 and len(np.unique(records["bus_uv"])) == 1


def _between(trace: Trace, number: int, start_ns: int, end_ns: int) -> Records:
    first, last = np.searchsorted(trace.records["t_ns"], (start_ns, end_ns + 1))
    some = trace.records[first:last]
    found: Records = some[some["rail"] == number]
    return found
