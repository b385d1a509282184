"""Clocks that a test turns, and jobs that start by them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from typing import Any, Final

from lab.jobs.queue import JobQueue
from lab.jobs.records import HEARTBEAT_S, LEASE_S, Job, Order

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


class Steady:
    """A monotonic clock that a test turns; `at`: what happens at an instant of it, once."""

    def __init__(self, at: Mapping[float, Callable[[], Any]] | None = None) -> None:
        self.now_s = 0.0
        self.at = dict(at or {})

    def __call__(self) -> float:
        return self.now_s

    def pause(self, seconds: float) -> None:
        """Go on by so much."""
        self.now_s += seconds
        for due in sorted(each for each in self.at if each <= self.now_s):
            self.at.pop(due)()


def watched(jobs: JobQueue, steady: Steady, job_id: int) -> None:
    """Have a process watch a silent job for a lease."""
    until_s = steady.now_s + LEASE_S + HEARTBEAT_S
    while steady.now_s < until_s:
        jobs.has_board(job_id)
        steady.pause(HEARTBEAT_S)


def started(jobs: JobQueue, order: Order = ORDER) -> Job:
    """A job of the order that has its board."""
    job = jobs.start(jobs.enqueue(order).id)
    assert job is not None
    return job
