"""`lab exporter`: the results and the farm for Prometheus, as one long-running process."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final

import typer
from attrs import frozen
from prometheus_client import CollectorRegistry, Metric

from exporters.exposition import Exposition, ResultsSource, Staleness
from exporters.farm.consoles import Consoles
from exporters.farm.disks import Disks
from exporters.farm.jobs import Due, Jobs
from exporters.farm.outlets import Outlets, PduDaemon
from exporters.farm.places import Places
from exporters.farm.rails import Rails
from exporters.farm.usb import RealUdev, Usb, UsbDevice
from exporters.page import Page
from exporters.polling import FreshMetrics, Health, Poller
from exporters.results import ResultsReader
from exporters.server import Server
from exporters.webconfig import check_address, load
from lab.clock import Clock, MonotonicRaw
from lab.console.runtime import runtime_dir
from lab.errors import ConfigurationError
from lab.farm import config, suites
from lab.farm.config import Farm
from lab.results.watch import Watcher, watch
from lab.shown import echo, log_to

DEFAULT_LISTEN: Final = "127.0.0.1:9870"
SWITCH_S: Final = 0.0005  # a scrape must not wait for threads that render or read: a tenth of Python's own interval

app = typer.Typer(help="Results and farm for Prometheus.", no_args_is_help=False)


@frozen
class Sources:
    """Everything that is asked, each by a poller of its own."""

    results: Poller[Page]
    live: list[Poller[list[Metric]]]

    def start(self) -> None:
        """Ask."""
        self.results.start()
        for poller in self.live:
            poller.start()

    def stop(self) -> None:
        """Ask no more."""
        self.results.stop()
        for poller in self.live:
            poller.stop()

    def exposition(self) -> Exposition:
        """What is served."""
        registry = CollectorRegistry(auto_describe=False)
        Staleness(registry, self.results)
        Health(registry, (self.results, *self.live))
        FreshMetrics(registry, self.live)
        return Exposition(self.results, registry)


def sources(watcher: Watcher, runtime: Path, farm: Farm | None, interval_s: float, clock: Clock) -> Sources:
    """What a lab host has to be asked.

    Args:
        farm: what else there is; None: only what every host has.
    """
    schedules = farm.schedules if farm else ()
    due = [
        Due(schedule.board, suites.kind(suite), schedule.interval_s)
        for schedule in schedules
        for suite in suites.expand(schedule.suites)
    ]
    folders = {"artifacts": watcher.location.artifacts.parent, "recordings": runtime.parent}
    if watcher.location.path is not None:
        folders["results"] = watcher.location.path.parent
    live: dict[str, Callable[[], list[Metric]]] = {
        "jobs": Jobs(watcher, due).read,
        "console": Consoles(runtime).read,
        "outlets": Outlets(runtime).read,
        "rails": Rails(runtime).read,
        "disks": Disks(folders).read,
    }
    if farm is not None:
        live["pdudaemon"] = PduDaemon(farm.pdudaemon.address).read
        if farm.coordinator:
            from lab.drivers.coordinator import Coordinator  # noqa: PLC0415 - gRPC takes memory that most hosts save

            live["coordinator"] = Places(Coordinator(farm.coordinator).state).read
        if farm.usb:
            live["usb"] = Usb([UsbDevice(u.name, u.kind, u.id_path) for u in farm.usb], RealUdev()).read
    pollers = [Poller(name, read, interval_s, clock) for name, read in live.items()]
    results = Poller("results", ResultsSource(ResultsReader(watcher)).read, interval_s, clock)
    return Sources(results, pollers)


@app.command()
def exporter(
    *,
    db: Annotated[
        str | None,
        typer.Option("--db", metavar="URL", help="The results (default: farm.yaml's, $LAB_DB, else yours)."),
    ] = None,
    listen: Annotated[
        str | None, typer.Option(metavar="ADDRESS:PORT", help=f"Where to listen [default: {DEFAULT_LISTEN}].")
    ] = None,
    web_config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="TLS and users, as Prometheus' exporter toolkit has it.")
    ] = None,
    farm: Annotated[Path | None, typer.Option(metavar="FILE", help="farm.yaml: what else to watch.")] = None,
    runtime: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The console server's folder (default: as `lab console`).")
    ] = None,
    interval: Annotated[float, typer.Option(min=0.1, metavar="S", help="Seconds between two looks.")] = 15.0,
) -> None:
    """Serve results and farm to Prometheus until SIGTERM or Ctrl-C."""
    host_config = config.load(farm) if farm else None
    from_farm = host_config.exporter if host_config else config.Exporter()
    config_file = web_config or (Path(from_farm.web_config) if from_farm.web_config else None)
    protection = load(config_file) if config_file else None
    host, port = address(listen or from_farm.listen)
    check_address(host, protection)
    log_to(sys.stderr)
    database = db or (host_config.database if host_config else None)
    asked = sources(watch(database), runtime or runtime_dir(), host_config, interval, MonotonicRaw())
    server = Server(host, port, asked.exposition(), protection)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: server.shutdown())
    sys.setswitchinterval(SWITCH_S)
    asked.start()
    echo(f"serving {server.url}")
    try:
        server.serve_forever()
        echo("ending")
    finally:
        server.close()
        asked.stop()


def address(text: str) -> tuple[str, int]:
    """Host and port of 127.0.0.1:9870 or [::1]:9870.

    Raises:
        ConfigurationError: it is none.
    """
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise ConfigurationError(f"--listen {text}: expected ADDRESS:PORT, e.g. {DEFAULT_LISTEN} or [::1]:9870")
    return host.removeprefix("[").removesuffix("]"), int(port)
