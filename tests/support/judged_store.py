"""Nightly runs of a board in a real store, with numbers made to order, for the tests of the judge."""

from __future__ import annotations

import datetime as dt
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from copy import deepcopy
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from attrs import define, field
from sqlalchemy.orm import Session

from lab.results import AttemptRecord, SampleRecord, Store, open_store
from lab.results.models import RunRow

START = dt.datetime(2026, 3, 2, 1, 0, tzinfo=dt.UTC)
DAY = dt.timedelta(days=1)
BOOTS = 6


@cache
def _quiet(board: str, seed: int, now: dt.datetime, nights: int) -> tuple[bytes, dt.datetime, np.random.Generator]:
    """A database of quiet nights, its last instant, and its random state."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "results.db"
        with open_store(str(path)) as store:
            made = Nights(store, board, seed, now)
            for night in range(nights):
                made.run(image=f"image {night // 7}")
        with closing(sqlite3.connect(path)) as file:
            file.execute("PRAGMA journal_mode=DELETE")
            return file.serialize(), made.now, made._rng


@define
class Nights:
    """Measures a board night by night.

    Attributes:
        now: when the next run begins.
    """

    store: Store
    board: str = "0042"
    seed: int = 1
    now: dt.datetime = START
    _rng: np.random.Generator = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._rng = np.random.default_rng(self.seed)

    def run(
        self,
        factor: float = 1.0,
        *,
        image: str = "one",
        serial: str = "A",
        media: Sequence[str] = ("sd",),
        boots: int = BOOTS,
        failed: int = 0,
        values: Sequence[float] | None = None,
        after: dt.timedelta = DAY,
        provenance: Mapping[str, Any] | None = None,
        virtual: bool = False,
        release: str = "11.01",
        firmware: Mapping[str, str] | None = None,
    ) -> int:
        """Record a run of boots that take `factor` times 16 s, or `values`; its id. Then it is a night later.

        Args:
            image: empty: no hash of it is known.
        """
        hashes = {"images_sha256": {"kernel": image}} if image else {}
        about = {"virtual": virtual, "host": "lab1", **hashes, **(provenance or {})}
        plan = {"cycles": boots + failed, "media": list(media)}
        run = self.store.begin_run("boot", "am62xx_sk", self.board, release, plan=plan, provenance=about).id
        night = self._rng.normal(0, 0.001)
        for medium in media:
            taken = values if values is not None else 16 * factor * np.exp(self._rng.normal(night, 0.004, boots))
            for cycle, value in enumerate(taken, start=1):
                self._attempt(run, medium, cycle, serial, float(value), firmware or {})
            for cycle in range(len(taken) + 1, len(taken) + 1 + failed):
                self._attempt(run, medium, cycle, serial, None, firmware or {})
        self.store.finish_run(run, "completed")
        with Session(self.store._engine) as session, session.begin():
            session.get_one(RunRow, run).started_at = self.now
        self.now += after
        return run

    def quiet(self, nights: int, **about: Any) -> list[int]:
        """As many nights on which nothing changes, with a new image a week; their ids."""
        if about or self.store.location.path is None or self.store.runs(1):
            return [self.run(**{"image": f"image {night // 7}", **about}) for night in range(nights)]
        image, self.now, self._rng = deepcopy(_quiet(self.board, self.seed, self.now, nights))
        with closing(sqlite3.connect(":memory:")) as made, closing(sqlite3.connect(self.store.location.path)) as file:
            made.deserialize(image)
            made.backup(file)
        return list(range(1, nights + 1))

    def rows(self, whole: bool, **values: float) -> int:
        """Record a run of a section with these rows; `whole`: it did not fail before its first row. Its id."""
        run = self.store.begin_run("sections", "am62xx_sk", self.board, "11.01", plan={}, provenance={}).id
        for row, value in values.items():
            item = {"section": "ssl", "row": row}
            samples = (SampleRecord("boot.stage", {"stage": row}, value, 1e-4),)
            self.store.record_attempt(run, AttemptRecord(1, 1, item, "ok", None, None, "", self.now, 1.0, samples))
        how = ("ok", None, None) if whole else ("command_failed", "board", True)
        self.store.record_attempt(run, AttemptRecord(1, 1, {"section": "ssl"}, *how, "", self.now, 1.0))
        self.store.finish_run(run, "completed")
        self.now += DAY
        return run

    def _attempt(
        self, run: int, medium: str, cycle: int, serial: str, value: float | None, firmware: Mapping[str, str]
    ) -> None:
        params = {"medium": medium}
        good = value is not None
        self.store.record_attempt(
            run,
            AttemptRecord(
                cycle=cycle,
                number=1,
                params=params,
                outcome="ok" if good else "hang_kernel",
                fault=None if good else "board",
                transient=None if good else True,
                message="",
                started_at=self.now + dt.timedelta(minutes=cycle),
                duration_s=40.0,
                samples=(SampleRecord("boot.time", params, value, 1e-4),) if value is not None else (),
                details={
                    "identity": {"serial": serial, "macs": [], "root": ""},
                    "software": {"uboot": "U-Boot 2025.01", "kernel": "Linux version 6.12", **firmware},
                    "medium_seen": {"spl": medium},
                },
            ),
        )
