"""Jobs and orders as records."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

from attrs import define, field, frozen
from sqlalchemy import Row

from lab.errors import ConfigurationError
from lab.results.models import JobRow
from lab.results.records import LAST_ID
from lab.results.rows import record_of

JobState = Literal["queued", "running", "completed", "failed", "interrupted", "cancelled", "refused"]
BY_LAB_RUN: Final = "lab run"
BY_PYTEST: Final = "pytest"
BY_PROVISION: Final = "lab provision"
BY_AB: Final = "lab ab"
BY_BISECT: Final = "lab bisect"
BY_QUALIFY: Final = "lab farm qualify"
BY_HEALTH: Final = "lab health"
BY_WEB: Final = "lab web"  # which switches a board's power off and on
# The option of a job that takes any of these boards; it moves to another one until it has begun
BOARDS: Final = "boards"
HEALTH: Final = "health"  # the option of a job whose board is checked first, where that is due
JOB_VARIABLE: Final = "BOARDLAB_JOB"  # the job of the runs, from `lab run` to its pytest
AWAY_VARIABLE: Final = "BOARDLAB_AWAY"  # seconds: wait of that pytest for a host that is away
LETTER: Final = "j"
HasDied = Callable[[str], bool | None]  # True: the holder has died; None: unknown here
HEARTBEAT_S: Final = 10.0
LEASE_S: Final = 60.0  # without a sign of life; then another job may take the board
_MOST_DIGITS: Final = 12  # of a number that is looked at


@frozen
class Order:
    """An order of measurements.

    Attributes:
        suites: to measure, in this order. Of pytest: the kinds of its runs.
        options: as `lab.run.options` has them.
    """

    board_type: str
    board: str
    suites: tuple[str, ...]
    env: str
    release: str
    cycles: int | None
    options: Mapping[str, Any] = {}


@frozen(kw_only=True)
class Job(Order):
    """An order that is carried out: a `lab run`, or a session of pytest.

    Attributes:
        done: number of the suites that are measured, the first ones.
        holder: the waiting or measuring process, see lab.host.process.
        after_run: the current suite's runs have higher ids than this.
        person, program: its starter.
        cancelled_by: the person who cancelled it; empty: none.
        priority: of lab.jobs.queue.
        yields_to: the claimant of its board, now or at last; empty: none, or it has it again.
        request: of a queue, in that queue's words; empty: none.
    """

    id: int
    done: int
    state: JobState
    holder: str
    after_run: int
    queued_at: dt.datetime
    heartbeat_at: dt.datetime
    started_at: dt.datetime | None
    finished_at: dt.datetime | None
    person: str
    program: str
    cancelled_by: str
    priority: int
    yields_to: str
    request: str

    @property
    def called(self) -> str:
        """Its number for people, never a run's, e.g. "j12"."""
        return call(self.id)

    @property
    def host(self) -> str:
        """The host of its holder."""
        return self.holder.partition("/")[0]

    @property
    def who(self) -> str:
        """Person and host."""
        return f"{self.person} on {self.host}" if self.person else self.host

    @property
    def ended_at(self) -> dt.datetime:
        """Its end, or its last sign of life."""
        return self.finished_at or self.heartbeat_at

    @property
    def ended(self) -> bool:
        """True if it neither waits nor measures."""
        return self.state not in {"queued", "running"}


def call(job_id: int) -> str:
    """A job's number for people: "j12"."""
    return f"{LETTER}{job_id}"


def number(text: str) -> int:
    """The number of "j12" or "12".

    Raises:
        ConfigurationError: it is none.
    """
    digits = text.strip().lower().removeprefix(LETTER)
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= _MOST_DIGITS and 1 <= int(digits) <= LAST_ID):
        raise ConfigurationError(f"{text!r:.40} is no job: `lab jobs list` has their numbers, e.g. {call(12)}")
    return int(digits)


def job_of(row: JobRow | Row[Any]) -> Job:
    """Convert a row to a record."""
    return record_of(Job, row, suites=tuple(row.suites.split(",")))


def final_state(row: JobRow, state: JobState) -> JobState:
    """A job's final state; an interrupted one may be cancelled."""
    return "cancelled" if row.cancelled_by and state in {"interrupted", "refused"} else state


def seems_dead(job: Job | JobRow, now: dt.datetime, has_died: HasDied) -> bool:
    """True if an unended job seems dead at a glance.

    A takeover watches it first, see `Silence`.

    Args:
        now: by the clock of the heartbeats, which is the store's.
        has_died: True if a holder's process is gone; None: unknown, it is of another host or user.
    """
    gone = _is_gone(job, has_died)
    return (now - job.heartbeat_at).total_seconds() > LEASE_S if gone is None else gone


def _is_gone(job: Job | JobRow | Row[Any], has_died: HasDied) -> bool | None:
    """True if a job's process is gone; None: only its heartbeat shows whether it lives.

    The site outlives a failed action on a board.
    """
    gone = has_died(job.holder)
    return None if not gone and job.program == BY_WEB else gone


@define
class Silence:
    """Observed silence of jobs' heartbeats, by our own monotonic clock.

    No wall clock counts, so neither a wrong clock nor one that jumps makes a job dead. Only time between two looks
    counts, and at most a heartbeat's for each: a process that could not look, since it or the database stood still,
    has seen no silence.

    Attributes:
        now_s: a monotonic clock.
    """

    now_s: Callable[[], float] = time.monotonic
    _seen: dict[int, _Seen] = field(factory=dict, init=False)

    def is_dead(self, job: Job | JobRow | Row[Any], has_died: HasDied) -> bool:
        """True if an unended job's board may be taken over.

        Its process is gone, or it was silent for a lease.
        """
        if (gone := _is_gone(job, has_died)) is not None:
            return gone
        now_s, before = self.now_s(), self._seen.get(job.id)
        silent_s, beats = 0.0, before is not None
        if before is not None and before.heartbeat_at == job.heartbeat_at:
            silent_s, beats = before.silent_s + min(now_s - before.looked_s, HEARTBEAT_S), before.beats
        self._seen[job.id] = _Seen(job.heartbeat_at, now_s, silent_s, beats)
        return silent_s > LEASE_S

    def is_silent(self, job: JobRow | Row[Any]) -> bool:
        """True if the last look at a job saw no new sign of life."""
        last_look = self._seen.get(job.id)
        return last_look is not None and last_look.silent_s > 0

    def is_in_doubt(self, job: Job | JobRow, now: dt.datetime, has_died: HasDied) -> bool:
        """True if a job seems dead without proof of either yet."""
        if not seems_dead(job, now, has_died) or self.is_dead(job, has_died):
            return False
        last_look = self._seen.get(job.id)
        return last_look is None or not last_look.beats


@frozen
class _Seen:
    """A job's heartbeat at the last look, and its silence.

    beats: an earlier look saw another heartbeat.
    """

    heartbeat_at: dt.datetime
    looked_s: float
    silent_s: float
    beats: bool
