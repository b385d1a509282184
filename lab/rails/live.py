"""What the rails draw now, for a person who looks on: nothing is kept, and nothing is a measurement."""

from __future__ import annotations

import time
from collections.abc import Generator

from attrs import frozen

from lab.host.clock import Clock
from lab.rails.backends import open_sensor
from lab.rails.config import RailsConfig
from lab.rails.model import NO_VALUES, Channel, Range, SensorReading


@frozen
class Now:
    """A rail at this moment; None: no sample in this period.

    Attributes:
        text: what is wrong, in a word; empty: nothing.
    """

    rail: str
    volts: float | None
    watts: float | None
    text: str = ""


def watch(config: RailsConfig, wanted: Range, clock: Clock, seconds: float) -> Generator[list[Now]]:
    """The means of each so many seconds, for ever.

    Raises:
        ConfigurationError, LabError: as `lab.rails.backends.open_sensor`.
    """
    sensor = open_sensor(config)
    try:
        schedule = sensor.start(wanted)
        while True:
            found: list[list[SensorReading]] = [[] for _ in schedule.channels]
            end_ns = clock.now_ns() + round(seconds * 1e9)
            while clock.now_ns() < end_ns:
                for reading in sensor.read():
                    found[reading.rail].append(reading)
                time.sleep(schedule.poll_ns / 1e9)
            yield [_now(channel, readings) for channel, readings in zip(schedule.channels, found, strict=True)]
    finally:
        sensor.close()


def _now(channel: Channel, readings: list[SensorReading]) -> Now:
    good = [reading for reading in readings if not reading.mark & NO_VALUES]
    text = (
        ""
        if len(good) == len(readings)
        else "does not answer, does not convert, or says no number that a rail can have"
    )
    if not good:
        return Now(channel.rail, None, None, text)
    volts = sum(reading.bus_uv for reading in good) / len(good) / 1e6
    shunt_nv = sum(reading.shunt_nv for reading in good) / len(good) - channel.offset_nv
    return Now(channel.rail, volts, volts * shunt_nv * 1e-6 / channel.shunt_mohm, text)
