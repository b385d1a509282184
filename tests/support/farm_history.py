"""A week of a farm as Prometheus would have scraped it: real stores, real collectors, every twelve hours a page.

A week cannot be waited for, so the pages become Prometheus' blocks by promtool. What only a running Prometheus makes, the
series ALERTS, is written as it writes them; the rules themselves are proved elsewhere.
"""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from attrs import evolve, field, frozen
from farm_scrape import PORT, SERVER, Plugs
from prometheus_client import CollectorRegistry, Metric
from sqlalchemy import Engine, create_engine, insert

from exporters.exposition import Exposition, ResultsSource, Staleness
from exporters.farm import consoles
from exporters.farm.disks import Disks
from exporters.farm.jobs import Jobs
from exporters.farm.outlets import Outlets
from exporters.farm.places import CoordinatorState, Place, Places
from exporters.farm.rails import RailsCollector
from exporters.farm.schedules import Due, Schedules
from exporters.farm.usb import Usb, UsbDevice
from exporters.polling import FreshMetrics, Health, Poller
from exporters.results import ResultsReader
from exporters.standing import StandingVerdicts
from lab.errors import LabTransientError
from lab.host import statusfiles
from lab.host.clock import MonotonicRaw
from lab.host.statusfiles import OutletStatus, RailStatus
from lab.judge.telling import Evidence
from lab.metrics import by_name
from lab.results import open_store
from lab.results.models import AttemptRow, DefinitionRow, JobRow, MeasurementRow, RunRow, SampleRow
from lab.results.verdictrecords import NewVerdict
from lab.results.verdicts import write_verdicts
from lab.results.watch import watch

STEP_S: Final = 12 * 3600
WEEK_S: Final = 7 * 86400
TYPE: Final = "am62xx_sk-fs"
FAILURE, REGRESSED, MEDIUM = "hang_kernel", "boot.time", "emmc"
RELEASES: Final = ("10.00", "11.01")
_MEDIA: Final = {"emmc": 0.85, "ospi": 1.6, "sd": 1.0}
_STAGES: Final = {"uboot": 0.35, "starting_kernel": 0.74, "first_printk": 0.11, "init": 1.46, "login": 0.92}
_MODES: Final = {"deep_sleep": 12.0, "mcu_only": 19.0}  # mW of a rail
_RAILS: Final = ("VDD_CORE", "VDDR_CORE", "SOC_DVDD_3V3", "DDR_VDD_1V1")
_CYCLES: Final = 4
_NIGHTS_AGO: Final = {"10.00": (7.7, 6.7, 5.7), "11.01": (3.7, 2.7, 1.7, 0.7)}  # days


@frozen
class Farm:
    """A farm to make up.

    Attributes:
        name: of its job in Prometheus. trouble: whether its last night brings a failure, a regression, a lost adapter, and
            a store that cannot be read.
    """

    name: str
    boards: int
    trouble: bool
    now: float

    def board(self, number: int) -> str:
        """The name of a board, as long as people make them."""
        return f"{TYPE}-rack{number // 8 + 1}-shelf{number % 8 + 1}"

    @property
    def failed(self) -> str:
        """The board whose kernel hung."""
        return self.board(41 % self.boards)

    @property
    def slower(self) -> str:
        """The board that boots slower from MEDIUM in the new release."""
        return self.board(17 % self.boards)

    @property
    def gone(self) -> str:
        """The adapter that is not plugged in."""
        return f"{self.board(63 % self.boards)}-console"


@frozen
class _Ids:
    runs: Iterator[int] = field(factory=lambda: itertools.count(1))
    attempts: Iterator[int] = field(factory=lambda: itertools.count(1))
    measurements: Iterator[int] = field(factory=lambda: itertools.count(1))


