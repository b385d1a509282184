"""An INA231 at register level (TI SBOS644), for I2C masters.

It converts shunt and bus voltage in turn, averages as it is configured, rounds to its steps, and raises its ready flag
when a sample is complete. Samples are computed when they are asked for, each from the load in its own window.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

from attrs import define, field

CONFIG, SHUNT, BUS, POWER, CURRENT, CALIBRATION, MASK, ALERT = range(8)
DEFAULT_CONFIG: Final = 0x4127
SHUNT_LSB_V: Final = 2.5e-6
BUS_LSB_V: Final = 1.25e-3
_RESET: Final = 0x8000
READY: Final = 1 << 3
_OVERFLOW: Final = 1 << 2
_MASK_SETTABLE: Final = 0xFC03
_AVERAGES: Final = (1, 4, 16, 64, 128, 256, 512, 1024)
_TIMES_NS: Final = (140_000, 204_000, 332_000, 588_000, 1_100_000, 2_116_000, 4_156_000, 8_244_000)
_NOISE_V: Final = 5e-6  # standard deviation of one conversion of 140 µs
_NOISE_NS: Final = 140_000
_CONTINUOUS: Final = 0b100
_SHUNT_MODE: Final = 0b001
_BUS_MODE: Final = 0b010

Supply = Callable[[int, int], tuple[float, float]]  # start_ns, end_ns -> mean volt, mean ampere


@define(eq=False)
class Ina231:
    """One sensor.

    Attributes:
        supply: the rail that it is soldered to.
        shunt_ohm: the shunt that is really there.
        dice: of its noise.
        stuck: its registers keep what they hold, and the ready flag goes on.
    """

    supply: Supply
    shunt_ohm: float
    dice: Random
    stuck: bool = False
    samples: int = field(default=0, init=False)
    _registers: dict[int, int] = field(init=False)
    _started_ns: int = field(default=0, init=False)
    _done: int = field(default=0, init=False)  # number of the sample that the registers hold, since `_started_ns`

    def __attrs_post_init__(self) -> None:
        self._registers = self._after_reset()

    def reset(self, now_ns: int) -> None:
        """Power came back, or the reset bit was written."""
        self._registers = self._after_reset()
        self._restart(now_ns)

    def write(self, register: int, value: int, now_ns: int) -> bool:
        """The master writes a register; False: there is no such register."""
        self._convert(now_ns)
        if register == CONFIG:
            if value & _RESET:
                self.reset(now_ns)
            else:
                self._registers[CONFIG] = value & 0x0FFF | 0x4000
                self._restart(now_ns)
        elif register == MASK:
            self._registers[MASK] = value & _MASK_SETTABLE | self._registers[MASK] & READY
        elif register in {CALIBRATION, ALERT}:
            self._registers[register] = value & (0x7FFF if register == CALIBRATION else 0xFFFF)
        return register <= ALERT

    def read(self, register: int, now_ns: int) -> int | None:
        """The master reads a register; None: there is no such register."""
        self._convert(now_ns)
        value = self._registers.get(register)
        if register == MASK:
            self._registers[MASK] &= ~READY
        return value

    def held(self, register: int) -> int | None:
        """The value of a register since its last sample; None: none."""
        return self._registers.get(register)

    @property
    def period_ns(self) -> int:
        """Time of a sample by the configuration; 0: no conversion."""
        config = self._registers[CONFIG]
        mode = config & 7
        shunt = _TIMES_NS[config >> 3 & 7] if mode & _SHUNT_MODE else 0
        bus = _TIMES_NS[config >> 6 & 7] if mode & _BUS_MODE else 0
        return _AVERAGES[config >> 9 & 7] * (shunt + bus)

    @staticmethod
    def _after_reset() -> dict[int, int]:
        return dict.fromkeys(range(8), 0) | {CONFIG: DEFAULT_CONFIG}

    def _restart(self, now_ns: int) -> None:
        self._registers[MASK] &= ~READY
        self._started_ns, self._done = now_ns, 0

    def _convert(self, now_ns: int) -> None:
        """Bring the registers to what they hold at this instant."""
        period_ns = self.period_ns
        if not period_ns:
            return
        complete = (now_ns - self._started_ns) // period_ns
        if not self._registers[CONFIG] & _CONTINUOUS:
            complete = min(complete, 1)  # a triggered sample, once
        if complete <= self._done:
            return
        self.samples += complete - self._done
        self._done = complete
        self._registers[MASK] |= READY
        if not self.stuck:
            end_ns = self._started_ns + complete * period_ns
            self._sample(end_ns - period_ns, end_ns)

    def _sample(self, start_ns: int, end_ns: int) -> None:
        config, held = self._registers[CONFIG], self._registers
        volts, amperes = self.supply(start_ns, end_ns)
        if config & _SHUNT_MODE:
            looked_ns = _AVERAGES[config >> 9 & 7] * _TIMES_NS[config >> 3 & 7]
            noise_v = self.dice.gauss(0.0, _NOISE_V * (_NOISE_NS / looked_ns) ** 0.5)
            code = round((amperes * self.shunt_ohm + noise_v) / SHUNT_LSB_V)
            held[SHUNT] = min(max(code, -0x8000), 0x7FFF) & 0xFFFF
        if config & _BUS_MODE:
            held[BUS] = min(max(round(volts / BUS_LSB_V), 0), 0x7FFF)
        shunt = held[SHUNT] - (0x10000 if held[SHUNT] > 0x7FFF else 0)
        current = shunt * held[CALIBRATION] // 2048
        held[CURRENT] = current & 0xFFFF
        power = abs(current) * held[BUS] // 20_000
        held[POWER] = min(power, 0xFFFF)
        overflow = power > 0xFFFF or not -0x8000 <= current <= 0x7FFF
        held[MASK] = held[MASK] & ~_OVERFLOW | (_OVERFLOW if overflow else 0)
