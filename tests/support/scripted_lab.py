"""One lab in one store: a board in each state, filled by one script, for what page, terminal and dashboards say of it."""

from __future__ import annotations

import datetime as dt
import random
from pathlib import Path
from typing import Final

import pytest

from lab.farm import status
from lab.farm.board_state import StateName
from lab.health.reservations import ReservationBook
from lab.host import process
from lab.host.clock import utc_now
from lab.jobs.queue import JobQueue, Order
from lab.results import AttemptRecord, SampleRecord, Store
from lab.results.models import RunRow
from lab.web.site import Site

TYPE: Final = "am62xx_sk"
BEFORE, NEW = "11.00", "11.01"
WORSE: Final = 1.23
STATES: Final[dict[str, StateName]] = {
    "board-failed": "failed",
    "board-killed": "failed",
    "board-worse": "worse",
    "board-away": "away",
    "board-kept": "in maintenance",
    "board-new": "never reached",  # only its environment is there
    "board-measuring": "measuring",
    "board-waiting": "waiting",
    "board-held": "held",
    "board-better": "free",
    "board-free": "free",
    "board-stopped": "free",  # its last run is incomplete: a person ended it
}
AWAY: Final = {"board-away": "exporter-away/host-2"}  # of `find_other_holders`: a janitor's holder of its place
_BOOTS: Final = 4
_MEDIA: Final = {"sd": 9.0, "emmc": 7.5}
_STAGES: Final = {"Kernel": 0.4, "User space": 0.6}


def fill(store: Store, seed: int = 1) -> dict[str, int]:
    """Fill a store; board -> its last run."""
    dice, now = random.Random(seed), utc_now()
    found = {}
    for board in (name for name in STATES if name != "board-new"):
        for days in (9, 8, 7):
            run(store, board, BEFORE, now - dt.timedelta(days=days), dice)
        factor = {"board-worse": WORSE, "board-better": 0.8}.get(board, 1.0)
        found[board] = run(store, board, NEW, now - dt.timedelta(hours=5), dice, factor)
    found["board-failed"] = run(
        store, "board-failed", NEW, now - dt.timedelta(hours=3), dice, status="failed", boots=0
    )
    found["board-killed"] = run(store, "board-killed", NEW, now - dt.timedelta(hours=2), dice, status="", boots=2)
    found["board-stopped"] = run(
        store, "board-stopped", NEW, now - dt.timedelta(hours=1), dice, WORSE, status="interrupted", boots=2
    )
    reservations, jobs = ReservationBook(store), JobQueue(store, process.identity(), process.has_died)
    reservations.maintain("board-kept", "lena", "a new PMIC")
    reservations.reserve("board-held", "ada", "debugging", 4.0)
    jobs.enqueue(Order(TYPE, "board-waiting", ("boot",), "envs/waiting.yaml", NEW, None))
    job = jobs.enqueue(Order(TYPE, "board-measuring", ("boot",), "envs/measuring.yaml", NEW, None)).id
    jobs.start(job)
    found["board-measuring"] = run(store, "board-measuring", NEW, now, dice, status="", boots=2, job_id=job)
    return found


def site(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    """The site over the store `results.db` of a folder, which becomes the working folder."""
    (folder / "runtime").mkdir(mode=0o700)
    (folder / "envs").mkdir()
    strategy = f"{{BoardStrategy: {{board: board-new, board_type: {TYPE}}}}}"
    (folder / "envs" / "new.yaml").write_text(f"targets: {{main: {{drivers: [{strategy}]}}}}\n")
    (folder / "farm.yaml").write_text("pdudaemon: {address: '127.0.0.1:1'}\nexporter: {listen: '127.0.0.1:1'}\n")
    monkeypatch.chdir(folder)
    monkeypatch.setattr(status, "find_other_holders", lambda _farm: AWAY)
    made = Site(str(folder / "results.db"), folder / "farm.yaml", folder / "runtime", folder)
    made._judge.budget_s = 600.0  # however busy the machine is, the first look judges all boards
    return made


def run(
    store: Store,
    board: str,
    release: str,
    at: dt.datetime,
    dice: random.Random,
    factor: float = 1.0,
    *,
    status: str = "completed",
    boots: int = _BOOTS,
    job_id: int | None = None,
    confirms: int | None = None,
) -> int:
    """Record a run of boots from two media; its id.

    Args:
        status: empty: it goes on, or was killed. boots: good ones of each medium; the others of the plan are missing or failed.
        job_id: of the job that measures it. confirms: the run whose judge asked for it.
    """
    plan = {"cycles": _BOOTS, "media": list(_MEDIA)}
    facts = {"virtual": False, "host": "lab1", **({} if confirms is None else {"confirms": confirms})}
    number = store.begin_run("boot", TYPE, board, release, plan=plan, provenance=facts, job_id=job_id).id
    for medium, mean_s in _MEDIA.items():
        for cycle in range(1, boots + 1):
            whole = mean_s * factor * dice.gauss(1, 0.002)
            params, none = {"medium": medium}, frozenset[str]()
            samples = (
                SampleRecord("boot.time", params, whole, 1e-4, none),
                *(
                    SampleRecord("boot.stage", {**params, "stage": stage}, share * whole, 1e-4, none)
                    for stage, share in _STAGES.items()
                ),
            )
            good = AttemptRecord(cycle, 1, params, "ok", None, None, "", at, whole, samples=samples)
            store.record_attempt(number, good)
        for cycle in range(boots + 1, _BOOTS + 1) if status == "failed" else ():
            message = "Kernel panic - not syncing: VFS: Unable to mount root fs"
            failed = AttemptRecord(cycle, 1, {"medium": medium}, "kernel_panic", "board", False, message, at, 20.0)
            store.record_attempt(number, failed)
    if status:
        store.finish_run(number, status)  # type: ignore[arg-type] # of the run statuses
    store.write(lambda session: _date(session.get(RunRow, number), at))
    return number


def _date(row: RunRow | None, at: dt.datetime) -> None:
    assert row is not None
    row.started_at = at
    row.finished_at = at + dt.timedelta(minutes=10) if row.finished_at is not None else None
