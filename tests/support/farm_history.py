"""A week of a farm as Prometheus would have scraped it: real stores, real collectors, every twelve hours a page.

A week cannot be waited for, so the pages become Prometheus' blocks by promtool. What only a running Prometheus makes, the
series ALERTS, is written as it writes them; the rules themselves are proved elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from attrs import evolve
from prometheus_client import CollectorRegistry, Metric
from sqlalchemy import create_engine

from exporters.farm import host
from exporters.farm.boards import Jobs, families
from exporters.farm.host import Disks, Outlets, RailsCollector, Usb, UsbDevice
from exporters.farm.places import PlaceCollector
from exporters.farm.schedules import ScheduledRun, Schedules
from exporters.metrics import StandingMetrics
from exporters.poller import Poller
from exporters.results import ResultsReader
from exporters.server import Exposition, ResultsSource
from exporters.sources import ExporterBuild, FreshMetrics, SourceHealth, Staleness
from lab.cli.exporter import export_boards
from lab.errors import LabTransientError
from lab.farm.services import HostFile
from lab.farm.status import boards_of
from lab.host import status_files
from lab.host.clock import MonotonicRaw
from lab.host.status_files import OutletStatus, RailStatus
from lab.judge.latest import LatestJudge
from lab.judge.records import NewVerdict
from lab.judge.store import write_verdicts
from lab.judge.text import EvidenceLinks
from lab.metrics import by_name
from lab.places.records import CoordinatorState, PlaceRow
from lab.results import open_store
from lab.results.listing import LatestEnded
from lab.results.snapshot import watch
from support.farm_scrape import PORT, SERVER, Plugs
from support.made_farm import (
    FAILURE,
    MEDIUM,
    REGRESSED,
    STEP_S,
    TYPE,
    WEEK_S,
    Farm,
    Ids,
    define,
    night,
    nights,
    when,
)

__all__ = ["FAILURE", "MEDIUM", "REGRESSED", "STEP_S", "TYPE", "Farm", "pages"]


def pages(farm: Farm, folder: Path) -> Iterator[list[str]]:
    """The lines of each page of a week, the oldest first, in OpenMetrics' format without the last line, `# EOF`."""
    url = f"sqlite:///{folder}/results.db"
    open_store(url).close()
    engine = create_engine(url)
    define(engine)
    waiting = nights(farm.now)
    ids, registry = Ids(), CollectorRegistry(auto_describe=False)
    plugs, state = Plugs(*(f"usb-0:{n}" for n in range(farm.boards))), {"at": 0.0, "trouble": False}
    results = Poller("results", ResultsSource(ResultsReader(watch(url))).read, 1e9, MonotonicRaw())
    live = [
        Poller(name, read, 1e9, MonotonicRaw()) for name, read in _sources(farm, folder, url, plugs, state).items()
    ]
    Staleness(registry, results)
    ExporterBuild(registry)
    SourceHealth(registry, (results, *live))
    FreshMetrics(registry, live)
    own = f'instance="127.0.0.1:9870",job="{farm.name}"'
    for at in range(int(farm.now) - WEEK_S, int(farm.now) + 1, STEP_S):
        while waiting and waiting[0][0] <= at:
            night(engine, farm, ids, *waiting.pop(0), last=not waiting)
            if farm.trouble and not waiting:
                _judged(url, farm)
        state.update(at=at, trouble=farm.trouble and at == int(farm.now))
        if state["trouble"]:
            plugs.plugged.remove(f"usb-0:{63 % farm.boards}")
            results.read = _unreadable
        for poller in (results, *live):
            poller.poll()
            poller.answered_at = at - 1.0 if poller.fresh else at - STEP_S
        _, pieces = Exposition(results, registry).plain()
        lines = b"".join(pieces).decode().splitlines()
        page = [_scraped(line, own, at) for line in lines if line and not line.startswith("#")]
        yield page + (list(_alerts(farm, at)) if state["trouble"] else [])
    engine.dispose()