def pages(farm: Farm, folder: Path) -> Iterator[list[str]]:
    """The lines of each page of a week, the oldest first, in OpenMetrics' format without the last line, `# EOF`."""
    url = f"sqlite:///{folder}/results.db"
    open_store(url).close()
    engine = create_engine(url)
    nights = sorted((farm.now - days * 86400, release) for release, ages in _NIGHTS_AGO.items() for days in ages)
    names = {"boot.time", "boot.power_on_to_prompt", "boot.stage", "lmbench.bw_mem", "stream.bandwidth"}
    names |= {f"lpm.{mode}.{what}" for mode in _MODES for what in ("power_rail", "power_total", "resume_kernel")}
    with engine.begin() as connection:
        connection.execute(insert(DefinitionRow), [_definition(name) for name in sorted(names)])
    ids, registry = _Ids(), CollectorRegistry(auto_describe=False)
    plugs, state = Plugs(*(f"usb-0:{n}" for n in range(farm.boards))), {"at": 0.0, "trouble": False}
    results = Poller("results", ResultsSource(ResultsReader(watch(url))).read, 1e9, MonotonicRaw())
    live = [Poller(name, read, 1e9, MonotonicRaw()) for name, read in _sources(farm, folder, url, plugs, state).items()]
    Staleness(registry, results)
    Health(registry, (results, *live))
    FreshMetrics(registry, live)
    own = f'instance="127.0.0.1:9870",job="{farm.name}"'
    for at in range(int(farm.now) - WEEK_S, int(farm.now) + 1, STEP_S):
        while nights and nights[0][0] <= at:
            _night(engine, farm, ids, *nights.pop(0), last=not nights)
            if farm.trouble and not nights:
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
        write_verdicts(store, run, [NewVerdict(REGRESSED, version, {"medium": MEDIUM}, "regression", 1, run, 20, 0.12, 0.1, 0.14)])


def _scraped(line: str, own: str, at: int) -> str:
    series, _, value = line.rpartition(" ")
    name, brace, rest = series.partition("{")
    return f"{name}{{{own}{',' if brace else '}'}{rest} {value} {at}"


def _alerts(farm: Farm, at: int) -> Iterator[str]:
    own = f'instance="127.0.0.1:9870",job="{farm.name}",alertstate="firing",severity="ticket"'
    for labels in (
        f'alertname="BoardlabAttemptFailed",board="{farm.failed}",board_type="{TYPE}",outcome="{FAILURE}"',
        f'alertname="BoardlabAdapterGone",device="{farm.gone}",kind="adapter",id_path="usb-0:{63 % farm.boards}"',
        'alertname="BoardlabResultsStale"',
    ):
        yield f"ALERTS{{{labels},{own}}} 1 {at}"


def _unreadable() -> Any:
    raise LabTransientError("the store is locked")


def _sources(farm: Farm, folder: Path, url: str, plugs: Plugs, state: Mapping[str, Any]) -> dict[str, Any]:
    boards = [farm.board(n) for n in range(farm.boards)]
    devices = [UsbDevice(f"{board}-console", "adapter", f"usb-0:{n}") for n, board in enumerate(boards)]
    places = tuple(Place(board, "ci1/alice" if n % 3 else "", farm.now) for n, board in enumerate(boards))
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
        return consoles.families(evolve(SERVER, ports=its))

    for n, board in enumerate(boards):
        failures = int(farm.trouble and n == 5)
        outlet = OutletStatus("lab1:16421", f"rack{n // 8 + 1}", str(n % 8 + 1), "on", farm.now, 0.2, 40, failures)
        statusfiles.write(folder / statusfiles.OUTLETS, board, outlet)
        statusfiles.write(folder / statusfiles.RAILS, board, RailStatus(board, "VDD_CORE", 1000.0, 5000, 0, farm.now))
    found = {
        "verdicts": StandingVerdicts(watcher, Evidence("https://lab.example.org/runs/{run}.html")).read,
        "jobs": Jobs(watcher, lambda: _when(state["at"])).read,
        "schedules": Schedules(watcher, [_nightly(board) for board in boards], lambda: _when(state["at"])).read,
        "console": ports,
        "outlets": Outlets(folder).read,
        "rails": RailsCollector(folder).read,
        "disks": Disks({"results": folder}).read,
        "coordinator": Places(lambda: CoordinatorState(places, {"waiting": 1} if places else {}, {"lab1": 9})).read,
        "usb": Usb(devices, plugs).read,
    }
    return found if boards else {name: found[name] for name in ("jobs", "outlets", "rails", "disks")}


def _nightly(board: str) -> Due:
    return Due("nightly", board, ("boot",), ("boot",), "", 86400.0, lambda now: now)


def _when(at: float) -> dt.datetime:
    return dt.datetime.fromtimestamp(at, dt.UTC)


