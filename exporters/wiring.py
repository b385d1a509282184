"""What a lab host is asked for its metrics, each by a poller of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from attrs import field, frozen
from prometheus_client import CollectorRegistry, Metric

from exporters.families import StandingFailures, StandingVerdicts
from exporters.farm.consoles import (
    ConsoleCollector,
    Disks,
    Outlets,
    PduDaemonProbe,
    RailsCollector,
    RealUdev,
    Usb,
    UsbDevice,
)
from exporters.farm.health import Healths, Jobs
from exporters.farm.places import PlaceCollector
from exporters.farm.schedules import Due, Schedules
from exporters.polling import FreshMetrics, Poller, SourceHealth
from exporters.results import ResultsReader
from exporters.server import ExporterBuild, Exposition, Page, ResultsSource, Staleness
from lab.health import DEFAULT_RULE, QuarantineRule
from lab.host.clock import Clock
from lab.judge.text import EvidenceLinks
from lab.results.snapshot import SnapshotReader


@frozen
class Watched:
    """What there is on a host beside its results, consoles, outlets, rails and disks.

    Attributes:
        due: what is to be measured, and how often. pdudaemon, coordinator: where they listen; empty: there is none.
        usb: the devices that must be plugged in. evidence: where runs' reports are. rule: of boards' health.
        reference: the board that is checked first each night; empty: there is none.
    """

    due: Sequence[Due] = ()
    pdudaemon: str = ""
    coordinator: str = ""
    usb: Sequence[UsbDevice] = ()
    evidence: EvidenceLinks = field(factory=lambda: EvidenceLinks(""))
    rule: QuarantineRule = DEFAULT_RULE
    reference: str = ""


@frozen
class Sources:
    """Everything that is asked, each by a poller of its own.

    Attributes:
        results: None: another host of the farm has them.
    """

    results: Poller[Page] | None
    live: list[Poller[list[Metric]]]

    def start(self) -> None:
        """Ask."""
        for poller in self._all:
            poller.start()

    def stop(self) -> None:
        """Ask no more."""
        for poller in self._all:
            poller.stop()

    def exposition(self) -> Exposition:
        """What is served."""
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


def sources(watcher: SnapshotReader, runtime: Path, watched: Watched, interval_s: float, clock: Clock) -> Sources:
    """What a lab host has to be asked."""
    folders = {"artifacts": watcher.location.artifacts.parent, "recordings": runtime.parent}
    if watcher.location.path is not None:
        folders["results"] = watcher.location.path.parent
    live: dict[str, Callable[[], list[Metric]]] = {
        "jobs": Jobs(watcher).read,
        "health": Healths(watcher, watched.rule, watched.reference).read,
        "failures": StandingFailures(watcher, watched.evidence).read,
        "verdicts": StandingVerdicts(watcher, watched.evidence).read,
        **_of_host(runtime, folders, watched),
    }
    if watched.due:
        live["schedules"] = Schedules(watcher, list(watched.due)).read
    pollers = [Poller(name, read, interval_s, clock) for name, read in live.items()]
    results = Poller("results", ResultsSource(ResultsReader(watcher)).read, interval_s, clock)
    return Sources(results, pollers)


def host_sources(data: Path, runtime: Path, watched: Watched, interval_s: float, clock: Clock) -> Sources:
    """What a host of a farm has to be asked whose results another host has.

    Args:
        data: where it keeps artifacts; as long as that is not there, the folder that it will be made in.
    """
    there = next((path for path in (data, *data.parents) if path.exists()), Path("/"))
    live = _of_host(runtime, {"artifacts": there, "recordings": runtime.parent}, watched)
    return Sources(None, [Poller(name, read, interval_s, clock) for name, read in live.items()])


def _of_host(runtime: Path, folders: Mapping[str, Path], watched: Watched) -> dict[str, Callable[[], list[Metric]]]:
    """What each host has, whoever has the results."""
    live: dict[str, Callable[[], list[Metric]]] = {
        "console": ConsoleCollector(runtime).read,
        "outlets": Outlets(runtime).read,
        "rails": RailsCollector(runtime).read,
        "disks": Disks(folders).read,
    }
    if watched.pdudaemon:
        live["pdudaemon"] = PduDaemonProbe(watched.pdudaemon).read
    if watched.coordinator:
        from exporters.farm.coordinator import Coordinator  # noqa: PLC0415 - gRPC takes memory that most hosts save

        live["coordinator"] = PlaceCollector(Coordinator(watched.coordinator).state).read
    if watched.usb:
        live["usb"] = Usb(list(watched.usb), RealUdev()).read
    return live
