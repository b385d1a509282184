"""The exporter's server with some numbers, in a thread."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import requests
from prometheus_client import CollectorRegistry, Gauge

from exporters import server
from exporters.poller import Poller
from exporters.server import ExporterServer, Exposition
from exporters.server import Exposition as Served
from lab.host.clock import MonotonicRaw
from lab.http.web_config import WebConfig


def exposition(series: int = 3) -> Exposition:
    """So many series of the results, and one that is live."""
    registry, live = CollectorRegistry(), CollectorRegistry()
    gauge = Gauge("boardlab_number", "A number.", ["n"], registry=registry)
    for n in range(series):
        gauge.labels(str(n)).set(n)
    Gauge("boardlab_live", "Another.", registry=live).set(7)
    results = Poller("results", lambda: server.render(registry.collect()), 1.0, MonotonicRaw())
    results.poll()
    return Exposition(results, live)


@contextlib.contextmanager
def serving(
    config: WebConfig | None = None, host: str = "127.0.0.1", series: int = 3, served: Served | None = None
) -> Iterator[str]:
    """The URL of a server; `served`: other metrics than so many series."""
    server = ExporterServer(host, 0, served or exposition(series), config)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.url
    finally:
        server.shutdown()
        thread.join()
        server.close()


def get(url: str, **options: Any) -> requests.Response:
    """Ask, past all proxies."""
    with requests.Session() as session:
        session.trust_env = False
        return session.get(url, timeout=10, **options)
