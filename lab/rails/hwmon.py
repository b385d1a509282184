"""Linux hwmon files: in1_input (mV), curr1_input (mA).

As in drivers/hwmon/ina2xx.c and others. A driver computes the current with the shunt of a device tree, else with
10 mOhm; the environment's shunt replaces it.

They read in whole milliamperes, so a sleeping board is below their resolution; docs/rails.md compares the backends.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from lab.errors import ConfigurationError, LabStableError
from lab.rails.config import RailConfig, RailsConfig, same_sensor
from lab.rails.ina_chips import CHIPS, shunt_range_nv
from lab.rails.model import AdcRange, Channel, SampleSchedule, SensorReading, TraceMark

# A file is an I2C transfer in the kernel
PERIOD_NS: Final = {AdcRange.ACTIVE: 10_000_000, AdcRange.SLEEP: 200_000_000}
LONGEST_MS: Final = 20_000  # of the slowest setting of an INA2xx, 1024 conversions of 8.2 ms twice
# Where neither the driver nor the environment says it, any shunt will do to carry the current
NOMINAL_MOHM: Final = 10.0
_SHUNTS: Final = ("shunt_resistor", "shunt1_resistor")  # ina2xx, ina3221; microohm
GAIN: Final = 0.005


class HwmonSensor:
    """A `lab.rails.model.RailSensor`; rails are devices by `channel` or name."""

    def __init__(self, config: RailsConfig) -> None:
        """Find the folders.

        Raises:
            ConfigurationError: a rail has none, or that of another one.
        """
        self.rails: Sequence[RailConfig] = config.measured
        self._root = Path(config.port)
        self._folders = [find_folder(self._root, rail) for rail in self.rails]
        for number, (rail, folder) in enumerate(zip(self.rails, self._folders, strict=True)):
            if folder in self._folders[:number]:
                raise ConfigurationError(f"{self._root}: {same_sensor(rail, folder.name)}")
        driver_shunts_mohm = list(map(_driver_shunt_mohm, self._folders))
        self._shunts_mohm = [
            rail.shunt_mohm or shunt or NOMINAL_MOHM
            for rail, shunt in zip(self.rails, driver_shunts_mohm, strict=True)
        ]
        self._steps_nv = [  # of 1 mA, across the shunt that the driver divided by
            (driver or shunt) * 1000 for driver, shunt in zip(driver_shunts_mohm, self._shunts_mohm, strict=True)
        ]
        self._ranges_nv = [shunt_range_nv(_chip(folder)) for folder in self._folders]
        self._shunt_text = ", ".join(f"{shunt:g}" if shunt else "unknown" for shunt in driver_shunts_mohm)

    def start(self, wanted: AdcRange) -> SampleSchedule:
        """Set up; the driver's own averaging stays.

        A driver that says its `update_interval` has no newer value in between.
        """
        interval_ns = max(map(_update_interval_ns, self._folders))
        period_ns = max(PERIOD_NS[wanted], interval_ns)
        channels = tuple(map(_channel, self.rails, self._folders, self._shunts_mohm, self._steps_nv))
        return SampleSchedule(
            channels,
            period_ns,
            interval_ns,
            period_ns,
            interval_ns,
            f"hwmon: in1_input, curr1_input; averaging of the driver; its shunts in mOhm: {self._shunt_text}",
        )

    def read(self) -> Sequence[SensorReading]:
        readings = []
        for number, (folder, step_nv) in enumerate(zip(self._folders, self._steps_nv, strict=True)):
            try:
                millivolt, milliampere = _text(folder / "in1_input"), _text(folder / "curr1_input")
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


def find_folder(root: Path, rail: RailConfig) -> Path:
    """The folder of a rail's device, under the kernel's path, which no other device ever has.

    Raises:
        ConfigurationError: no device has that name or label, or several have.
    """
    names = {folder.resolve(): _names(folder) for folder in sorted(root.glob("hwmon*"))}
    folders = [folder for folder, of_folder in names.items() if rail.source in of_folder]
    if len(folders) == 1:
        return folders[0]
    available = ", ".join("/".join(of_folder) for of_folder in names.values()) or "none"
    number = f"{len(folders)} hwmon devices are" if folders else "no hwmon device is"
    raise ConfigurationError(
        f"{root}: {number} called or labelled {rail.source!r} for rail {rail.name}; there are: {available}. "
        "Name one with the rail's `channel`"
    )


def _names(folder: Path) -> list[str]:
    """The device's own name, e.g. 1-0040, its driver's, and its label."""
    own = [(folder / "device").resolve().name] if (folder / "device").exists() else []
    return own + [_text(folder / file).strip() for file in ("name", "label") if (folder / file).is_file()]


def _driver_shunt_mohm(folder: Path) -> float:
    """The shunt that the driver computes with; 0: it does not say."""
    for path in (folder / name for name in _SHUNTS):
        if path.is_file():
            text = _text(path).strip()
            if not text.isdecimal() or int(text) == 0:
                raise ConfigurationError(f"{path}: expected the driver's shunt in microohm, got {text!r:.40}")
            return int(text) / 1000
    return 0.0


def _text(path: Path) -> str:
    return path.read_text(errors="replace")


def _update_interval_ns(folder: Path) -> int:
    """The chip's `update_interval` (Documentation/hwmon/sysfs-interface.rst, in ms); 0: its driver does not say."""
    try:
        interval_ms = int(_text(folder / "update_interval"))
    except (OSError, ValueError):
        return 0
    return max(0, min(interval_ms, LONGEST_MS)) * 1_000_000


def _chip(folder: Path) -> str:
    named = folder / "name"
    return _text(named).strip() if named.is_file() else ""


def _channel(rail: RailConfig, folder: Path, shunt_mohm: float, step_nv: float) -> Channel:
    chip = CHIPS.get(_chip(folder), CHIPS["ina226"])
    return Channel.of(
        rail,
        shunt_mohm=shunt_mohm,
        gain=GAIN,
        bus_lsb_uv=1000,
        shunt_lsb_nv=step_nv,
        offset_bound_nv=chip.offset_nv if rail.offset_uv is None else step_nv / 2,
    )
