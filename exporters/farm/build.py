"""Short ways to families."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from exporters.measurements import clean

LabelledValue = tuple[Sequence[str], float]  # values of the labels, value


def gauge(name: str, about: str, labels: Sequence[str], rows: Iterable[LabelledValue]) -> Metric:
    """A family of gauges; the labels' values are cleaned."""
    return _fill(GaugeMetricFamily(name, about, labels=labels), rows)


def counter(name: str, about: str, labels: Sequence[str], rows: Iterable[LabelledValue]) -> Metric:
    """A family of counters, named without `_total`; the labels' values are cleaned."""
    return _fill(CounterMetricFamily(name, about, labels=labels), rows)


def _fill(family: GaugeMetricFamily | CounterMetricFamily, rows: Iterable[LabelledValue]) -> Metric:
    for labels, value in rows:
        family.add_metric([clean(label) for label in labels], value)
    return family