def _night(engine: Engine, farm: Farm, ids: _Ids, at: float, release: str, *, last: bool) -> None:
    rows: dict[type, list[dict[str, Any]]] = {RunRow: [], JobRow: [], AttemptRow: [], MeasurementRow: [], SampleRow: []}
    for n in range(farm.boards):
        board, start = farm.board(n), at + 60 * n
        for kind, minutes in (("boot", 20), ("low_power", 40), ("suite", 55)):
            if kind != "boot" and not last and len(_NIGHTS_AGO[release]) > 3:
                continue  # only once with each release
            run, begun = next(ids.runs), _when(start + 60 * minutes - 900)
            own = {"kind": kind, "board_type": TYPE, "board": board, "release": release, "status": "completed"}
            plan = {"cycles": _CYCLES, "media": list(_MEDIA)} if kind == "boot" else {}
            times = {"started_at": begun, "finished_at": _when(start + 60 * minutes)}
            rows[RunRow].append({"id": run, **own, "plan": plan, "provenance": {}, **times})
            _measured(rows, farm, ids, run=run, kind=kind, board=board, release=release, at=begun, number=n, last=last)
        job = {"board_type": TYPE, "board": board, "suites": "boot", "done": 1, "env": "e", "release": "", "cycles": 4}
        job |= {"state": "completed", "holder": "", "after_run": 0, "queued_at": _when(start)}
        rows[JobRow].append({**job, **dict.fromkeys(("started_at",), _when(start)), **dict.fromkeys(("heartbeat_at", "finished_at"), _when(start + 1200))})
    with engine.begin() as connection:
        for model, found in rows.items():
            if found:
                connection.execute(insert(model), found)


def _measured(
    rows: dict[type, list[dict[str, Any]]], farm: Farm, ids: _Ids, *, run: int, kind: str, board: str, release: str,
    at: dt.datetime, number: int, last: bool,
) -> None:  # fmt: skip
    spread, newer = 1 + number * 37 % 64 / 640, release == RELEASES[1]
    measured: list[tuple[str, dict[str, str], float]] = []
    if kind == "boot":
        for medium, factor in _MEDIA.items():
            worse = 1.08 if farm.trouble and newer and (board, medium) == (farm.slower, MEDIUM) else 0.97 if newer else 1.0
            where = {"medium": medium}
            whole = sum(_STAGES.values()) * factor * spread * worse
            measured += [("boot.time", where, whole - 1.1), ("boot.power_on_to_prompt", where, whole)]
            measured += [("boot.stage", {**where, "stage": s}, v * factor * spread) for s, v in _STAGES.items()]
    elif kind == "low_power":
        for mode, mw in _MODES.items():
            measured += [(f"lpm.{mode}.power_rail", {"rail": r}, mw * spread * (i + 1)) for i, r in enumerate(_RAILS)]
            measured += [(f"lpm.{mode}.power_total", {}, mw * spread * 10), (f"lpm.{mode}.resume_kernel", {}, 130 * spread)]
    else:
        sizes = {"lmbench.bw_mem": 2000.0, "stream.bandwidth": 3300.0}
        measured += [(m, {"size": s, "operation": "copy"}, v / spread) for m, v in sizes.items() for s in ("8m", "512k")]
    attempts: dict[str, list[int]] = {}
    failed = kind == "boot" and farm.trouble and last and board == farm.failed
    for medium in _MEDIA if kind == "boot" else ("",):
        attempts[medium] = [next(ids.attempts) for _ in range(_CYCLES)]
        for cycle, attempt in enumerate(attempts[medium], start=1):
            rows[AttemptRow].append(_attempt(attempt, run, cycle, medium, at))
        if failed and medium == MEDIUM:
            rows[AttemptRow].append(_attempt(next(ids.attempts), run, 2, medium, at) | {"outcome": FAILURE, "fault": "board", "transient": True, "number": 2})
    for metric, params, value in measured:
        measurement = next(ids.measurements)
        version = by_name(metric).version
        rows[MeasurementRow].append({"id": measurement, "run_id": run, "metric": metric, "version": version, "params": params})
        for cycle, attempt in enumerate(attempts[params.get("medium", "")]):
            flags = frozenset({"medium_unverified"} if number % 4 == 0 and cycle == 0 and metric == "boot.time" else ())
            number_of = {"measurement_id": measurement, "attempt_id": attempt, "uncertainty": value / 1e4, "flags": flags}
            rows[SampleRow].append({**number_of, "value": value * (1 + (cycle - 1.5) / 500)})


def _attempt(attempt: int, run: int, cycle: int, medium: str, at: dt.datetime) -> dict[str, Any]:
    own = {"id": attempt, "run_id": run, "cycle": cycle, "number": 1, "params": {"medium": medium} if medium else {}}
    how = {"outcome": "ok", "fault": None, "transient": None, "message": "", "started_at": at, "duration_s": 6.0}
    return {**own, **how, "details": {}}


def _definition(name: str) -> dict[str, Any]:
    metric = by_name(name)
    own = {key: getattr(metric, key) for key in ("version", "unit", "better", "definition", "resolution", "source")}
    return {"metric": name, **own}
