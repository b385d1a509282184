"""The present power of rails for people; nothing is stored."""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Final

from attrs import define, field, frozen

from lab.errors import ConfigurationError
from lab.host.clock import Clock
from lab.rails.config import RailsConfig
from lab.rails.model import NO_VALUES, AdcRange, Channel, SensorReading
from lab.rails.sensors import open_sensor
from lab.rails.trace import END, RECORD, TraceMeta, meta_of


@frozen
class Now:
    """A rail at this moment; None: no sample in this period.

    Attributes:
        text: the fault, in a word; empty: none.
    """

    rail: str
    volts: float | None
    watts: float | None
    text: str = ""


def watch(config: RailsConfig, wanted: AdcRange, clock: Clock, seconds: float) -> Generator[list[Now]]:
    """Yield the means of each period, for ever.

    Raises:
        ConfigurationError, LabError: as `lab.rails.sensors.open_sensor`.
    """
    sensor = open_sensor(config)
    try:
        schedule = sensor.start(wanted)
        while True:
            by_channel: list[list[SensorReading]] = [[] for _ in schedule.channels]
            end_ns = clock.now_ns() + round(seconds * 1e9)
            while clock.now_ns() < end_ns:
                for reading in sensor.read():
                    by_channel[reading.rail].append(reading)
                time.sleep(schedule.poll_ns / 1e9)
            yield [_now(channel, readings) for channel, readings in zip(schedule.channels, by_channel, strict=True)]
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


STEP_NS: Final = 100_000_000
_HEADER_BYTES: Final = 1 << 20
_MOST_BYTES: Final = RECORD.size * 200_000  # of one look: a slow viewer's backlog is dropped


@frozen
class PowerStep:
    """The mean power of each rail in a step of STEP_NS.

    Attributes:
        t_ns: the middle of the step, on the clock of the trace.
        watts: by rail; None: no sample came from its sensor.
    """

    t_ns: int
    watts: tuple[float | None, ...]


@define
class TraceTail:
    """Follows a trace from `back_ns` before its end; see `follow`.

    Attributes:
        meta: the first line of the trace.
        ended: the sampler has finished it.
    """

    meta: TraceMeta
    ended: bool = field(default=False, init=False)
    _fd: int
    _offset: int
    _step: int = field(default=-1, init=False)
    _sums: list[float] = field(factory=list, init=False)
    _counts: list[int] = field(factory=list, init=False)
    _watt_per: list[tuple[float, float]] = field(factory=list, init=False)

    def __attrs_post_init__(self) -> None:
        self._watt_per = [  # watt per microvolt times nanovolt, and the shunt's offset
            (1e-6 * 1e-9 / (channel.shunt_mohm * 1e-3), channel.offset_nv) for channel in self.meta.channels
        ]

    def read(self) -> list[PowerStep]:
        """Return the new complete steps."""
        data = os.pread(self._fd, _MOST_BYTES, self._offset)
        whole = data[: len(data) // RECORD.size * RECORD.size]
        self._offset += len(whole)
        return list(self._steps(whole))

    def close(self) -> None:
        """Close the trace."""
        os.close(self._fd)

    def _steps(self, whole: bytes) -> Iterator[PowerStep]:
        for t_ns, bus_uv, shunt_nv, rail, mark in RECORD.iter_unpack(whole):
            if rail == END:
                self.ended = True
                continue
            if rail >= len(self._watt_per):
                continue
            step = t_ns // STEP_NS
            if step > self._step:
                if self._step >= 0:
                    watts = (
                        total / count if count else None for total, count in zip(self._sums, self._counts, strict=True)
                    )
                    yield PowerStep(self._step * STEP_NS + STEP_NS // 2, tuple(watts))
                self._step, self._sums, self._counts = step, [0.0] * len(self._watt_per), [0] * len(self._watt_per)
            if not mark & NO_VALUES:
                factor, offset_nv = self._watt_per[rail]
                self._sums[rail] += bus_uv * (shunt_nv - offset_nv) * factor
                self._counts[rail] += 1


def follow(path: Path, back_ns: int) -> TraceTail:
    """Open a trace from some time before its last sample on.

    Raises:
        ConfigurationError: no such file, or it is no trace.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror}") from error
    try:
        with os.fdopen(fd, "rb", closefd=False) as file:
            line = file.readline(_HEADER_BYTES)
        meta = meta_of(path, line)
        return TraceTail(meta, fd, _begin(fd, len(line), back_ns))
    except BaseException:
        os.close(fd)
        raise


def _begin(fd: int, first: int, back_ns: int) -> int:
    """Offset of the last `back_ns` of samples, which are in time order."""
    count = (os.fstat(fd).st_size - first) // RECORD.size
    if count <= 0:
        return first

    def t_ns(number: int) -> int:
        record_ns: int = RECORD.unpack(os.pread(fd, RECORD.size, first + number * RECORD.size))[0]
        return record_ns

    begin_ns = t_ns(count - 1) - back_ns
    low, high = 0, count - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if t_ns(middle) < begin_ns else (low, middle)
    return first + low * RECORD.size
