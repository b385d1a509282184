"""What a scrape gets: the page of the results as it was rendered last, and what is true at this moment."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from importlib.metadata import version

from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily
from prometheus_client.registry import Collector

from exporters import page
from exporters.families import Results
from exporters.page import Page
from exporters.polling import Poller
from exporters.results import ResultsReader


class ResultsSource:
    """Renders the results when the store is read, so that a scrape only has to hand them on."""

    def __init__(self, reader: ResultsReader) -> None:
        self._reader = reader
        self._registry = CollectorRegistry(auto_describe=False)
        self._results = Results(self._registry)
        self._page = page.EMPTY

    def read(self) -> Page:
        """The page of what the store says now; the one of before where that has not changed.

        Raises:
            BoardlabError: it cannot be read.
        """
        view = self._reader.read()
        if view != self._results.view:
            self._results.view = view
            self._page = page.render(self._registry.collect())
        return self._page


class Staleness(Collector):
    """Whether the results are of now. They stay while the store is away, and this says so."""

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


class Build(Collector):
    """Which boardlab this is."""

    def __init__(self, registry: CollectorRegistry) -> None:
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        build = InfoMetricFamily("boardlab_exporter", "The version of boardlab that exports.")
        build.add_metric([], {"version": version("boardlab")})
        yield build


class Exposition:
    """All metrics; see exporters.server.ExpositionProtocol."""

    def __init__(self, results: Poller[Page] | None, live: CollectorRegistry) -> None:
        """results: None: of a host that has none."""
        self._results = results
        self._live = live

    @property
    def _head(self) -> Page:
        return (self._results and self._results.latest) or page.EMPTY

    def gzipped(self) -> bytes:
        """All metrics, compressed."""
        return self._head.gzipped(generate_latest(self._live))

    def plain(self) -> tuple[int, Iterable[bytes]]:
        """All metrics: length in bytes, and pieces of it."""
        head, tail = self._head, generate_latest(self._live)
        return head.length + len(tail), itertools.chain(head.pieces(), [tail])
