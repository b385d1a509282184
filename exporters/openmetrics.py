"""Runs as OpenMetrics: the exporter's names, with each run's number and time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from attrs import define
from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.registry import Collector

from exporters.measurements import FigureMaker, MetricName, clean, name_of
from lab.judge.latest import MEDIUM
from lab.metrics import summarise
from lab.results.listing import Overview


@define(eq=False)
class _Runs(Collector):
    """The numbers of runs as gauges."""

    runs: Sequence[Overview]

    def collect(self) -> Iterable[Metric]:
        maker, families = FigureMaker(), dict[str, Metric]()
        for run in self.runs:
            of_run = {
                "run": str(run.run.id),
                **{name: clean(getattr(run.run, name)) for name in ("board", "board_type", "release")},
            }
            at = run.run.started_at.timestamp()
            for m in run.measurements:
                name, s = name_of(m.metric), summarise(m.samples)
                labels = dict(maker.labels(m.metric, m.params)) | of_run | {MEDIUM: clean(m.params.get(MEDIUM, ""))}
                values = {name.value: s.mean, name.uncertainty: s.uncertainty}
                for family, value in values.items():
                    _family(families, family, name).add_sample(family, labels, value * name.factor, at)
                _family(families, name.samples, name).add_sample(name.samples, labels, s.n, at)
        return families.values()


def _family(families: dict[str, Metric], called: str, name: MetricName) -> Metric:
    if called not in families:
        families[called] = GaugeMetricFamily(called, name.about)
    return families[called]


def openmetrics(runs: Sequence[Overview]) -> str:
    """The numbers of runs in OpenMetrics 1.0, for `promtool tsdb create-blocks-from`."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Runs(runs))
    text: bytes = generate_latest(registry)  # type: ignore[no-untyped-call]
    return text.decode()
