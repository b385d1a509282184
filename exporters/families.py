"""The families of a view of the store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from exporters.figures import Figure, Group, Labels
from exporters.results import View
from exporters.totals import BUCKETS, CycleKey, Tallies
from exporters.verdicts import changes
from lab.metrics import by_name

_BOARD: Final = ("board", "board_type", "release")
_CYCLES: Final = {
    "boot.time": ("boardlab_boot_cycle_duration_seconds", "Boot times of all cycles of all runs."),
    "power.resume_latency": ("boardlab_resume_cycle_latency_seconds", "Resume latencies of all cycles of all runs."),
}


class Results(Collector):
    """A view of the store; set `view` to the newest one."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.view: View | None = None
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        if self.view is None:
            return
        yield from _figures(self.view.groups)
        yield from _of_groups(self.view.groups)
        yield from _changes(self.view.groups)
        yield from _last_runs(self.view)
        yield _attempts(self.view.tallies)
        yield from _histograms(self.view.tallies)
        left_out = GaugeMetricFamily(
            "boardlab_results_left_out", "What the bounds of the number of series left out.", labels=["what"]
        )
        for what, count in self.view.left_out.items():
            left_out.add_metric([what], count)
        yield left_out


def _figures(groups: Iterable[Group]) -> Iterator[Metric]:
    """Value, uncertainty and number of samples of each metric, family by family."""
    by_family: dict[tuple[str, str], list[tuple[Group, Figure]]] = {}
    for group in groups:
        for figure in group.figures:
            by_family.setdefault((figure.metric, figure.name.value), []).append((group, figure))
    for (metric, value), found in sorted(by_family.items()):
        name, about = found[0][1].name, by_name(metric).definition
        values = GaugeMetricFamily(value, f"{about} Latest completed run.")
        uncertainty = GaugeMetricFamily(name.uncertainty, f"± of the average of {value} at 95 %.")
        samples = GaugeMetricFamily(name.samples, f"How many samples {value} has.")
        for group, figure in found:
            labels = _labels(group, figure.labels)
            values.samples += [
                Sample(value, {**labels, "stat": stat}, number)
                for stat, number in zip(figure.stats, figure.values, strict=True)
            ]
            uncertainty.samples.append(Sample(name.uncertainty, labels, figure.uncertainty))
            samples.samples.append(Sample(name.samples, labels, figure.samples))
        yield from (values, uncertainty, samples)


def _of_groups(groups: Iterable[Group]) -> Iterator[Metric]:
    flagged = GaugeMetricFamily(
        "boardlab_flagged_samples", "Samples of the latest completed run that carry a flag.", labels=[]
    )
    duration = GaugeMetricFamily("boardlab_run_duration_seconds", "How long the latest completed run took.", labels=[])
    for group in groups:
        for (metric, flag), count in group.flagged.items():
            labels = {**_labels(group, ()), "metric": metric, "flag": flag}
            flagged.samples.append(Sample(flagged.name, labels, count))
        duration.samples.append(Sample(duration.name, _labels(group, ()), group.duration_s))
    yield from (flagged, duration)


def _changes(groups: Iterable[Group]) -> Iterator[Metric]:
    ratio = GaugeMetricFamily(
        "boardlab_release_change_ratio", "Change of the average from the release before, relative to that.", labels=[]
    )
    regression = GaugeMetricFamily(
        "boardlab_release_regression", "Whether the change makes it worse, by more than both ± and 2 %.", labels=[]
    )
    for change in changes(groups):
        labels = {**_labels(change.group, change.figure.labels), "metric": change.figure.metric}
        ratio.samples.append(Sample(ratio.name, {**labels, "against": change.against}, change.ratio))
        regression.samples.append(Sample(regression.name, labels, float(change.regression)))
    yield from (ratio, regression)


def _labels(group: Group, more: Labels) -> dict[str, str]:
    key = group.key
    own = {"board": key.board, "board_type": key.board_type, "release": key.release, "kind": key.kind}
    return {**own, "medium": key.medium, **dict(more)} if key.medium else {**own, **dict(more)}


def _last_runs(view: View) -> Iterator[Metric]:
    completion = GaugeMetricFamily(
        "boardlab_last_completion_timestamp_seconds",
        "When a run of this kind last ended, well or not.",
        labels=[*_BOARD, "kind"],
    )
    success = GaugeMetricFamily(
        "boardlab_last_success_timestamp_seconds", "When a run of this kind last completed.", labels=[*_BOARD, "kind"]
    )
    for last in view.last_runs:
        labels = [last.board, last.board_type, last.release, last.kind]
        completion.add_metric(labels, last.completion)
        if last.success is not None:
            success.add_metric(labels, last.success)
    yield from (completion, success)


def _attempts(tallies: Tallies) -> Metric:
    attempts = CounterMetricFamily(
        "boardlab_attempts",
        "Attempts by how they ended: ok, or the failure class, and whose fault it was.",
        labels=[*_BOARD, "medium", "outcome", "fault"],
    )
    for key, count in tallies.attempts.items():
        attempts.add_metric([key.board, key.board_type, key.release, key.medium, key.outcome, key.fault], count)
    return attempts


def _histograms(tallies: Tallies) -> Iterator[Metric]:
    for metric, (name, about) in _CYCLES.items():
        extra = ["mode"] if metric == "power.resume_latency" else []
        family = HistogramMetricFamily(name, about, labels=[*_BOARD, "medium", *extra])
        for key, histogram in tallies.cycles.items():
            if key.metric == metric:
                labels = [key.board, key.board_type, key.release, key.medium, *([key.mode] if extra else [])]
                family.add_metric(labels, _cumulated(key, histogram.counts), histogram.total_s)
        yield family


def _cumulated(key: CycleKey, counts: list[int]) -> list[tuple[str, float]]:
    total, found = 0, []
    for bound, count in zip([*(f"{b:g}" for b in BUCKETS[key.metric]), "+Inf"], counts, strict=True):
        total += count
        found.append((str(float(bound)) if bound != "+Inf" else bound, float(total)))
    return found
