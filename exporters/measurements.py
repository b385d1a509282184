"""Exported numbers of a run: statistics in base units.

They are compact, since a thousand boards' are in memory.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final

from attrs import frozen

from lab.judge.latest import MEDIUM, BootVariant
from lab.metrics import Measurement, Metric, Summary, catalogue
from lab.metrics.catalogue import BOOT_STAGE
from lab.metrics.limits import Limit, LimitOutcome, check
from lab.metrics.rates import RATES, FailureRate
from lab.results.sums import SummarisedNumber

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
# Metrics of the catalogue with a better name, or with one quantity for several modes or definitions. Named groups of a
# pattern become labels.
QUANTITIES: Final = (
    (r"boot\.time", "boot_duration"),
    (r"boot\.stage", "boot_stage_duration"),
    (r"lpm\.(?P<mode>\w+)\.resume_(?P<definition>\w+)", "resume_latency"),
    (r"power\.resume_latency", "resume_latency"),
    (r"lpm\.(?P<mode>\w+)\.power_rail|power\.rail", "rail_power"),
    (r"lpm\.(?P<mode>\w+)\.power_total|power\.total", "total_power"),
    (r"lpm\.(?P<mode>\w+)\.energy", "phase_energy"),
    (r"lpm\.(?P<mode>\w+)\.rail_voltage", "rail_voltage"),
)
DETAILED: Final = frozenset({"boot_duration", "resume_latency"})  # have all statistics; the others their average
_SHARED: Final = {
    "resume_latency": "Wake-up time of a board; `definition` names its begin and end.",
    "rail_power": "Mean power of one supply rail in a low-power mode.",
    "total_power": "Mean power of all measured rails in a low-power mode.",
    "phase_energy": "Energy between two moments.",
}
_VENDORS: Final = {"power.resume_latency": (("definition", "kernel"),)}  # the guide defines it on the kernel's clock
_NO_METRIC_NAME: Final = re.compile(r"[^a-z0-9]+")
Labels = tuple[tuple[str, str], ...]


@frozen
class MetricName:
    """Exported name of a metric: boardlab_<quantity>_<base unit>; see docs/farm-metrics.md.

    Attributes:
        quantity: without prefix and unit.
        value, uncertainty: families in the base unit.
        samples: family of the sample count.
        factor: from the store's unit to the base unit.
        labels: parts of the metric's own name.
        about: help text.
        better: "lower" or "higher".
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
    """Exported name of a metric; units outside BASE_UNITS are not converted."""
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
    """Quantity of a metric, and labels of its name's rest."""
    for pattern, quantity in QUANTITIES if catalogue.find(name) is not None else ():  # a lab's own is called as it is
        if match := re.fullmatch(pattern, name):
            named = {key: text for key, text in match.groupdict().items() if text is not None}
            return quantity, (*named.items(), *_VENDORS.get(name, ()))
    return _plain(name), ()


def _plain(name: str) -> str:
    return _NO_METRIC_NAME.sub("_", name.lower()).strip("_")


STATS: Final = ("min", "avg", "median", "p95", "max")
RATE_STATS: Final = ("low", "avg", "high")  # of a failure rate: its interval at 95 %
_STATS: Final = {len(stats): stats for stats in (("avg",), RATE_STATS, STATS)}


@frozen
class RunKey:
    """Identity of the runs of which only the latest is exported.

    Attributes:
        init: of the kernel's command line; empty: the board's own.
    """

    board: str
    board_type: str
    release: str
    kind: str
    medium: str
    init: str = ""


@frozen
class ExportedMeasurement:
    """One measurement.

    Attributes:
        labels: beside those of the group: parts of the metric's name, its version, its parameters.
        values: by `stats`, in the base unit of `name`.
    """

    metric: str
    name: MetricName
    labels: Labels
    samples: int
    uncertainty: float
    values: tuple[float, ...]

    @property
    def stats(self) -> tuple[str, ...]:
        """Names of the values."""
        return _STATS[len(self.values)]


@frozen
class ExportedLimit:
    """The lab's limits of one number that hold for the same statistic.

    Attributes:
        labels: beside those of the group.
        of: "mean", "sample" or "spread".
        bounds: "min" and "max", in the base unit.
        outcome: the worst.
    """

    metric: str
    labels: Labels
    of: str
    bounds: Mapping[str, float]
    outcome: LimitOutcome


@frozen
class LatestRun:
    """Latest completed run of a RunKey.

    Attributes:
        flagged: number of samples by (metric, flag).
        left_out: number of figures above the limit.
        limits: of its numbers.
    """

    key: RunKey
    figures: tuple[ExportedMeasurement, ...]
    flagged: Mapping[tuple[str, str], int]
    duration_s: float
    left_out: int
    limits: tuple[ExportedLimit, ...] = ()


