"""Runs of every kind in real stores, and the report that `lab report` writes of each."""

from __future__ import annotations

import contextlib
from pathlib import Path

from lab.benchmarks.sections import ALL
from lab.cli import main
from lab.errors import BoardTransientError
from lab.results import Store, open_store
from lab.run.lowpower import KIND, LowPowerRun
from lab.run.progress import Progress
from support.napping import napper
from support.recorded_run import FAILURES, MEDIA, START, failed, record
from support.section_bench import section_bench
from support.simtarget import SimClock

BUSY_FROM = 10  # the cycle of run 2 at which the host becomes busy, and the boots from OSPI slower
MODES = ("deep_sleep", "mcu_only")
NAPS = 3
SECTIONS = ("openssl", "nbench", "tcp", "sd-fio")
REPORTS = ("boot", "against-run", "against-release", "first", "failed", "low-power", "sections")


def write(folder: Path) -> dict[str, Path]:
    """A page for each of REPORTS."""
    boots = folder / "boots.db"
    with open_store(str(boots)) as store:
        record(store)
        record(store, release="11.02", busy_from=BUSY_FROM, seed=17)
        _failed_run(store)
    _low_power(folder)
    with section_bench(folder) as bench:
        for name in SECTIONS:
            bench.run.measure({section.name: section for section in ALL}[name])
    words = {
        "boot": (boots, "2"),
        "against-run": (boots, "2", "--against", "1"),
        "against-release": (boots, "2", "--against", "11.01"),
        "first": (boots, "1"),
        "failed": (boots, "3"),
        "low-power": (folder / "sleep.db", "1"),
        "sections": (folder / "results.db", "1"),
    }
    pages = {}
    for name, (database, *asked) in words.items():
        page = pages[name] = folder / f"{name}.html"
        assert main(["report", *asked, "--db", str(database), "-o", str(page)]) == 0
    return pages


def _failed_run(store: Store) -> None:
    """No cycle of it gave a number."""
    run = store.begin_run("boot", "qemu-virt", "qemu-1", "11.02", plan={"cycles": 1}, provenance={"virtual": True})
    for medium in MEDIA:
        for number, failure in enumerate((f for each in FAILURES.values() for f in each), start=1):
            store.record_attempt(run.id, failed(store, failure, medium=medium, cycle=1, number=number, at=START))
    store.finish_run(run.id, "failed")


def _low_power(folder: Path) -> None:
    plan = {"cycles": NAPS, "modes": [*MODES], "wake": "rtc", "sleep_s": 2, "medium": "sd"}
    with open_store(str(folder / "sleep.db")) as store, napper() as board:
        release = board.strategy.low_power.release
        run = store.begin_run(KIND, "am62xx_sk", "sim-1", release, plan=plan, provenance={"virtual": True})
        clock = SimClock(board.lab)
        progress = Progress(lambda _line: None, clock, NAPS)
        measuring = LowPowerRun(store, run, board.strategy, progress, clock, board.strategy.sleep, 2)
        for mode in MODES:
            with contextlib.suppress(BoardTransientError):
                measuring.measure(mode)
        store.finish_run(run.id, "completed")