def _judged(url: str, farm: Farm) -> None:
    """What the judge of histories said of the board that got slower."""
    with open_store(url) as store:
        run = max(run.id for run in store.runs() if (run.board, run.kind) == (farm.slower, "boot"))
        version = by_name(REGRESSED).version
        write_verdicts(
            store, run, [NewVerdict(REGRESSED, version, {"medium": MEDIUM}, "regression", 1, run, 20, 0.12, 0.1, 0.14)]
        )


def _scraped(line: str, own: str, at: int) -> str:
    series, _, value = line.rpartition(" ")
    name, brace, rest = series.partition("{")
    return f"{name}{{{own}{',' if brace else '}'}{rest} {value} {at}"


def _alerts(farm: Farm, at: int) -> Iterator[str]:
    own = f'instance="127.0.0.1:9870",job="{farm.name}",alertstate="firing",severity="ticket"'
    for labels in (
        f'alertname="BoardlabAttemptFailed",board="{farm.failed}",board_type="{TYPE}",release="11.01",outcome="{FAILURE}",cause="",state="at_times"',
        f'alertname="BoardlabAdapterGone",device="{farm.gone}",kind="adapter",id_path="usb-0:{63 % farm.boards}"',
        'alertname="BoardlabResultsStale"',
    ):
        yield f"ALERTS{{{labels},{own}}} 1 {at}"


def _unreadable() -> Any:
    raise LabTransientError("the store is locked")


def _sources(farm: Farm, folder: Path, url: str, plugs: Plugs, state: Mapping[str, Any]) -> dict[str, Any]:
    boards = [farm.board(n) for n in range(farm.boards)]
    devices = [UsbDevice(f"{board}-console", "adapter", f"usb-0:{n}") for n, board in enumerate(boards)]
    places = tuple(PlaceRow(board, "ci1/alice" if n % 3 else "", farm.now) for n, board in enumerate(boards))
    watcher = watch(url)

    def ports() -> list[Metric]:
        hours = (state["at"] - farm.now + WEEK_S) / 3600
        meta = PORT.info.meta
        its = [
            evolve(
                PORT,
                info=evolve(PORT.info, meta=evolve(meta, name=f"{board}-console", adapter_latency_ns=1_000_000)),
                received_bytes=int(hours * (4000 + 100 * n)),
                gaps=0,
                line_errors=dict.fromkeys(PORT.line_errors or {}, 0),
            )
            for n, board in enumerate(boards)
        ]
        return host.families(evolve(SERVER, ports=its))

    for n, board in enumerate(boards):
        failures = int(farm.trouble and n == 5)
        outlet = OutletStatus("lab1:16421", f"rack{n // 8 + 1}", str(n % 8 + 1), "on", farm.now, 0.2, 40, failures)
        status_files.write(folder / status_files.OUTLETS, board, outlet)
        status_files.write(
            folder / status_files.RAILS, board, RailStatus(board, "VDD_CORE", 1000.0, 5000, 0, farm.now)
        )
    ended, judge, lab = LatestEnded(), LatestJudge(600.0), HostFile(None, installed=False, folder=folder)
    found = {
        "boards": lambda: families(export_boards(boards_of(lab, url, folder, ended, judge, open_store))),
        "failures": StandingMetrics(
            watcher, EvidenceLinks("https://lab.example.org/runs/{run}.html"), now=lambda: when(state["at"])
        ).failures,
        "verdicts": StandingMetrics(watcher, EvidenceLinks("https://lab.example.org/runs/{run}.html")).verdicts,
        "jobs": Jobs(watcher, lambda: when(state["at"])).read,
        "schedules": Schedules(watcher, [_nightly(board) for board in boards], lambda: when(state["at"])).read,
        "console": ports,
        "outlets": Outlets(folder).read,
        "rails": RailsCollector(folder).read,
        "disks": Disks({"results": folder}).read,
        "coordinator": PlaceCollector(
            lambda: CoordinatorState(places, {"waiting": 1} if places else {}, {"lab1": 9})
        ).read,
        "usb": Usb(devices, plugs).read,
    }
    return found if boards else {name: found[name] for name in ("jobs", "outlets", "rails", "disks")}


def _nightly(board: str) -> ScheduledRun:
    return ScheduledRun("nightly", board, ("boot",), ("boot",), "", 86400.0, lambda now: now)
