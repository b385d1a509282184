"""Pollers of a lab host's metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from attrs import field, frozen
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily
from prometheus_client.registry import Collector

from exporters.farm.boards import Healths, Jobs
from exporters.farm.host import (
    ConsoleCollector,
    Disks,
    Outlets,
    PduDaemonProbe,
    RailsCollector,
    RealUdev,
    Sizes,
    Usb,
    UsbDevice,
)
from exporters.farm.places import PlaceCollector
from exporters.farm.schedules import Backups, ScheduledRun, Schedules
from exporters.metrics import StandingMetrics
from exporters.poller import Poller
from exporters.results import ResultsReader
from exporters.server import Exposition, Page, ResultsSource
from lab.health import DEFAULT_RULE, QuarantineRule
from lab.host.clock import Clock
from lab.judge.known_failures import KnownFailure
from lab.judge.text import EvidenceLinks
from lab.results.snapshot import SnapshotReader

_SIZES_S: Final = 600.0  # between two looks at all artifacts' rows


@frozen
class OptionalSources:
    """Optional sources of a host.

    Attributes:
        due: scheduled runs.
        pdudaemon, coordinator: their addresses; empty: none.
        usb: required devices.
        evidence: address of runs' reports.
        rule: of boards' health.
        reference: the reference board; empty: none.
        boards: reads the boards' states; None: nothing does.
        known_failures: the lab's known failures.
        backup: farm.yaml wants backups.
    """

    due: Sequence[ScheduledRun] = ()
    pdudaemon: str = ""
    coordinator: str = ""
    usb: Sequence[UsbDevice] = ()
    evidence: EvidenceLinks = field(factory=lambda: EvidenceLinks(""))
    rule: QuarantineRule = DEFAULT_RULE
    reference: str = ""
    boards: Callable[[], list[Metric]] | None = None
    known_failures: Sequence[KnownFailure] = ()
    backup: bool = False


@frozen
class Sources:
    """Pollers of a host.

    Attributes:
        results: None: another host of the farm has them.
    """

    results: Poller[Page] | None
    live: list[Poller[list[Metric]]]

    def start(self) -> None:
        """Start polling."""
        for poller in self._all:
            poller.start()

    def stop(self) -> None:
        """Stop polling."""
        for poller in self._all:
            poller.stop()

    def exposition(self) -> Exposition:
        """Exposition of all pollers."""
        registry = CollectorRegistry(auto_describe=False)
        if self.results is not None:
            Staleness(registry, self.results)
        ExporterBuild(registry)
        SourceHealth(registry, self._all)
        FreshMetrics(registry, self.live)
        return Exposition(self.results, registry)

    @property
    def _all(self) -> list[Poller[Page] | Poller[list[Metric]]]:
        return [*([] if self.results is None else [self.results]), *self.live]


def sources(
    watcher: SnapshotReader, runtime: Path, optional: OptionalSources, interval_s: float, clock: Clock
) -> Sources:
    """Pollers of a lab host with results."""
    folders = {"artifacts": watcher.location.artifacts.parent, "recordings": runtime.parent}
    if watcher.location.path is not None:
        folders["results"] = watcher.location.path.parent
    standing = StandingMetrics(watcher, optional.evidence, optional.known_failures)
    live: dict[str, Callable[[], list[Metric]]] = {
        "jobs": Jobs(watcher).read,
        "health": Healths(watcher, optional.rule, optional.reference).read,
        "failures": standing.failures,
        "verdicts": standing.verdicts,
        **_of_host(runtime, folders, optional),
    }
    if optional.boards is not None:
        live["boards"] = optional.boards
    if optional.backup:
        live["backup"] = Backups(watcher).read
    if optional.due:
        live["schedules"] = Schedules(watcher, list(optional.due)).read
    pollers = [Poller(name, read, interval_s, clock) for name, read in live.items()]
    results = Poller(
        "results",
        ResultsSource(ResultsReader(watcher, known_failures=optional.known_failures)).read,
        interval_s,
        clock,
    )
    pollers.append(Poller("sizes", Sizes(watcher).read, max(interval_s, _SIZES_S), clock))
    return Sources(results, pollers)


def host_sources(data: Path, runtime: Path, optional: OptionalSources, interval_s: float, clock: Clock) -> Sources:
    """Pollers of a farm's host without results.

    Args:
        data: folder of its artifacts, which need not exist yet.
    """
    there = next((path for path in (data, *data.parents) if path.exists()), Path("/"))
    live = _of_host(runtime, {"artifacts": there, "recordings": runtime.parent}, optional)
    return Sources(None, [Poller(name, read, interval_s, clock) for name, read in live.items()])


def _of_host(
    runtime: Path, folders: Mapping[str, Path], optional: OptionalSources
) -> dict[str, Callable[[], list[Metric]]]:
    """Sources of every host, with or without results."""
    live: dict[str, Callable[[], list[Metric]]] = {
        "console": ConsoleCollector(runtime).read,
        "outlets": Outlets(runtime).read,
        "rails": RailsCollector(runtime).read,
        "disks": Disks(folders).read,
    }
    if optional.pdudaemon:
        live["pdudaemon"] = PduDaemonProbe(optional.pdudaemon).read
    if optional.coordinator:
        from lab.places.coordinator import Coordinator  # noqa: PLC0415 - gRPC takes memory that most hosts save

        live["coordinator"] = PlaceCollector(Coordinator(optional.coordinator).state).read
    if optional.usb:
        live["usb"] = Usb(list(optional.usb), RealUdev()).read
    return live


class FreshMetrics(Collector):
    """Collector of sources' current metrics; those down have none."""

    def __init__(self, registry: CollectorRegistry, sources: Sequence[Poller[list[Metric]]]) -> None:
        self._sources = sources
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        for source in self._sources:
            if source.fresh and source.latest is not None:
                yield from source.latest


class SourceHealth(Collector):
    """Collector of the sources' state."""

    def __init__(self, registry: CollectorRegistry, sources: Sequence[Poller[Any]]) -> None:
        self._sources = sources
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        up = GaugeMetricFamily("boardlab_collector_up", "1: this source answers.", labels=["collector"])
        last = GaugeMetricFamily(
            "boardlab_collector_last_success_timestamp_seconds",
            "Time of this source's last answer; 0: never.",
            labels=["collector"],
        )
        took = GaugeMetricFamily(
            "boardlab_collector_duration_seconds", "Duration of its last answer.", labels=["collector"]
        )
        for source in self._sources:
            up.add_metric([source.name], float(source.fresh))
            last.add_metric([source.name], source.answered_at)
            took.add_metric([source.name], source.duration_s)
        yield from (up, last, took)


class Staleness(Collector):
    """Gauge of 1 while the store is away and its results outdated."""

    def __init__(self, registry: CollectorRegistry, results: Poller[Page]) -> None:
        self._results = results
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        stale = GaugeMetricFamily(
            "boardlab_results_stale",
            "1: the store cannot be read, and all results are as of the last success of the collector `results`.",
        )
        stale.add_metric([], float(not self._results.fresh))
        yield stale


class ExporterBuild(Collector):
    """Collector of boardlab's version."""

    def __init__(self, registry: CollectorRegistry) -> None:
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        build = InfoMetricFamily("boardlab_exporter", "The version of boardlab that exports.")
        build.add_metric([], {"version": version("boardlab")})
        yield build
