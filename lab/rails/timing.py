"""Conversion time and averaging of the INA2xx, chosen from the power that is expected.

A sensor's noise falls with the square root of the time that it looks at the shunt, while its samples become rarer. The
choice is the fastest setting whose noise is at most 1 % of the expected signal. A sleeping board draws about a milliwatt a
rail: 1 mW at 1.8 V is 5.6 µV on 10 mOhm, two steps of the register, and needs 1024 conversions of 1.1 ms. A running board
draws a hundred times that, and what counts is when it changes: a thousand samples a second, as long as the bus carries
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lab.rails.chips import Setting
from lab.rails.config import RailConfig
from lab.rails.model import Range

SHARE: Final = 0.01
EXPECTED_W: Final = {Range.ACTIVE: 0.1, Range.SLEEP: 0.001}
FASTEST_NS: Final = 1_000_000  # no ordinary process polls faster without being late now and then
SLOWEST_NS: Final = {Range.ACTIVE: 1_200_000, Range.SLEEP: 1_500_000_000}
_BITS_PER_READ: Final = 47  # start, address, register, restart, address, two bytes, each with its acknowledge, stop
_READS_PER_RAIL: Final = 3  # ready flag, shunt, bus
_MARGIN: Final = 1.25  # the bus may be busy for four fifths of the time


def bus_time_ns(rails: int, khz: int) -> int:
    """How long the bus takes to read all rails once."""
    return rails * _READS_PER_RAIL * _BITS_PER_READ * 1_000_000 // khz


def choose(available: Sequence[Setting], rails: Sequence[RailConfig], wanted: Range, khz: int) -> Setting:
    """The fastest setting that resolves 1 % of the smallest expected signal; else the slowest that the range allows."""
    floor_ns = max(FASTEST_NS, round(_MARGIN * bus_time_ns(len(rails), khz)))
    ceiling_ns = max(SLOWEST_NS[wanted], floor_ns)
    signal_nv = min(EXPECTED_W[wanted] / rail.volts * rail.shunt_mohm * 1e6 for rail in rails)
    possible = [setting for setting in available if floor_ns <= setting.period_ns <= ceiling_ns]
    if not possible:  # a slow bus or a slow chip: the first that the bus can carry
        possible = [setting for setting in available if setting.period_ns >= floor_ns][:1] or [available[-1]]
    quiet = [setting for setting in possible if setting.noise_nv <= SHARE * signal_nv]
    if quiet:
        return quiet[0]
    return possible[-1] if wanted is Range.SLEEP else possible[0]
