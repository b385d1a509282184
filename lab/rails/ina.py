"""INA226, INA231 and INA219 on I2C: each conversion read exactly once."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Sequence
from typing import Final

from lab.errors import LabStableError
from lab.rails.config import RailConfig, RailsConfig
from lab.rails.i2c import I2cBus, NackError, Register, read
from lab.rails.ina_chips import BUS, CONFIG, POWER, SHUNT, Chip, Setting
from lab.rails.model import AdcRange, Channel, SampleSchedule, SensorReading, TraceMark

POLL_SHARE: Final = 0.5  # of a sample's time, so that a poll may come half of it late: by 0.56 ms at the top rate
SLOW_NS: Final = 20_000_000  # longer samples are looked for twenty times each
STALE_PERIODS: Final = 4
_ROUNDS: Final = 5  # of a slow adapter, before it samples
CHECK_NS: Final = 100_000_000  # so often the settings of one sensor are looked at


class InaSensor:
    """A `lab.rails.model.RailSensor`.

    All registers of all rails are read at once. When a sensor does not acknowledge, the others are read on their own,
    and the silent one is marked.
    """

    def __init__(self, config: RailsConfig, chip: Chip, bus: I2cBus) -> None:
        self.rails: Sequence[RailConfig] = config.measured
        self._khz = config.bus_khz
        self._chip = chip
        self._bus = bus
        # A read of its register clears the ready flag; that of an INA219, one of the power register does.
        numbers = [BUS, SHUNT, POWER] if chip.ready[0] == BUS else [chip.ready[0], SHUNT, BUS]
        self._width = len(numbers)
        by_rail = [[Register(rail.address, number) for number in numbers] for rail in self.rails]
        self._all = bus.prepare([register for registers in by_rail for register in registers])
        self._each = [bus.prepare(registers) for registers in by_rail]
        self._configs = [bus.prepare([Register(rail.address, CONFIG)]) for rail in self.rails]
        self._setting = chip.settings[0]
        self._idle = [0] * len(self.rails)
        self._reset: set[int] = set()  # sensors whose next sample says that they were
        self._round = 0
        self._polls = 1  # in one period
        self._check_every = 1

    def start(self, wanted: AdcRange) -> SampleSchedule:
        round_ns = self._round_ns()
        setting = choose(self._chip.settings, self.rails, wanted, self._khz, round_ns)
        self._setting = setting
        period_ns = setting.period_ns
        poll_ns = round(period_ns * POLL_SHARE) if period_ns <= SLOW_NS else period_ns // 20
        self._polls = -(-period_ns // poll_ns)
        self._check_every = max(1, CHECK_NS // poll_ns)
        for rail in self.rails:
            self._configure(rail)
        channels = tuple(
            Channel.of(
                rail,
                shunt_mohm=rail.shunt_mohm,
                gain=self._chip.gain,
                bus_lsb_uv=self._chip.bus_lsb_uv,
                shunt_lsb_nv=self._chip.shunt_lsb_nv,
                bus_offset_uv=self._chip.bus_offset_uv,
                offset_bound_nv=self._chip.offset_bound_nv(rail.offset_uv),
                noise_nv=setting.noise_nv,
            )
            for rail in self.rails
        )
        text = f"{self._chip.name}, {setting.text}"
        if round_ns:
            text += (
                f"; the adapter takes {self._bus.limit}, {round_ns / 1e6:.1f} ms "
                f"for all: {1e9 / period_ns:.0f} samples/s"
            )
        return SampleSchedule(channels, period_ns, period_ns, poll_ns, poll_ns, text)

    def read(self) -> Sequence[SensorReading]:
        self._round += 1
        if self._round % self._check_every == 0:
            self._check()
        try:
            values = self._all()
        except NackError:
            readings = []
            for rail, fetch in enumerate(self._each):
                try:
                    reading = self._reading(rail, fetch())
                except NackError:
                    reading = SensorReading(rail, 0, 0, TraceMark.NACK)
                if reading is not None:
                    readings.append(reading)
            return readings
        width = self._width
        readings = []
        for rail in range(len(self.rails)):
            reading = self._reading(rail, values[rail * width : rail * width + width])
            if reading is not None:
                readings.append(reading)
        return readings

    def close(self) -> None:
        self._bus.close()

    def _round_ns(self) -> int:
        """How long a slow adapter takes to read all rails; 0: as long as the bus."""
        with contextlib.suppress(NackError):  # `_configure` says who does not answer
            self._all()
        if not self._bus.limit:
            return 0
        rounds_ns = []
        for _ in range(_ROUNDS):
            begun_ns = time.monotonic_ns()
            with contextlib.suppress(NackError):
                self._all()
            rounds_ns.append(time.monotonic_ns() - begun_ns)
        return statistics.median_high(rounds_ns)

    def _reading(self, rail: int, values: Sequence[int]) -> SensorReading | None:
        chip = self._chip
        status, shunt = values[0], values[1]
        bus = status if chip.ready[0] == BUS else values[2]
        if not status >> chip.ready[1] & 1:
            self._idle[rail] += 1
            if self._idle[rail] % (STALE_PERIODS * self._polls) == 0:
                return SensorReading(rail, 0, 0, TraceMark.STALE)
            return None
        self._idle[rail] = 0
        if shunt > 0x7FFF:
            shunt -= 0x10000
        mark = 0
        if rail in self._reset:
            self._reset.discard(rail)
            mark = TraceMark.RESET
        if abs(shunt) >= chip.full_scale or status >> chip.ready[1] - 1 & 1:
            mark |= TraceMark.SATURATED
        return SensorReading(rail, (bus >> chip.bus_shift) * chip.bus_lsb_uv, shunt * chip.shunt_lsb_nv, mark)

    def _check(self) -> None:
        """Check the next sensor's settings, and restore lost ones."""
        rail = self._round // self._check_every % len(self.rails)
        try:
            if self._configs[rail]()[0] != self._chip.config(self._setting):
                self._bus.write(Register(self.rails[rail].address, CONFIG), self._chip.config(self._setting))
                self._idle[rail] = 0
                self._reset.add(rail)
        except NackError:
            pass  # it is marked when its values are read

    def _configure(self, rail: RailConfig) -> None:
        configuration = self._chip.config(self._setting)
        register = Register(rail.address, CONFIG)
        where = f"{self._bus.name}: {self._chip.name} at {rail.address:#04x} ({rail.name})"
        try:
            self._bus.write(register, configuration)
            got = read(self._bus, register)
        except NackError as error:
            raise LabStableError(
                f"{where} does not answer: check its address in the env, the wiring and the board's power; "
                "`lab rails selftest` says who answers where",
                failure="power_sensor",
            ) from error
        if got != configuration:
            raise LabStableError(
                f"{where} took {got:#06x} as its configuration, not {configuration:#06x}: is it another chip? `lab "
                "rails selftest` shows what it reads",
                failure="power_sensor",
            )


