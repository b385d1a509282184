"""A wall clock that a test turns, and jobs that start by it."""

from __future__ import annotations

import datetime as dt
from typing import Final

from lab.results.jobrecords import Job, Order
from lab.results.jobs import JobQueue

START: Final = dt.datetime(2026, 3, 2, 2, 0, tzinfo=dt.UTC)
ORDER: Final = Order("am62xx_sk", "b1", ("boot", "low_power"), "envs/am62x.yaml", "11.01", 20)


class Wall:
    """A wall clock that a test turns."""

    def __init__(self, at: dt.datetime = START) -> None:
        self.at = at

    def __call__(self) -> dt.datetime:
        return self.at

    def later(self, seconds: float = 0.0, *, minutes: float = 0.0, hours: float = 0.0) -> None:
        self.at += dt.timedelta(seconds=seconds, minutes=minutes, hours=hours)


def started(jobs: JobQueue, order: Order = ORDER) -> Job:
    """A job of the order that has its board."""
    job = jobs.start(jobs.enqueue(order).id)
    assert job is not None
    return job
