"""The numbers of a run as they are exposed: statistics in base units, small enough to keep a thousand boards' in memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Self

from attrs import frozen

from exporters.labels import clean, label_name
from exporters.naming import DETAILED, Labels, MetricName, name_of
from lab.metrics import Measurement, Metric, Summary, summarise
from lab.metrics.catalogue import BOOT_STAGE

STATS: Final = ("min", "avg", "median", "p95", "max")
MEDIUM: Final = "medium"
INIT: Final = "init"


@frozen
class BootVariant:
    """What of a run is replaced by a later run on its own: the numbers of one medium, with one init."""

    medium: str
    init: str = ""

    @classmethod
    def of(cls, params: Mapping[str, str]) -> Self:
        """Where a number with these parameters belongs."""
        return cls(params.get(MEDIUM, ""), params.get(INIT, ""))


@frozen
class RunKey:
    """What has one latest run: its numbers replace those of earlier runs.

    Attributes:
        init: what the kernel was told to run; empty: the board's own.
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
        labels: those that the group does not have: what the metric's name says, its version, its parameters.
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
        """What the values are."""
        return STATS if len(self.values) == len(STATS) else ("avg",)


@frozen
class LatestRun:
    """The latest completed run of a board, type, release, kind, medium and init.

    Attributes:
        flagged: (metric, flag) -> how many samples have it.
        left_out: how many figures were too many.
    """

    key: RunKey
    figures: tuple[ExportedMeasurement, ...]
    flagged: Mapping[tuple[str, str], int]
    duration_s: float
    left_out: int


class FigureMaker:
    """Makes figures; equal names, labels and flags are kept once, since a thousand boards have the same few."""

    def __init__(self) -> None:
        self._names: dict[Metric, MetricName] = {}
        self._labels: dict[Labels, Labels] = {}
        self._flags: dict[tuple[str, str], tuple[str, str]] = {}

    def figures(self, measurements: Iterable[Measurement], place: BootVariant) -> tuple[ExportedMeasurement, ...]:
        """The figures of this place's measurements; a stage comes after what it is a part of."""
        wanted = [m for m in measurements if BootVariant.of(m.params) == place and m.samples]
        return tuple(self._figure(m) for m in sorted(wanted, key=lambda m: m.metric.name == BOOT_STAGE.name))

    def flagged(self, measurements: Iterable[Measurement], place: BootVariant) -> dict[tuple[str, str], int]:
        """(metric, flag) -> how many samples of this place's have the flag."""
        found: dict[tuple[str, str], int] = {}
        for measurement in measurements:
            if BootVariant.of(measurement.params) != place:
                continue
            for flag in (flag for sample in measurement.samples for flag in sample.flags):
                key = (measurement.metric.name, str(flag))
                key = self._flags.setdefault(key, key)
                found[key] = found.get(key, 0) + 1
        return found

    def labels(self, metric: Metric, params: Mapping[str, str]) -> Labels:
        """The labels of a number of that metric with these parameters."""
        return self._labels_of(self._name(metric), metric, params)

    def _name(self, metric: Metric) -> MetricName:
        if metric not in self._names:
            self._names[metric] = name_of(metric)
        return self._names[metric]

    def _figure(self, measurement: Measurement) -> ExportedMeasurement:
        metric = measurement.metric
        name = self._name(metric)
        summary = summarise(measurement.samples)
        return ExportedMeasurement(
            metric.name,
            name,
            self._labels_of(name, metric, measurement.params),
            summary.n,
            summary.uncertainty * name.factor,
            _values(summary, name.factor, detailed=name.quantity in DETAILED),
        )

    def _labels_of(self, name: MetricName, metric: Metric, params: Mapping[str, str]) -> Labels:
        named = {label_name(key): clean(text) for key, text in params.items() if key != MEDIUM}
        named |= {**dict(name.labels), "version": str(metric.version)}
        labels = tuple(sorted(named.items()))
        return self._labels.setdefault(labels, labels)


def _values(summary: Summary, factor: float, *, detailed: bool) -> tuple[float, ...]:
    if not detailed:
        return (summary.mean * factor,)
    return tuple(value * factor for value in (summary.min, summary.mean, summary.median, summary.p95, summary.max))
