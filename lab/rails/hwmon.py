"""Linux hwmon files: in1_input (mV), curr1_input (mA).

As in drivers/hwmon/ina2xx.c and others.

They read in whole milliamperes, so a sleeping board is below their resolution; docs/rails.md compares the backends.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from lab.errors import ConfigurationError, LabStableError
from lab.rails.config import RailConfig, RailsConfig, same_sensor
from lab.rails.ina_chips import CHIPS
from lab.rails.model import AdcRange, Channel, SampleSchedule, SensorReading, TraceMark

PERIOD_NS: Final = {
    AdcRange.ACTIVE: 10_000_000,
    AdcRange.SLEEP: 200_000_000,
}  # a file is an I2C transfer in the kernel
LONGEST_MS: Final = 20_000  # of the slowest setting of an INA2xx, 1024 conversions of 8.2 ms twice
NOMINAL_MOHM: Final = 10.0  # where the driver has computed the current itself, any shunt will do to carry it
GAIN: Final = 0.005


class HwmonSensor:
    """A `lab.rails.model.RailSensor`; rails are folders by `channel` or name."""

    def __init__(self, config: RailsConfig) -> None:
        """Find the folders.

        Raises:
            ConfigurationError: a rail has none, or that of another one.
        """
        self.rails: Sequence[RailConfig] = config.measured
        self._root = Path(config.port)
        self._folders = [self._folder(rail) for rail in self.rails]
        for number, (rail, folder) in enumerate(zip(self.rails, self._folders, strict=True)):
            if folder in self._folders[:number]:
                raise ConfigurationError(f"{self._root}: {same_sensor(rail, folder.name)}")
        self._shunts = [rail.shunt_mohm or NOMINAL_MOHM for rail in self.rails]

    def start(self, wanted: AdcRange) -> SampleSchedule:
        """Set up; the driver's own averaging stays.

        A driver that says its `update_interval` has no newer value in between.
        """
        interval_ns = max(map(_update_interval_ns, self._folders))
        period_ns = max(PERIOD_NS[wanted], interval_ns)
        channels = tuple(map(_channel, self.rails, self._folders, self._shunts))
        return SampleSchedule(
            channels,
            period_ns,
            interval_ns,
            period_ns,
            interval_ns,
            "hwmon: in1_input, curr1_input; averaging of the driver",
        )

    def read(self) -> Sequence[SensorReading]:
        found = []
        for number, (folder, shunt) in enumerate(zip(self._folders, self._shunts, strict=True)):
            try:
                millivolt, milliampere = _text(folder / "in1_input"), _text(folder / "curr1_input")
            except FileNotFoundError as error:
                raise LabStableError(
                    f"{error.filename}: gone; was the sensor's driver unbound, or its adapter unplugged?",
                    failure="power_sensor",
                ) from error
            except OSError:  # the driver's transfer was not acknowledged
                found.append(SensorReading(number, 0, 0, TraceMark.NACK))
            else:
                found.append(SensorReading.of(number, millivolt, 1000, milliampere, shunt * 1000))
        return found

    def close(self) -> None:
        """Do nothing: files need no end."""

    def _folder(self, rail: RailConfig) -> Path:
        wanted = rail.source
        for folder in sorted(self._root.glob("hwmon*")):
            names = {folder.name} | {
                (folder / file).read_text().strip() for file in ("name", "label") if (folder / file).is_file()
            }
            if wanted in names:
                return folder
        available = ", ".join(folder.name for folder in sorted(self._root.glob("hwmon*"))) or "none"
        raise ConfigurationError(
            f"{self._root}: no hwmon folder is called or labelled {wanted!r} for rail {rail.name}; there are: {available}. "
            "Name it with the rail's `channel`"
        )


def _text(path: Path) -> str:
    return path.read_text(errors="replace")


def _update_interval_ns(folder: Path) -> int:
    """The chip's `update_interval` (Documentation/hwmon/sysfs-interface.rst, in ms); 0: its driver does not say."""
    try:
        found = int(_text(folder / "update_interval"))
    except (OSError, ValueError):
        return 0
    return max(0, min(found, LONGEST_MS)) * 1_000_000


def _channel(rail: RailConfig, folder: Path, shunt_mohm: float) -> Channel:
    step_nv = shunt_mohm * 1000  # 1 mA
    named = folder / "name"
    chip = CHIPS.get(named.read_text().strip() if named.is_file() else "", CHIPS["ina226"])
    return Channel.of(
        rail,
        shunt_mohm=shunt_mohm,
        gain=GAIN,
        bus_lsb_uv=1000,
        shunt_lsb_nv=step_nv,
        offset_bound_nv=chip.offset_nv if rail.offset_uv is None else step_nv / 2,
    )
