"""How a metric of the catalogue is called in Prometheus: boardlab_<quantity>_<base unit>; see docs/farm-metrics.md."""

from __future__ import annotations

import re
from typing import Final

from attrs import frozen

PREFIX: Final = "boardlab"

# Unit of the store -> base unit of Prometheus (prometheus.io/docs/practices/naming) and the factor to it.
BASE_UNITS: Final[dict[str, tuple[str, float]]] = {
    "": ("", 1.0),
    "s": ("seconds", 1.0),
    "ms": ("seconds", 1e-3),
    "us": ("seconds", 1e-6),
    "ns": ("seconds", 1e-9),
    "%": ("ratio", 1e-2),
    "1/s": ("per_second", 1.0),
    "B": ("bytes", 1.0),
    "kB/s": ("bytes_per_second", 1e3),
    "KiB/s": ("bytes_per_second", 1024.0),
    "MB/s": ("bytes_per_second", 1e6),
    "MiB/s": ("bytes_per_second", 1024.0**2),
    "bit/s": ("bytes_per_second", 1 / 8),
    "Mbit/s": ("bytes_per_second", 1e6 / 8),
    "frames": ("frames", 1.0),
    "frames/s": ("frames_per_second", 1.0),
    "files": ("files", 1.0),
    "kpacket/s": ("packets_per_second", 1e3),
    "kflop/s": ("flop_per_second", 1e3),
    "MIPS": ("instructions_per_second", 1e6),
    "DMIPS/MHz": ("dmips_per_megahertz", 1.0),  # the name of the figure
    "MHz": ("hertz", 1e6),
    "Hz": ("hertz", 1.0),
    "W": ("watts", 1.0),
    "mW": ("watts", 1e-3),
    "uW": ("watts", 1e-6),
    "J": ("joules", 1.0),
    "mJ": ("joules", 1e-3),
    "V": ("volts", 1.0),
    "mV": ("volts", 1e-3),
    "A": ("amperes", 1.0),
    "mA": ("amperes", 1e-3),
    "degC": ("celsius", 1.0),
}
# Where the catalogue's name is not what a person would look for.
QUANTITIES: Final = {
    "boot.time": "boot_duration",
    "boot.stage": "boot_stage_duration",
    "power.rail": "rail_power",
    "power.total": "total_power",
    "power.resume_latency": "resume_latency",
    "power.phase_energy": "phase_energy",
}
DETAILED: Final = frozenset({"boot.time", "power.resume_latency"})  # have all statistics; the others their average
_NO_NAME: Final = re.compile(r"[^a-z0-9]+")


@frozen
class Name:
    """The families of a metric.

    Attributes:
        value, uncertainty: in the base unit. samples: how many samples.
        factor: from the store's unit to the base unit.
    """

    value: str
    uncertainty: str
    samples: str
    factor: float


def name_of(metric: str, unit: str) -> Name:
    """The names of a metric with that unit; a unit that is not in BASE_UNITS is spelt out and not converted."""
    base, factor = BASE_UNITS.get(unit, (_plain(unit), 1.0))
    quantity = f"{PREFIX}_{QUANTITIES.get(metric) or _plain(metric)}"
    suffix = f"_{base}" if base else ""
    return Name(f"{quantity}{suffix}", f"{quantity}_uncertainty{suffix}", f"{quantity}_samples", factor)


def _plain(name: str) -> str:
    return _NO_NAME.sub("_", name.lower()).strip("_")