# A sensor's noise falls with the square root of the time that it looks at the shunt, while its samples become rarer.
# The choice is the fastest setting whose noise is at most 1 % of the expected signal. A sleeping board draws about a
# milliwatt a rail: 1 mW at 1.8 V is 5.6 µV on 10 mOhm, two steps of the register, and needs 1024 conversions of 1.1
# ms. A running board draws a hundred times that, and what counts is when it changes: a thousand samples a second, as
# long as the bus carries them.


SHARE: Final = 0.01
EXPECTED_W: Final = {AdcRange.ACTIVE: 0.1, AdcRange.SLEEP: 0.001}
FASTEST_NS: Final = 1_000_000  # no ordinary process polls faster without being late now and then
SLOWEST_NS: Final = {AdcRange.ACTIVE: 1_200_000, AdcRange.SLEEP: 1_500_000_000}
_BITS_PER_READ: Final = 47  # start, address, register, restart, address, two bytes, each with its acknowledge, stop
_READS_PER_RAIL: Final = 3  # ready flag, shunt, bus
_MARGIN: Final = 1.25  # the bus may be busy for four fifths of the time


def bus_time_ns(rails: int, khz: int) -> int:
    """Time of the bus to read all rails once."""
    return rails * _READS_PER_RAIL * _BITS_PER_READ * 1_000_000 // khz


def choose(
    available: Sequence[Setting], rails: Sequence[RailConfig], wanted: AdcRange, khz: int, round_ns: int = 0
) -> Setting:
    """The fastest setting that resolves 1 % of the smallest signal.

    Else the slowest that the range allows.

    Args:
        round_ns: time of a slow adapter to read all rails.
    """
    floor_ns = max(FASTEST_NS, round(_MARGIN * max(bus_time_ns(len(rails), khz), round_ns)))
    ceiling_ns = max(SLOWEST_NS[wanted], floor_ns)
    signal_nv = min(EXPECTED_W[wanted] / rail.volts * rail.shunt_mohm * 1e6 for rail in rails)
    possible = [setting for setting in available if floor_ns <= setting.period_ns <= ceiling_ns]
    if not possible:  # a slow bus or a slow chip: the first that the bus can carry
        possible = [setting for setting in available if setting.period_ns >= floor_ns][:1] or [available[-1]]
    quiet = [setting for setting in possible if setting.noise_nv <= SHARE * signal_nv]
    if quiet:
        return quiet[0]
    return possible[-1] if wanted is AdcRange.SLEEP else possible[0]
