"""The self-test: addresses on the bus, and sensors on their rails."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Final

from attrs import frozen

from lab.boards.hardware import RAIL_OFF_V
from lab.host.clock import Clock
from lab.rails.config import INA, RailConfig, RailsConfig
from lab.rails.i2c import I2cBus, NackError, Register, read
from lab.rails.ina_chips import BUS, CHIPS, CONFIG, SHUNT, Chip
from lab.rails.model import NO_VALUES, AdcRange
from lab.rails.sensors import open_bus, open_sensor

ADDRESSES: Final = range(0x40, 0x50)  # addresses that two pins of an INA2xx can select
NEAR: Final = 0.08  # largest deviation of a healthy supply from its nominal voltage, as a share
_SETTLE_S: Final = 0.05  # until a chip that was started has converted
_PATIENCE_S: Final = 5.0  # for a first sample of each rail


@frozen
class SensorCheck:
    """The check of a sensor.

    Attributes:
        where: its address, or its name at the backend.
        rail: configured for it; empty: none.
        expected_v: that rail's nominal voltage; 0 without a rail.
        volts, shunt_uv: its readings; None: no answer.
        verdict: "ok", or fault and remedy, or the nature of an unconfigured address.
        good: the rail can be measured.
    """

    where: str
    rail: str
    expected_v: float
    volts: float | None
    shunt_uv: float | None
    verdict: str
    good: bool


@frozen
class _Readings:
    volts: float
    shunt_uv: float


def run(config: RailsConfig, clock: Clock) -> list[SensorCheck]:
    """Read every bus voltage and judge it.

    Raises:
        ConfigurationError: the port is missing.
        LabError: nothing can be read.
    """
    if config.backend not in INA:
        return _check_samples(config, clock)
    bus = open_bus(config)
    try:
        return survey(config, bus)
    finally:
        bus.close()


def survey(config: RailsConfig, bus: I2cBus) -> list[SensorCheck]:
    """Read and judge every possible and configured INA2xx address.

    Raises:
        LabStableError: the bus is gone.
    """
    chip = CHIPS[config.backend]
    rails = {rail.address: rail for rail in config.measured}
    by_address = {address: _read_chip(bus, chip, address) for address in sorted({*ADDRESSES, *rails})}
    present = {address: readings for address, readings in by_address.items() if readings is not None}
    volts_of_rail = {rails[address].name: present[address].volts for address in present if address in rails}
    return [
        _check(config, f"{address:#04x}", rails.get(address), present.get(address), volts_of_rail)
        for address in sorted({*present, *rails})
    ]


def zero(config: RailsConfig, clock: Clock, seconds: float = 3.0) -> dict[str, float]:
    """Mean shunt voltage by rail (uV): the offset with power off.

    Raises:
        LabError: nothing can be read.
    """
    sums: dict[int, list[int]] = {}
    sensor = open_sensor(config)
    try:
        schedule = sensor.start(AdcRange.ACTIVE)
        end_ns = clock.now_ns() + round(seconds * 1e9)
        while clock.now_ns() < end_ns:
            for reading in sensor.read():
                if not reading.mark:
                    sums.setdefault(reading.rail, []).append(reading.shunt_nv)
            time.sleep(schedule.poll_ns / 1e9)
    finally:
        sensor.close()
    return {
        config.measured[number].name: round(sum(values) / len(values) / 1000, 2) for number, values in sums.items()
    }


def _read_chip(bus: I2cBus, chip: Chip, address: int) -> _Readings | None:
    """Read the chip at an address; None: no answer."""
    try:
        # The lowest bits of CONFIG are its mode; 111 converts all the time. Another one is started first.
        if read(bus, Register(address, CONFIG)) & 0b111 != 0b111:
            bus.write(Register(address, CONFIG), chip.default_config)
            time.sleep(_SETTLE_S)
        shunt, volts = read(bus, Register(address, SHUNT)), read(bus, Register(address, BUS))
    except NackError:
        return None
    shunt -= 0x10000 if shunt > 0x7FFF else 0  # two's complement
    return _Readings((volts >> chip.bus_shift) * chip.bus_lsb_uv / 1e6, shunt * chip.shunt_lsb_nv / 1000)


def _check_samples(config: RailsConfig, clock: Clock) -> list[SensorCheck]:
    """Judge each configured rail by one sample of its backend.

    Such a backend has no addresses to survey.
    """
    sensor = open_sensor(config)
    readings: dict[int, _Readings] = {}
    try:
        schedule = sensor.start(AdcRange.ACTIVE)
        end_ns = clock.now_ns() + round(_PATIENCE_S * 1e9)
        while len(readings) < len(config.measured) and clock.now_ns() < end_ns:
            for reading in sensor.read():
                if not reading.mark & NO_VALUES:
                    readings[reading.rail] = _Readings(reading.bus_uv / 1e6, reading.shunt_nv / 1000)
            time.sleep(schedule.poll_ns / 1e9)
    finally:
        sensor.close()
    volts_of_rail = {config.measured[number].name: reading.volts for number, reading in readings.items()}
    return [
        _check(config, rail.source, rail, readings.get(number), volts_of_rail)
        for number, rail in enumerate(config.measured)
    ]


def _check(
    config: RailsConfig,
    where: str,
    rail: RailConfig | None,
    readings: _Readings | None,
    volts_of_rail: Mapping[str, float],
) -> SensorCheck:
    """Judge one sensor.

    Args:
        rail: what is configured for it; None: nothing.
        readings: None: it does not answer.
        volts_of_rail: the bus voltages of all rails that answer, which show two that are swapped.
    """
    if rail is None:
        guess = "" if readings is None else f"; {_rails_of(config.measured, readings.volts, 'it could be')}"
        verdict, good = f"answers, and no rail is configured here{guess}", True
    elif readings is None:
        verdict, good = (
            "does not answer, or says no number: check its address, the wiring, the sensor's supply and its driver",
            False,
        )
    else:
        verdict, good = _judge(config, rail, readings.volts, volts_of_rail)
    return SensorCheck(
        where,
        rail.name if rail else "",
        rail.volts if rail else 0.0,
        None if readings is None else readings.volts,
        None if readings is None else readings.shunt_uv,
        verdict,
        good,
    )


def _judge(
    config: RailsConfig, rail: RailConfig, volts: float, volts_of_rail: Mapping[str, float]
) -> tuple[str, bool]:
    """The verdict on a rail's voltage; True: it can be measured."""
    if _near(volts, rail.volts):
        same = [other.name for other in config.measured if other is not rail and _near(volts, other.volts)]
        alike = f"; its voltage alone does not tell it from {', '.join(same)}" if same else ""
        return f"ok{alike}", True
    if volts < RAIL_OFF_V:
        return "no voltage: is the board on?", False
    swapped = [
        other.name
        for other in config.measured
        if other is not rail and _near(volts, other.volts) and _near(volts_of_rail.get(other.name, 0.0), rail.volts)
    ]
    if swapped:
        return f"swapped with {swapped[0]}: exchange their addresses in the env", False
    if rail.scaled and not rail.range_v:
        return "ok; software sets its voltage, and no public source says its range", True
    low, high = rail.range_v or (rail.volts, rail.volts)
    expected = f"{low:g} to {high:g} V, which software sets" if rail.scaled else f"{rail.volts:g} V"
    if rail.scaled and low - NEAR * low <= volts <= high + NEAR * high:
        return f"ok; {expected}", True
    return f"expected {expected}; {_rails_of(config.measured, volts, 'it reads as')}", False


def _rails_of(rails: Sequence[RailConfig], volts: float, phrase: str) -> str:
    """The rails with this nominal voltage, behind a phrase."""
    names = [rail.name for rail in rails if _near(volts, rail.volts)]
    return f"{phrase} {' or '.join(names)}" if names else "no rail of the board has this voltage"


def _near(volts: float, nominal: float) -> bool:
    return abs(volts - nominal) <= NEAR * nominal
