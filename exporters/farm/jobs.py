"""Jobs (`lab run`, sessions of pytest): those that wait, those that measure, those that stopped giving signs of life."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import datetime

from attrs import frozen
from prometheus_client import Metric

from exporters.farm.build import gauge
from lab.jobs.records import LEASE_S
from lab.results.snapshot import JobHead, PastJob, Watcher


@frozen
class Jobs:
    """The jobs in a store.

    Attributes:
        now: None: the store's clock, which heartbeats are of.
    """

    watcher: Watcher
    now: Callable[[], datetime] | None = None

    def read(self) -> list[Metric]:
        """The jobs that have not ended.

        Raises:
            BoardlabError: the store cannot be read.
        """
        with self.watcher.snapshot() as snapshot:
            jobs = snapshot.jobs()
            now = (self.now or snapshot.now)()
        counts: Counter[tuple[str, str, str]] = Counter()
        for job in jobs:
            for state in ("queued", "running", "stuck"):
                counts[job.board, job.board_type, state] += state_of(job, now) == state
        running = [job for job in jobs if job.state == "running"]
        return [
            gauge(
                "boardlab_jobs",
                "Jobs of a board: queued (wait for it), running, stuck (hold it, but give no sign of life).",
                ["board", "board_type", "state"],
                list(counts.items()),
            ),
            gauge(
                "boardlab_job_heartbeat_age_seconds",
                "Since who holds the board last gave a sign of life.",
                ["board", "board_type"],
                [((job.board, job.board_type), (now - job.heartbeat_at).total_seconds()) for job in running],
            ),
        ]


def state_of(job: JobHead | PastJob, now: datetime) -> str:
    """The job's state for an operator; `now` is by the store's clock.

    A job that was killed while it waited has none.
    """
    silent = (now - job.heartbeat_at).total_seconds() > LEASE_S
    if silent:
        return "stuck" if job.state == "running" else "gone"
    return job.state
