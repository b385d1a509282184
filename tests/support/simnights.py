"""Nightly runs of a simulated board in virtual time, judged as `lab run --judge` does: board, strategy, watch, run, store, judge."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from attrs import define, evolve
from sqlalchemy.orm import Session

from lab.errors import BoardlabError
from lab.host.clock import utc_now
from lab.judge.history import CONSTANTS
from lab.judge.run_judge import CONFIRMS, judge_run
from lab.results import Store, open_store
from lab.results.models import RunRow
from lab.run.boot import BootRun
from lab.run.progress import Progress
from lab.virtual.sim.faults import catalogue
from lab.virtual.sim.model import serial_number
from support.simlab import SimLab
from support.simruns import RETRIES
from support.simtarget import SimClock, pdudaemon, strategy_on
from support.strategies import BoardStrategy

BOARD: Final = "am62xx_sk-1"
RELEASE: Final = "nightly"
BOOTS: Final = 4
DAY: Final = dt.timedelta(days=1)
RERUN: Final = dt.timedelta(minutes=10)


@define
class SimNights:
    """A place with one simulated board.

    Attributes:
        faults: of the board from now on, all its cycles. image: what is written to its medium; empty: nobody knows.
        now: when the next run begins. release: the label of the next runs.
    """

    store: Store
    lab: SimLab
    strategy: BoardStrategy
    memory: Path
    image: str
    now: dt.datetime
    faults: Sequence[catalogue.Planned] = ()
    release: str = RELEASE

    def distribution(self, name: str) -> None:
        """The user space of the next runs, as os-release names it."""
        model = self.lab.board.model
        self.lab.board.model = evolve(model, release=evolve(model.release, distribution=name))

    def unjudged(self) -> int:
        """A run that nobody judges; its id."""
        run = self._run()
        self.now += DAY
        return run

    def night(self) -> int:
        """A run, judged, with the reruns that the judge asks for; the run's id."""
        first = self._run()
        judged = judge_run(self.store, first, remember=self.memory)
        for _ in range(CONSTANTS.most_reruns):
            if not judged.asked:
                break
            self.now += RERUN
            judged = judge_run(self.store, self._run({CONFIRMS: first}), remember=self.memory)
        self.now += DAY
        return first

    def _run(self, more: Mapping[str, object] = {}) -> int:
        self.lab.board.troubles_for = lambda cycle: [fault.fault(cycle) for fault in self.faults]
        clock = SimClock(self.lab)
        images = {"images_sha256": {"root": self.image}} if self.image else {}
        about = {"virtual": True, "host": "lab1", **images, **more}
        wanted = {"cycles": BOOTS, "media": ["sd"]}
        record = self.store.begin_run("boot", "am62xx_sk", BOARD, self.release, plan=wanted, provenance=about)
        progress = Progress(lambda _line: None, clock, BOOTS)
        run, status = (
            BootRun(self.store, record, self.strategy, progress, clock, self.strategy.sleep, RETRIES),
            "failed",
        )
        with suppress(BoardlabError):
            run.measure("sd")
            status = "completed"
        self.store.finish_run(record.id, status)
        with Session(self.store._engine) as session, session.begin():
            session.get_one(RunRow, record.id).started_at = self.now
        return record.id


@contextmanager
def nights(folder: Path, seed: int, image: str, first: dt.datetime) -> Iterator[SimNights]:
    """The place's nights from `first` on, with the board of this seed on it: its serial number, and all its chance."""
    lab = SimLab("am62xx_sk", seed=seed)
    with open_store(str(folder / "results.db")) as store, strategy_on(lab, power=pdudaemon) as strategy:
        strategy.identity = serial_number(seed)
        yield SimNights(store, lab, strategy, folder / "memory", image, first)


def ago(days: int) -> dt.datetime:
    """So many days ago, at two in the morning."""
    return utc_now().replace(hour=2, minute=0, second=0, microsecond=0) - days * DAY
