"""Linux hwmon files: in1_input (mV), curr1_input (mA), and those of further channels.

As in drivers/hwmon/ina2xx.c, ina3221.c and others. A driver computes the current with the shunt of a device tree, else
with 10 mOhm; the environment's shunt replaces it.

They read in whole milliamperes, so a sleeping board is below their resolution; docs/rails.md compares the backends.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from attrs import frozen

from lab.errors import ConfigurationError, LabStableError
from lab.rails.config import RailConfig, RailsConfig, same_sensor
from lab.rails.ina_chips import CHIPS, shunt_range_nv
from lab.rails.model import AdcRange, Channel, SampleSchedule, SensorReading, TraceMark

# A file is an I2C transfer in the kernel
PERIOD_NS: Final = {AdcRange.ACTIVE: 10_000_000, AdcRange.SLEEP: 200_000_000}
LONGEST_MS: Final = 20_000  # above an INA2xx's slowest setting: 1024 conversions of 8.2 ms of shunt and bus, 17 s
# Assumed if neither the driver nor the environment has the shunt; the current does not depend on it
NOMINAL_MOHM: Final = 10.0
GAIN: Final = 0.005
# Of an INA3221 (TI SBOS576) and of a chip that is unknown: the coarsest of those that are known
OFFSET_NV: Final = 100_000.0
STEP_NV: Final = 40_000.0
BUS_UV: Final = 30_000.0
_CURRENT: Final = re.compile(r"curr(\d+)_input")


@frozen
class HwmonChannel:
    """One current of a device, and the voltage with it.

    Attributes:
        folder: the device's folder, with links resolved: no other device ever has that path.
        number: the number in the names of its files, e.g. 1 in in1_input.
    """

    folder: Path
    number: int = 1

    @property
    def name(self) -> str:
        """For messages, e.g. hwmon0/1."""
        return f"{self.folder.name}/{self.number}"

    @property
    def files(self) -> tuple[Path, Path]:
        """The files of its voltage (mV) and current (mA)."""
        return self.folder / f"in{self.number}_input", self.folder / f"curr{self.number}_input"

    @property
    def chip(self) -> str:
        """The name that its driver gives it."""
        path = self.folder / "name"
        return _text(path).strip() if path.is_file() else ""

    @property
    def driver_shunt_mohm(self) -> float:
        """The shunt that the driver computes with; 0: it does not say."""
        for path in (self.folder / f"shunt{self.number}_resistor", self.folder / "shunt_resistor"):
            if path.is_file():
                text = _text(path).strip()
                if not text.isdecimal() or int(text) == 0:
                    raise ConfigurationError(f"{path}: expected the driver's shunt in microohm, got {text!r:.40}")
                return int(text) / 1000
        return 0.0

    @property
    def names(self) -> list[str]:
        """Names by which a rail's `channel` may mean it.

        The device's own names stand for its first channel.
        """
        device = _device_names(self.folder)
        label = self.folder / f"in{self.number}_label"
        own = [_text(label).strip()] if label.is_file() else []
        return [*(device if self.number == 1 else ()), *own, *(f"{name}/{self.number}" for name in device)]


class HwmonSensor:
    """A `lab.rails.model.RailSensor`; rails are devices by `channel` or name."""

    def __init__(self, config: RailsConfig) -> None:
        """Find the folders.

        Raises:
            ConfigurationError: a rail has none, or that of another one.
        """
        self.rails: Sequence[RailConfig] = config.measured
        self._root = Path(config.port)
        self._inputs = [find_channel(self._root, rail) for rail in self.rails]
        for number, (rail, channel) in enumerate(zip(self.rails, self._inputs, strict=True)):
            if channel in self._inputs[:number]:
                raise ConfigurationError(f"{self._root}: {same_sensor(rail, channel.name)}")
        driver_shunts_mohm = [channel.driver_shunt_mohm for channel in self._inputs]
        self._shunts_mohm = [
            rail.shunt_mohm or shunt or NOMINAL_MOHM
            for rail, shunt in zip(self.rails, driver_shunts_mohm, strict=True)
        ]
        self._steps_nv = [  # of 1 mA, across the shunt that the driver divided by
            (driver or shunt) * 1000 for driver, shunt in zip(driver_shunts_mohm, self._shunts_mohm, strict=True)
        ]
        self._ranges_nv = [shunt_range_nv(channel.chip) for channel in self._inputs]
        self._shunt_text = ", ".join(f"{shunt:g}" if shunt else "unknown" for shunt in driver_shunts_mohm)

    def start(self, wanted: AdcRange) -> SampleSchedule:
        """Set up; the driver's own averaging stays.

        A driver that says its `update_interval` has no newer value in between.
        """
        interval_ns = max(_update_interval_ns(channel.folder) for channel in self._inputs)
        period_ns = max(PERIOD_NS[wanted], interval_ns)
        names = ", ".join(channel.name for channel in self._inputs)
        channels = tuple(map(_channel, self.rails, self._inputs, self._shunts_mohm, self._steps_nv))
        return SampleSchedule(
            channels,
            period_ns=period_ns,
            window_ns=interval_ns,
            poll_ns=period_ns,
            late_ns=interval_ns,
            text=f"hwmon: {names}; averaging of the driver; its shunts in mOhm: {self._shunt_text}",
        )

    def read(self) -> Sequence[SensorReading]:
        readings = []
        for number, (channel, step_nv) in enumerate(zip(self._inputs, self._steps_nv, strict=True)):
            try:
                millivolt, milliampere = map(_text, channel.files)
            except FileNotFoundError as error:
                raise LabStableError(
                    f"{error.filename}: gone; was the sensor's driver unbound, or its adapter unplugged?",
                    failure="power_sensor",
                ) from error
            except OSError:  # the driver's transfer was not acknowledged
                readings.append(SensorReading(number, 0, 0, TraceMark.NACK))
            else:
                reading = SensorReading.of(number, millivolt, 1000, milliampere, step_nv, self._ranges_nv[number])
                readings.append(reading)
        return readings

    def close(self) -> None:
        """Do nothing: files need no end."""


def find_channel(root: Path, rail: RailConfig) -> HwmonChannel:
    """The channel of a rail.

    Raises:
        ConfigurationError: none has that name or label, or several have.
    """
    names_of = {channel: channel.names for folder in sorted(root.glob("hwmon*")) for channel in _channels(folder)}
    channels = [channel for channel, names in names_of.items() if rail.source in names]
    if len(channels) == 1:
        return channels[0]
    labels = (
        names[0] if channel.number > 1 else " or ".join(_device_names(channel.folder))
        for channel, names in names_of.items()
    )
    available = ", ".join(labels) or "none"
    subject = f"{len(channels)} hwmon devices are" if channels else "no hwmon device is"
    raise ConfigurationError(
        f"{root}: {subject} called or labelled {rail.source!r} for rail {rail.name}; there are: {available}. "
        "Name one with the rail's `channel`"
    )


def _channels(folder: Path) -> Iterator[HwmonChannel]:
    """The channels of a folder.

    The first is always there: a device may lack files while its chip does not answer.
    """
    numbers = {int(match[1]) for path in folder.iterdir() if (match := _CURRENT.fullmatch(path.name))}
    for number in sorted(numbers | {1}):
        yield HwmonChannel(folder.resolve(), number)


def _device_names(folder: Path) -> list[str]:
    """The device's own name, e.g. 1-0040, its driver's, and its label."""
    own = [(folder / "device").resolve().name] if (folder / "device").exists() else []
    return own + [_text(folder / file).strip() for file in ("name", "label") if (folder / file).is_file()]


def _text(path: Path) -> str:
    return path.read_text(errors="replace")


def _update_interval_ns(folder: Path) -> int:
    """The chip's `update_interval` (Documentation/hwmon/sysfs-interface.rst, in ms); 0: its driver does not say."""
    try:
        interval_ms = int(_text(folder / "update_interval"))
    except (OSError, ValueError):
        return 0
    return max(0, min(interval_ms, LONGEST_MS)) * 1_000_000


def _channel(rail: RailConfig, channel: HwmonChannel, shunt_mohm: float, step_nv: float) -> Channel:
    chip = CHIPS.get(channel.chip)
    offset_nv, chip_step_nv = (OFFSET_NV, STEP_NV) if chip is None else (chip.offset_nv, chip.shunt_lsb_nv)
    shunt_lsb_nv = max(step_nv, chip_step_nv)
    return Channel.of(
        rail,
        shunt_mohm=shunt_mohm,
        gain=GAIN,
        bus_lsb_uv=1000,
        shunt_lsb_nv=shunt_lsb_nv,
        offset_bound_nv=offset_nv if rail.offset_uv is None else shunt_lsb_nv / 2,
        bus_offset_uv=BUS_UV if chip is None else chip.bus_offset_uv,
    )
