"""Runs that are killed: who is the next victim, and what the farm's store says afterwards: each done, or failed with a class, nothing counted twice."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Mapping, Sequence

from attrs import define, field
from sqlalchemy import func, select

from lab.failures import CATALOGUE
from lab.host import process
from lab.host.clock import utc_now
from lab.jobs import listing
from lab.judge.run_judge import CONFIRMS
from lab.results import Run, Store
from lab.results.models import AttemptRow, JobRow

SUCCESS, WORSE, FAILURE, EXCEPTION = 0, 1, 2, 4  # of Buildbot; a run that failed by the lab is an exception


@define
class Deck:
    """What is done next: all of it in a random order, then all of it again in another. What found nobody to kill comes once more in the next order.

    Attributes:
        kinds: one that is named twice comes twice as often.
    """

    kinds: Sequence[str]
    chance: random.Random
    _left: list[str] = field(factory=list, init=False)
    _again: list[str] = field(factory=list, init=False)

    def draw(self) -> str:
        """The next."""
        if not self._left:
            self._left, self._again = [*self.kinds, *self._again], []
            self.chance.shuffle(self._left)
        return self._left.pop()

    def put_back(self, kind: str) -> None:
        """Nobody was there."""
        self._again.append(kind)


@define
class Leases:
    """How long boards are kept from a job that waits by one whose process is gone.

    Attributes:
        since: job -> since when, by time.monotonic(). longest: seconds, so far, and whose.
    """

    store: Store
    since: dict[str, float] = field(factory=dict)
    longest: tuple[float, str] = (0.0, "")

    def look(self) -> None:
        """Look once."""
        wanted = select(JobRow.id, JobRow.board, JobRow.state, JobRow.holder)
        rows = self.store.rows(wanted.where(JobRow.state.in_(("queued", "running"))))
        waiting = {row.board for row in rows if row.state == "queued" and process.has_died(row.holder) is False}
        dead = [row for row in rows if row.state == "running" and process.has_died(row.holder) is not False]
        now = time.monotonic()
        kept = [f"{row.board} by job j{row.id}" for row in dead if row.board in waiting]
        self.since = {each: self.since.get(each, now) for each in kept}
        for each, began in self.since.items():
            self.longest = max(self.longest, (now - began, each))


def progress(store: Store) -> int:
    """Jobs that began, and attempts that were made."""
    return store.read(
        lambda session: sum(session.scalar(select(func.count()).select_from(row)) or 0 for row in (JobRow, AttemptRow))
    )


def _end(store: Store, run: Run, name: str) -> str:
    """ "completed", or the class with which it failed."""
    if run.status == "completed":
        return run.status
    assert run.status == "failed", f"{name}: {run.status}"
    last = store.attempts(run.id)[-1].outcome
    assert last in CATALOGUE, f"{name}: it failed without a class: {last}"
    return last


def look(store: Store, ended: Mapping[str, int], cycles: int) -> Counter[str]:
    """The counts, classes and leases; how often runs were measured, or failed with each class, and how many confirm another, as the judge asked.

    Args:
        ended: label of each run -> its result at Buildbot. cycles: that each has planned.
    """
    planned, every = list(range(1, cycles + 1)), store.runs()
    found = Counter[str]()
    assert {run.release for run in every} <= ended.keys()
    for name, result in ended.items():
        its = [run for run in every if run.release == name]
        runs = [run for run in its if CONFIRMS not in run.provenance]
        assert len(runs) <= 1, f"{name}: begun anew in place of resumed"
        for run in its:
            taken = [
                (sample.metric, tuple(sorted(sample.params.items())), sample.cycle) for sample in store.samples(run.id)
            ]
            assert len(taken) == len(set(taken)), f"{name}: run {run.id} has a sample twice"
        found["confirming"] += len(its) - len(runs)
        samples = [sample for run in runs for sample in store.samples(run.id)]
        measured = sorted(sample.cycle for sample in samples if sample.metric == "boot.time")
        if result in {SUCCESS, WORSE}:
            assert measured == planned, name
            assert {sample.cycle for sample in samples} == set(planned), name
            assert {run.status for run in runs} == {"completed"}, name
            found["measured"] += 1
            ways = Counter(_end(store, run, f"{name}, run {run.id} confirming") for run in its if run not in runs)
            found += Counter({f"{way} while confirming": count for way, count in ways.items() if way != "completed"})
        else:
            assert result in {FAILURE, EXCEPTION}, f"{name}: {result} of Buildbot"
            assert set(measured) < set(planned), f"{name}: all is measured, and it failed"
            (run,) = runs
            found[_end(store, run, name)] += 1
    active = [view.job for view in listing.jobs(store, 0, utc_now()) if not view.job.ended]
    assert [(job.called, job.board, job.state) for job in active] == [], "a lease is left"
    return found