class FigureMaker:
    """Makes figures with shared names, labels and flags.

    A thousand boards have the same few.
    """

    def __init__(self) -> None:
        self._names: dict[Metric, MetricName] = {}
        self._labels: dict[Labels, Labels] = {}
        self._flags: dict[tuple[str, str], tuple[str, str]] = {}

    def figures(self, numbers: Iterable[SummarisedNumber], place: BootVariant) -> tuple[ExportedMeasurement, ...]:
        """Figures of a variant; boot stages come last."""
        summarised = [(n, n.summary) for n in numbers if BootVariant.of(n.params) == place and n.summary]
        summarised.sort(key=lambda pair: pair[0].metric.name == BOOT_STAGE.name)
        return tuple(self._figure(number, summary) for number, summary in summarised)

    def count_flags(self, numbers: Iterable[SummarisedNumber], place: BootVariant) -> dict[tuple[str, str], int]:
        """Number of a variant's flagged samples by (metric, flag)."""
        counts: dict[tuple[str, str], int] = {}
        for number in numbers:
            if BootVariant.of(number.params) != place:
                continue
            for flag, count in number.flagged.items():
                key = (number.metric.name, flag)
                key = self._flags.setdefault(key, key)
                counts[key] = counts.get(key, 0) + count
        return counts

    def rates(
        self, kind: str, found: Iterable[tuple[Mapping[str, str], FailureRate]], place: BootVariant
    ) -> tuple[ExportedMeasurement, ...]:
        """How often the board failed, of a variant."""
        metric = RATES.get(kind)
        if metric is None:
            return ()
        name = self._name(metric)
        exported = []
        for params, rate in found:
            if BootVariant.of(params) != place:
                continue
            low, high = (percent * name.factor for percent in rate.interval_percent)
            labels = self._labels_of(name, metric, params)
            values = (low, rate.percent * name.factor, high)
            exported.append(ExportedMeasurement(metric.name, name, labels, rate.tried, (high - low) / 2, values))
        return tuple(exported)

    def limits(
        self, measurements: Iterable[Measurement], limits: Mapping[str, Sequence[Limit]], place: BootVariant
    ) -> tuple[ExportedLimit, ...]:
        """The limits of a variant's numbers; the tightest for each statistic."""
        tightest: dict[tuple[str, Labels, str], ExportedLimit] = {}
        severity = list(LimitOutcome)
        for m in measurements:
            if BootVariant.of(m.params) != place or not limits.get(m.metric.name):
                continue
            name = self._name(m.metric)
            for limit_check in check(limits[m.metric.name], m.samples):
                key = m.metric.name, self._labels_of(name, m.metric, m.params), str(limit_check.limit.of)
                before = tightest.get(key, ExportedLimit(*key, {}, LimitOutcome.PASS))
                bounds = dict(before.bounds)
                for bound, value, tighter in zip(("min", "max"), limit_check.limit.bounds, (max, min), strict=True):
                    if math.isfinite(value):
                        bounds[bound] = tighter(value * name.factor, bounds.get(bound, value * name.factor))
                tightest[key] = ExportedLimit(
                    *key, bounds, max(before.outcome, limit_check.outcome, key=severity.index)
                )
        return tuple(tightest.values())

    def labels(self, metric: Metric, params: Mapping[str, str]) -> Labels:
        """Labels of a metric's number with these parameters."""
        return self._labels_of(self._name(metric), metric, params)

    def _name(self, metric: Metric) -> MetricName:
        if metric not in self._names:
            self._names[metric] = name_of(metric)
        return self._names[metric]

    def _figure(self, number: SummarisedNumber, summary: Summary) -> ExportedMeasurement:
        metric = number.metric
        name = self._name(metric)
        detailed = (summary.min, summary.mean, summary.median, summary.p95, summary.max)
        values = detailed if name.quantity in DETAILED else (summary.mean,)
        return ExportedMeasurement(
            metric.name,
            name,
            self._labels_of(name, metric, number.params),
            summary.n,
            summary.uncertainty * name.factor,
            tuple(value * name.factor for value in values),
        )

    def _labels_of(self, name: MetricName, metric: Metric, params: Mapping[str, str]) -> Labels:
        named = {label_name(key): clean(params[key]) for key in params.keys() - {MEDIUM}}
        named |= {**dict(name.labels), "version": str(metric.version)}
        labels = tuple(sorted(named.items()))
        return self._labels.setdefault(labels, labels)


LONGEST_VALUE: Final = 100  # characters
RESERVED: Final = frozenset(
    {
        *("board", "board_type", "medium", "release", "metric", "stat", "definition", "flag", "kind", "against"),
        *("version", "run"),
    }
)
_TAKEN: Final = frozenset({"le", "quantile", "job", "instance"})  # by Prometheus
_NAME: Final = re.compile(r"(?!__|param_)[A-Za-z_][A-Za-z0-9_]*")
_NO_NAME: Final = re.compile(r"[^A-Za-z0-9]+")
_DIGEST: Final = 8  # hexadecimal digits


@lru_cache(1 << 16)
def clean(value: str) -> str:
    """A printable label value in one line, up to LONGEST_VALUE characters.

    Control characters, also those that begin a terminal's escape sequences, and lone surrogates become "?". A digest
    keeps a changed value apart from those that are alike otherwise.
    """
    text = "".join(c if c.isprintable() else "?" for c in value[: LONGEST_VALUE + 1])
    if text == value and len(text) <= LONGEST_VALUE:
        return text
    return f"{text[: LONGEST_VALUE - _DIGEST - 1]}…{_digest(value)}"


def label_name(name: str) -> str:
    """A label's name for a parameter.

    `param_` precedes a name that is taken here, and a changed one, which ends in a digest.
    """
    if name in RESERVED | _TAKEN:
        return f"param_{name}"
    if _NAME.fullmatch(name) and len(name) <= LONGEST_VALUE:
        return name
    plain = _NO_NAME.sub("_", name)[: LONGEST_VALUE - _DIGEST - 1].strip("_")
    return "_".join(["param", *([plain] if plain else []), _digest(name)])


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:_DIGEST]
