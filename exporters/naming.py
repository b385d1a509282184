"""How a metric of the catalogue is called in Prometheus: boardlab_<quantity>_<base unit>; see docs/farm-metrics.md."""

from __future__ import annotations

import re
from typing import Final

from attrs import frozen

from lab.metrics import Metric

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
# Metrics of the catalogue that have a better name, or are one quantity for several modes or definitions. What a pattern
# names becomes a label.
QUANTITIES: Final = (
    (r"boot\.time", "boot_duration"),
    (r"boot\.stage", "boot_stage_duration"),
    (r"lpm\.(?P<mode>\w+)\.resume_(?P<definition>\w+)", "resume_latency"),
    (r"power\.resume_latency", "resume_latency"),
    (r"lpm\.(?P<mode>\w+)\.power_rail|power\.rail", "rail_power"),
    (r"lpm\.(?P<mode>\w+)\.power_total|power\.total", "total_power"),
    (r"lpm\.(?P<mode>\w+)\.energy", "phase_energy"),
    (r"lpm\.(?P<mode>\w+)\.rail_voltage", "rail_voltage"),
    (r"(?:\w+\.)*(?:phase_)?energy", "phase_energy"),
)
DETAILED: Final = frozenset({"boot_duration", "resume_latency"})  # have all statistics; the others their average
_SHARED: Final = {
    "resume_latency": "How long a board takes to wake up; `definition` says from where to where.",
    "rail_power": "Mean power of one supply rail in a low-power mode.",
    "total_power": "Mean power of all measured rails in a low-power mode.",
    "phase_energy": "Energy between two moments.",
}
_VENDORS: Final = {
    "power.resume_latency": (("definition", "kernel"),)
}  # by its text it is the one on the kernel's clock
_NO_NAME: Final = re.compile(r"[^a-z0-9]+")
Labels = tuple[tuple[str, str], ...]


@frozen
class MetricName:
    """How a metric is called.

    Attributes:
        quantity: without prefix and unit.
        value, uncertainty: families in the base unit. samples: how many samples.
        factor: from the store's unit to the base unit.
        labels: what the metric's own name says.
        about: for people. better: "lower" or "higher".
    """

    quantity: str
    value: str
    uncertainty: str
    samples: str
    factor: float
    labels: Labels
    about: str
    better: str


def name_of(metric: Metric) -> MetricName:
    """The name of a metric; a unit that is not in BASE_UNITS is spelt out and not converted."""
    base, factor = BASE_UNITS.get(metric.unit, (_plain(metric.unit), 1.0))
    quantity, labels = quantity_of(metric.name)
    stem, suffix = f"{PREFIX}_{quantity}", f"_{base}" if base else ""
    return MetricName(
        quantity,
        f"{stem}{suffix}",
        f"{stem}_uncertainty{suffix}",
        f"{stem}_samples",
        factor,
        labels,
        _SHARED.get(quantity, metric.definition),
        metric.better,
    )


def quantity_of(name: str) -> tuple[str, Labels]:
    """The quantity of the metric of that name, and what the name says beyond it."""
    for pattern, quantity in QUANTITIES:
        if match := re.fullmatch(pattern, name):
            named = {key: text for key, text in match.groupdict().items() if text is not None}
            return quantity, (*named.items(), *_VENDORS.get(name, ()))
    return _plain(name), ()


def _plain(name: str) -> str:
    return _NO_NAME.sub("_", name.lower()).strip("_")
