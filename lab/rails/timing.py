"""Conversion time and averaging of the INA2xx, chosen from the power that is expected.

A sensor's noise falls with the square root of the time that it looks at the shunt, while its samples become rarer. The
choice is the fastest setting whose noise is at most 1 % of the expected signal. A sleeping board draws about a milliwatt a
rail: 1 mW at 1.8 V is 5.6 µV on 10 mOhm, two steps of the register, and needs 1024 conversions of 1.1 ms. A running board
draws a hundred times that, and what counts is when it changes: a thousand samples a second, as long as the bus carries
them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import product
from typing import Final

from attrs import frozen

from lab.rails.config import RailConfig
from lab.rails.model import Range

NOISE_NV: Final = 5_000.0  # of one conversion of 140 µs, two steps: cautious reading of TI SBOS547 (INA226), fig. 6-9
NOISE_US: Final = 140.0
SHARE: Final = 0.01
EXPECTED_W: Final = {Range.ACTIVE: 0.1, Range.SLEEP: 0.001}
FASTEST_NS: Final = 1_000_000  # no ordinary process polls faster without being late now and then
SLOWEST_NS: Final = {Range.ACTIVE: 1_200_000, Range.SLEEP: 1_500_000_000}
_BITS_PER_READ: Final = 47  # start, address, register, restart, address, two bytes, each with its acknowledge, stop
_READS_PER_RAIL: Final = 3  # ready flag, shunt, bus
_MARGIN: Final = 1.25  # the bus may be busy for four fifths of the time


@frozen
class Setting:
    """How a sensor converts: shunt and bus voltage in turn, `average` times, then one sample.

    Attributes:
        bus_us, shunt_us: conversion times in microseconds.
    """

    average: int
    bus_us: int
    shunt_us: int

    @property
    def period_ns(self) -> int:
        """From one sample to the next."""
        return self.average * (self.bus_us + self.shunt_us) * 1000

    @property
    def noise_nv(self) -> float:
        """Standard deviation of a sample's shunt voltage."""
        return NOISE_NV * math.sqrt(NOISE_US / (self.average * self.shunt_us))

    @property
    def text(self) -> str:
        """In words, for the provenance."""
        return f"average of {self.average}, shunt {self.shunt_us} us, bus {self.bus_us} us"


def bus_time_ns(rails: int, khz: int) -> int:
    """How long the bus takes to read all rails once."""
    return rails * _READS_PER_RAIL * _BITS_PER_READ * 1_000_000 // khz


def settings(averages: Iterable[int], times_us: Sequence[int], *, same: bool) -> list[Setting]:
    """All settings of a chip, the fastest first; the bus voltage hardly moves, so it gets the shortest time.

    Args:
        same: the chip knows one conversion time for both.
    """
    found = [
        Setting(average, time_us if same else times_us[0], time_us) for average, time_us in product(averages, times_us)
    ]
    return sorted(found, key=lambda setting: (setting.period_ns, -setting.shunt_us))


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
