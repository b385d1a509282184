"""The boards of a farm: their states (of `lab status`), health and jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
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

UNKNOWN: Final = "unknown"  # board type of a board that was never measured: dashboards' choices match no empty label
LONGEST: Final = 160  # characters of a reason, which is a label


@frozen
class ExportedBoard:
    """A board's state for Prometheus.

    Attributes:
        fault: whose it is, e.g. "board"; empty: unknown, or none.
        since: begin of the state; None: unknown.
        worse: numbers that are worse and wait for a decision; None: they are not judged yet.
        confirmed: number of those that a second night confirms and no verdict tells, by the state of a known failure
            (empty: none).
    """

    board: str
    board_type: str
    state: str
    cause: str
    fault: str
    since: datetime | None
    worse: int | None
    confirmed: Mapping[str, int]


def families(boards: Collection[ExportedBoard]) -> list[Metric]:
    """Families of Prometheus: the state of each board, and its worse numbers."""
    named = [((board.board, board.board_type or UNKNOWN), board) for board in boards]
    return [
        gauge(
            "boardlab_board_state",
            "1: the state of the board, as `lab status` and the wall have it, and whose fault a problem is.",
            ["board", "board_type", "state", "fault"],
            [((*name, board.state, board.fault), 1.0) for name, board in named],
        ),
        gauge(
            "boardlab_board_state_info",
            "1: the cause of a board's problem or maintenance.",
            ["board", "board_type", "state", "cause"],
            [((*name, board.state, board.cause), 1.0) for name, board in named if board.cause],
        ),
        gauge(
            "boardlab_board_state_since_timestamp_seconds",
            "Begin of the state, where it is known.",
            ["board", "board_type"],
            [(name, board.since.timestamp()) for name, board in named if board.since],
        ),
        gauge(
            "boardlab_board_worse_numbers",
            "Numbers of the board's latest runs that are worse and wait for a decision.",
            ["board", "board_type"],
            [(name, float(board.worse)) for name, board in named if board.worse is not None],
        ),
        gauge(
            "boardlab_board_worse_confirmed",
            "Those of them that the next night, of any release, left worse and no verdict tells.",
            ["board", "board_type", "known"],
            [((*name, state), float(n)) for name, board in named for state, n in board.confirmed.items()],
        ),
    ]


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
        held = [((hold.board, hold.kind, hold.person), 1.0) for hold in holds]
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
                "boardlab_board_hold",
                "1: a reservation, maintenance, quarantine or qualification of a board, and whose it is.",
                ["board", "kind", "person"],
                held,
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
