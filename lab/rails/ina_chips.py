"""Current monitors of the INA2xx family: registers, steps, errors.

Sources: TI SBOS547 (INA226), SBOS601 (INA230), SBOS644 (INA231), SBOS448 (INA219).
Errors are the data sheets' limits at 25 degrees: offset and gain of the shunt's and of the bus's voltage.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import product
from typing import Final

from attrs import frozen

NOISE_NV: Final = 5_000.0  # of one conversion of 140 µs, two steps: cautious reading of TI SBOS547 (INA226), fig. 6-9
NOISE_US: Final = 140.0
BUS_OFFSET_UV: Final = 7500.0  # greatest of a bus voltage: INA226; assumed of others that have none of their own
CONFIG, SHUNT, BUS, POWER, MASK = 0x00, 0x01, 0x02, 0x03, 0x06
_AVERAGES: Final = (1, 4, 16, 64, 128, 256, 512, 1024)
_TIMES_US: Final = (140, 204, 332, 588, 1100, 2116, 4156, 8244)
_AVERAGES_219: Final = (1, 2, 4, 8, 16, 32, 64, 128)
_TIME_219_US: Final = 532  # 12 bits
_MODE: Final = 0b111  # shunt and bus in turn, continuously


@frozen
class Setting:
    """A sensor's conversion: shunt and bus in turn, `average` times.

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
        """The setting as text, for the provenance."""
        return f"average of {self.average}, shunt {self.shunt_us} us, bus {self.bus_us} us"


def settings(averages: Iterable[int], times_us: Sequence[int], *, same: bool) -> list[Setting]:
    """All settings of a chip, fastest first, with fast bus conversion.

    The bus voltage hardly moves.

    Args:
        same: the chip has one conversion time for both.
    """
    possible = [
        Setting(average, time_us if same else times_us[0], time_us) for average, time_us in product(averages, times_us)
    ]
    return sorted(possible, key=lambda setting: (setting.period_ns, -setting.shunt_us))


@frozen
class Chip:
    """A kind of current monitor.

    Attributes:
        shunt_lsb_nv, bus_lsb_uv: one step of the registers.
        full_scale: the greatest shunt register value; more current shows no more.
        bus_shift: by how much the bus voltage is shifted to the left in its register.
        ready: (register, bit) of a complete sample (CVRF, CNVR); the bit below is the math overflow (OVF).
        offset_nv: limit of the shunt's offset.
        bus_offset_uv: of the bus voltage's.
        gain: limit of both gain errors.
        default_config: the configuration after a reset.
        averages, times_us: possible values.
    """

    name: str
    shunt_lsb_nv: int
    bus_lsb_uv: int
    full_scale: int
    bus_shift: int
    ready: tuple[int, int]
    offset_nv: float
    gain: float
    default_config: int
    averages: tuple[int, ...]
    times_us: tuple[int, ...]
    bus_offset_uv: float = BUS_OFFSET_UV

    @property
    def settings(self) -> list[Setting]:
        """All of them, the fastest first."""
        return settings(self.averages, self.times_us, same=len(self.times_us) == 1)

    @property
    def range_nv(self) -> float:
        """The greatest shunt voltage of any setting."""
        return 320e6 if self.name == "ina219" else float((self.full_scale + 1) * self.shunt_lsb_nv)

    def offset_bound_nv(self, zeroed_uv: float | None) -> float:
        """The shunt voltage's offset bound.

        Half a step once it was measured (`offset_uv`).
        """
        return self.offset_nv if zeroed_uv is None else self.shunt_lsb_nv / 2

    def config(self, setting: Setting) -> int:
        """The configuration register for a setting, converting continuously."""
        if self.name == "ina219":
            adc = 0b1000 | self.averages.index(setting.average)  # 12 bits, so many samples
            return adc << 7 | adc << 3 | _MODE  # 16 V bus range, 40 mV shunt range
        average = self.averages.index(setting.average)
        bus, shunt = self.times_us.index(setting.bus_us), self.times_us.index(setting.shunt_us)
        return 0x4000 | average << 9 | bus << 6 | shunt << 3 | _MODE  # bit 14 reads as 1


def _ina2(name: str, offset_nv: float, gain: float, bus_offset_uv: float = BUS_OFFSET_UV) -> Chip:
    return Chip(
        name=name,
        shunt_lsb_nv=2500,
        bus_lsb_uv=1250,
        full_scale=0x7FFF,
        bus_shift=0,
        ready=(MASK, 3),
        offset_nv=offset_nv,
        gain=gain,
        default_config=0x4127,
        averages=_AVERAGES,
        times_us=_TIMES_US,
        bus_offset_uv=bus_offset_uv,
    )


CHIPS: Final = {
    chip.name: chip
    for chip in (
        _ina2("ina226", 10_000.0, 0.001),
        _ina2("ina230", 50_000.0, 0.005, 30_000.0),  # of 2012; revision A (2021) allows half of it
        _ina2("ina231", 50_000.0, 0.005, 30_000.0),  # the bus' as of the INA230, with which it shares the other limits
        Chip(
            name="ina219",
            shunt_lsb_nv=10_000,
            bus_lsb_uv=4000,
            full_scale=4000,  # 40 mV
            bus_shift=3,
            ready=(BUS, 1),
            offset_nv=100_000.0,
            gain=0.01,
            default_config=0x399F,
            averages=_AVERAGES_219,
            times_us=(_TIME_219_US,),
        ),
    )
}


def shunt_range_nv(name: str) -> float:
    """The greatest shunt voltage of a chip; of one that is unknown: none."""
    return CHIPS[name].range_nv if name in CHIPS else math.inf
