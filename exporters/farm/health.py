"""The health of boards: healthy, suspect, bad, or in maintenance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import datetime
from typing import Final, get_args

from attrs import frozen
from prometheus_client import Metric

from exporters.farm.build import gauge
from lab.health import DEFAULT_RULE, QuarantineRule, State
from lab.health.reservations import QUARANTINE, standing
from lab.health.store import healths
from lab.jobs.listing import active_jobs
from lab.jobs.records import LEASE_S, Job
from lab.results.snapshot import SnapshotReader

LONGEST: Final = 160  # characters of a reason, which is a label


@frozen
class Healths:
    """The health of a store's boards.

    Attributes:
        reference: the board by which the lab is told from a release; empty: there is none.
        now: None: the store's clock.
    """

    watcher: SnapshotReader
    rule: QuarantineRule = DEFAULT_RULE
    reference: str = ""
    now: Callable[[], datetime] | None = None

    def read(self) -> list[Metric]:
        """The boards that were checked, failed lately, or are kept out.

        Raises:
            BoardlabError: the store cannot be read.
        """
        with self.watcher.snapshot() as snapshot:
            now = (self.now or snapshot.now)()
            health_of = snapshot.read(lambda session: healths(session, self.rule, now))
            holds = snapshot.read(lambda session: standing(session, None, now))
        states = [
            ((board, state), float(health.state == state))
            for board, health in health_of.items()
            for state in get_args(State)
        ]
        whys = [
            ((board, health.state, health.reasons[0][:LONGEST]), 1.0)
            for board, health in health_of.items()
            if health.state != "healthy" and health.reasons
        ]
        quarantined = [((hold.board,), hold.at.timestamp()) for hold in holds if hold.kind == QUARANTINE]
        checked = [
            ((board,), health.checked_at.timestamp()) for board, health in health_of.items() if health.checked_at
        ]
        return [
            gauge(
                "boardlab_board_health",
                "1: state of a board by its checks and failures: "
                "healthy, suspect, bad (in quarantine, or its check failed), maintenance.",
                ["board", "state"],
                states,
            ),
            gauge(
                "boardlab_board_health_info",
                "1: why a board is not healthy, the gravest reason, as `lab health` has it.",
                ["board", "state", "reason"],
                whys,
            ),
            gauge(
                "boardlab_board_quarantine_timestamp_seconds",
                "Since when a board is in quarantine.",
                ["board"],
                quarantined,
            ),
            gauge("boardlab_board_checked_timestamp_seconds", "When a board was last checked.", ["board"], checked),
            gauge(
                "boardlab_reference_board",
                "1: the board that is checked first each night.",
                ["board"],
                [((self.reference,), 1.0)] if self.reference else [],
            ),
        ]


@frozen
class Jobs:
    """The jobs in a store (`lab run`, sessions of pytest).

    Attributes:
        now: None: the store's clock, which heartbeats are of.
    """

    watcher: SnapshotReader
    now: Callable[[], datetime] | None = None

    def read(self) -> list[Metric]:
        """The jobs that have not ended.

        Raises:
            BoardlabError: the store cannot be read.
        """
        with self.watcher.snapshot() as snapshot:
            jobs = active_jobs(snapshot)
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
                "Age of the last sign of life of the board's job.",
                ["board", "board_type"],
                [((job.board, job.board_type), (now - job.heartbeat_at).total_seconds()) for job in running],
            ),
        ]


def state_of(job: Job, now: datetime) -> str:
    """The job's state for an operator; `now` is by the store's clock.

    A job that was killed while it waited has none.
    """
    silent = (now - job.heartbeat_at).total_seconds() > LEASE_S
    if silent:
        return "stuck" if job.state == "running" else "gone"
    return job.state
