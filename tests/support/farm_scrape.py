"""An exporter with everything in it: every family that there is has a series."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from attrs import evolve
from prometheus_client import CollectorRegistry, Metric

from exporters.farm import host
from exporters.farm.boards import ExportedBoard, Healths, Jobs, families
from exporters.farm.host import Disks, Outlets, RailsCollector, Sizes, Usb, UsbDevice
from exporters.farm.places import PlaceCollector
from exporters.farm.schedules import Backups, ScheduledRun, Schedules
from exporters.metrics import StandingMetrics
from exporters.poller import Poller
from exporters.results import ResultsReader
from exporters.server import Exposition, ResultsSource
from exporters.sources import ExporterBuild, FreshMetrics, SourceHealth, Staleness
from lab.console.recording import RecordingMeta
from lab.console.status import PortInfo, PortStatus, ServerStatus
from lab.health import BoardCheck, CheckedPart
from lab.health.reservations import QUARANTINE
from lab.health.store import KEEPER, HealthBook
from lab.host import process, status_files
from lab.host.clock import MonotonicRaw, utc_now
from lab.host.status_files import OutletStatus, RailStatus
from lab.jobs.queue import JobQueue, Order
from lab.judge.records import NewVerdict
from lab.judge.store import mute, write_verdicts
from lab.judge.text import EvidenceLinks
from lab.places.records import CoordinatorState, PlaceRow
from lab.results import AttemptRecord, SampleRecord, Store, backup, open_store
from lab.results.audit import Audit
from lab.results.models import ReservationRow
from lab.results.snapshot import watch
from support import recorded_run
from support.scraped import Scrape, scrape

PORT = PortStatus(
    info=PortInfo(RecordingMeta(name="ttyUSB0", device="/dev/ttyUSB0", speed_bd=115200), "/r/ttyUSB0", 5000),
    state="open",
    received_bytes=5000,
    reads=400,
    last_byte_age_s=2.5,
    readers=1,
    writer=4711,
    writer_since="2026-03-02T09:30:00+00:00",
    gaps=1,
    dropped=0,
    line_errors={"frame": 0, "overrun": 2, "parity": 0, "brk": 1, "buf_overrun": 0},
    lateness_max_ns=300_000,
    recording_broken="",
)
SERVER = ServerStatus(pid=1, started="", scheduling="", log="", ports=[PORT])
STATE = CoordinatorState(
    (PlaceRow("am62x-sk-1", "ci1/alice", 1000.0), PlaceRow("am62x-sk-2", "", 900.0)),
    {"waiting": 1},
    {"labhost": 3, "gone": 0},
)
NIGHTLY = ScheduledRun("nightly", "qemu-2", ("boot",), ("boot",), "", 86400.0, lambda now: now)


class Plugs:
    """A udev that says what a test wants."""

    def __init__(self, *present: str) -> None:
        self.plugged = set(present)
        self.new: list[str] = []

    def present(self, id_path: str) -> bool:
        return id_path in self.plugged

    def new_id_paths(self) -> list[str]:
        new, self.new = self.new, []
        return new


def record(store: Store) -> None:
    """Two releases of boots, and a run with power and benchmarks."""
    recorded_run.record(store)
    old = store.begin_run("boot", "qemu-virt", "qemu-1", "10.00", plan={}, provenance={})
    run = store.begin_run("suite", "am62xx_sk", "SK-AM62-0042", "11.01", plan={}, provenance={})
    boots = (SampleRecord("boot.time", {"medium": "sd"}, 2.0, 0.001, frozenset({"simulated"})),)
    numbers = (
        SampleRecord("power.rail", {"mode": "deep_sleep", "rail": "VDD_CORE"}, 12.0, 1.0),
        SampleRecord("power.total", {"mode": "deep_sleep"}, 15.0, 1.0),
        SampleRecord("power.resume_latency", {"mode": "deep_sleep"}, 140.0, 1.0),
        SampleRecord("lmbench.bw_mem", {"size": "8m", "operation": "copy"}, 2000.0, 0.0),
    )
    for its_run, params, samples in ((old, {"medium": "sd"}, boots), (run, {}, numbers)):
        attempt = AttemptRecord(1, 1, params, "ok", None, None, "", recorded_run.START, 1.0, samples)
        store.record_attempt(its_run.id, attempt)
        store.finish_run(its_run.id, "completed")


def nights(store: Store) -> None:
    """Two nights of NIGHTLY: one went well, one failed and lacks a metric."""
    queue = JobQueue(store, process.identity(), process.has_died)
    boot, whole = SampleRecord("boot.time", {"medium": "sd"}, 2.0, 0.001), "boot.power_on_to_prompt"
    for samples in ((boot, SampleRecord(whole, {"medium": "sd"}, 5.0, 0.001)), (boot,)):
        job = queue.start(queue.enqueue(Order("qemu-virt", NIGHTLY.board, NIGHTLY.suites, "e", "", 1)).id)
        assert job is not None
        plan = {"cycles": 1, "media": ["sd"]}
        run = store.begin_run("boot", "qemu-virt", NIGHTLY.board, "11.01", plan=plan, provenance={})
        silent = AttemptRecord(1, 1, {"medium": "ospi"}, "silent", "board", True, "nothing", recorded_run.START, 1.0)
        attempt = AttemptRecord(1, 1, {"medium": "sd"}, "ok", None, None, "", recorded_run.START, 1.0, samples)
        for each in (silent, attempt):
            store.record_attempt(run.id, each)
        store.finish_run(run.id, "completed")
        queue.finish(job.id, "completed" if len(samples) > 1 else "failed")


def verdicts(store: Store) -> None:
    """In the newest run of NIGHTLY a number got worse, and another one that is muted."""
    run = max(run.id for run in store.runs() if run.board == NIGHTLY.board)
    worse = NewVerdict("boot.time", 1, {"medium": "sd"}, "regression", 1, run, 20, 0.03, 0.02, 0.04)
    write_verdicts(store, run, [worse, evolve(worse, metric="boot.power_on_to_prompt")])
    day = timedelta(days=1)
    mute(store, "*prompt", board=None, params={}, until=utc_now() + day, reason="known", by="ada")


def quarantined(store: Store, board: str) -> None:
    """Put a board in quarantine, as faults of the lab in a row do."""
    its = {"board": board, "kind": QUARANTINE, "person": KEEPER, "reason": "3 faults of the lab in a row"}
    row = ReservationRow(**its, at=utc_now(), until=None, ended_at=None, ended_by="")
    store.write(lambda session: session.add(row))


def sources(runtime: Path, url: str) -> dict[str, Callable[[], list[Metric]]]:
    """The farm's sources, each with something to say."""
    status_files.write(
        runtime / status_files.OUTLETS, "1", OutletStatus("lab1:16421", "rack1", "3", "on", 1000.0, 0.2, 40, 2)
    )
    status_files.write(runtime / status_files.RAILS, "1", RailStatus("b1", "VDD_CORE", 1000.0, 5000, 1, 1000.0))
    with open_store(url) as store:
        nights(store)
        verdicts(store)
        Audit(store).note(backup.ACTION, person="boardlab")
        dead = CheckedPart("power", "failed", "pdu_timeout", "lab", "no answer to 'on'")
        HealthBook(store).record(BoardCheck("qemu-1", "qemu-virt", "lab1", utc_now(), (dead,)))
        jobs = JobQueue(store, process.identity(), process.has_died)
        jobs.start(jobs.enqueue(Order("qemu-virt", "qemu-1", ("boot",), "e", "", None)).id)
        quarantined(store, "qemu-1")
    devices = [UsbDevice("console", "adapter", "usb-0:2"), UsbDevice("card", "sdmux", "usb-0:3")]
    return {
        "jobs": Jobs(watch(url)).read,
        "health": Healths(watch(url), reference="qemu-1").read,
        "failures": StandingMetrics(watch(url), EvidenceLinks(""), now=lambda: recorded_run.START).failures,
        "verdicts": StandingMetrics(watch(url), EvidenceLinks("")).verdicts,
        "schedules": Schedules(watch(url), [NIGHTLY]).read,
        "backup": Backups(watch(url)).read,
        "console": lambda: host.families(SERVER),
        "outlets": Outlets(runtime).read,
        "rails": RailsCollector(runtime).read,
        "disks": Disks({"results": runtime}).read,
        "sizes": Sizes(watch(url)).read,
        "coordinator": PlaceCollector(lambda: STATE).read,
        "usb": Usb(devices, Plugs("usb-0:2")).read,
        "boards": lambda: families(
            [ExportedBoard("qemu-1", "", "needs a person", "bad", "lab", utc_now(), 2, {"": 1})]
        ),
    }


def everything(folder: Path) -> Scrape:
    """A scrape of all that."""
    return scrape(page(folder))


def page(folder: Path) -> str:
    """Its text."""
    url = str(folder / "results.db")
    with open_store(url) as store:
        record(store)
    clock = MonotonicRaw()
    live = [Poller(name, read, 60.0, clock) for name, read in sources(folder, url).items()]
    results = Poller("results", ResultsSource(ResultsReader(watch(url))).read, 60.0, clock)
    registry = CollectorRegistry(auto_describe=False)
    Staleness(registry, results)
    ExporterBuild(registry)
    SourceHealth(registry, (results, *live))
    FreshMetrics(registry, live)
    for poller in live:
        poller.poll()
    results.poll()
    _, pieces = Exposition(results, registry).plain()
    return b"".join(pieces).decode()
