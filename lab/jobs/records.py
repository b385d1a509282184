"""The records of jobs, and the rule by which a job counts as dead."""

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
BY_WEB: Final = "lab web"  # the site, when it switches a board's power off and on
BOARDS: Final = "boards"  # option of a job that takes any of these boards; it may change its board until it starts
HEALTH: Final = "health"  # option of a job that checks its board first, if a check is due
JOB_VARIABLE: Final = "BOARDLAB_JOB"  # variable by which `lab run` tells its pytest the job
AWAY_VARIABLE: Final = "BOARDLAB_AWAY"  # variable: seconds that this pytest waits for a host that is away
LETTER: Final = "j"  # before a job's number, so that nobody takes it for a run's
HasDied = Callable[[str], bool | None]  # from a holder; True: its process has ended; None: unknown on this host
HEARTBEAT_S: Final = 10.0
LEASE_S: Final = 60.0  # after so long without a heartbeat another job may take the board
_MOST_DIGITS: Final = 12  # longer texts are not parsed as a number


@frozen
class Order:
    """An order of measurements on one board.

    Attributes:
        suites: suites to measure, in this order; for a session of pytest the kinds of its runs.
        env: path of the environment file.
        release: label of the software; empty: the runs find it out.
        cycles: cycles of each suite; None: its default.
        options: options by name, as `lab.run.options` checks them.
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
        done: number of suites that are measured already.
        holder: the process that waits or measures, as host, boot and pid (`lab.host.process`).
        after_run: runs of the current suite have larger ids than this.
        heartbeat_at: last heartbeat of the holder.
        person, program: person and program that have started it.
        cancelled_by: person who cancelled it; empty: nobody.
        priority: see `lab.jobs.queue`.
        yields_to: person or job that it has left the board to, or is to leave it to; empty: nobody.
        request: id of the request in another queue that it belongs to, e.g. Buildbot's; empty: none.
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
        """The job's number as people write it, e.g. "j12"."""
        return call(self.id)

    @property
    def host(self) -> str:
        """The host of the holder."""
        return self.holder.partition("/")[0]

    @property
    def who(self) -> str:
        """The person and the host, e.g. "lena on lab-2"."""
        return f"{self.person} on {self.host}" if self.person else self.host

    @property
    def ended_at(self) -> dt.datetime:
        """The end of the job; of a job without one its last heartbeat."""
        return self.finished_at or self.heartbeat_at

    @property
    def ended(self) -> bool:
        """True if the job neither waits nor measures."""
        return self.state not in {"queued", "running"}


def call(job_id: int) -> str:
    """Return a job's number as people write it, e.g. "j12"."""
    return f"{LETTER}{job_id}"


def number(text: str) -> int:
    """Return the number in "j12" or "12".

    Raises:
        ConfigurationError: the text is not the number of a job.
    """
    digits = text.strip().lower().removeprefix(LETTER)
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= _MOST_DIGITS and 1 <= int(digits) <= LAST_ID):
        raise ConfigurationError(f"{text!r:.40} is no job: `lab jobs list` has their numbers, e.g. {call(12)}")
    return int(digits)


def job_of(row: JobRow | Row[Any]) -> Job:
    """Return the record of a row."""
    return record_of(Job, row, suites=tuple(row.suites.split(",")))


def final_state(row: JobRow, state: JobState) -> JobState:
    """Return the state in which a job ends; a job that somebody cancelled ends as cancelled, not as interrupted."""
    return "cancelled" if row.cancelled_by and state in {"interrupted", "refused"} else state


def seems_dead(job: Job | JobRow, now: dt.datetime, has_died: HasDied) -> bool:
    """Return True if a job that has not ended seems dead by one look at it.

    Before its board is taken the job is watched, see `Silence`.

    Args:
        now: time by the clock of the heartbeats, which is the store's.
        has_died: tells whether a holder's process has ended; None: it is of another host or user.
    """
    is_gone = _is_gone(job, has_died)
    return (now - job.heartbeat_at).total_seconds() > LEASE_S if is_gone is None else is_gone


def _is_gone(job: Job | JobRow | Row[Any], has_died: HasDied) -> bool | None:
    """Return True if a job's process has ended; None: only its heartbeats show whether it lives.

    A living process of the site proves nothing: it goes on after an action on a board has failed.
    """
    is_gone = has_died(job.holder)
    return None if not is_gone and job.program == BY_WEB else is_gone


@define
class Silence:
    """The silence of jobs, i.e. the time without a new heartbeat that this process has observed.

    It is measured by this process's monotonic clock, so that a wrong wall clock or one that jumps makes no job dead.
    Only time between two looks counts, and at most the time of one heartbeat for each pair of looks: a process that
    could not look, because it or the database stood still, has observed no silence.

    Attributes:
        now_s: a monotonic clock.
    """

    now_s: Callable[[], float] = time.monotonic
    _observations: dict[int, _Observation] = field(factory=dict, init=False)

    def is_dead(self, job: Job | JobRow | Row[Any], has_died: HasDied) -> bool:
        """Look at a job; return True if its process has ended, or if it was silent for a lease.

        The board of a dead job may be taken over.
        """
        if (is_gone := _is_gone(job, has_died)) is not None:
            return is_gone
        now_s, before = self.now_s(), self._observations.get(job.id)
        silent_s, beats = 0.0, before is not None
        if before is not None and before.heartbeat_at == job.heartbeat_at:
            silent_s, beats = before.silent_s + min(now_s - before.looked_s, HEARTBEAT_S), before.beats
        self._observations[job.id] = _Observation(job.heartbeat_at, now_s, silent_s, beats)
        return silent_s > LEASE_S

    def is_silent(self, job: JobRow | Row[Any]) -> bool:
        """Return True if the last look at a job saw no new heartbeat."""
        last_look = self._observations.get(job.id)
        return last_look is not None and last_look.silent_s > 0

    def is_in_doubt(self, job: Job | JobRow, now: dt.datetime, has_died: HasDied) -> bool:
        """Return True if a job seems dead, and neither its death nor its life is proved yet."""
        if not seems_dead(job, now, has_died) or self.is_dead(job, has_died):
            return False
        last_look = self._observations.get(job.id)
        return last_look is None or not last_look.beats


@frozen
class _Observation:
    """The observations of a job by its waiters.

    Attributes:
        heartbeat_at: heartbeat at the last look.
        looked_s: time of the last look, by the monotonic clock.
        silent_s: observed time without a new heartbeat.
        beats: True if two looks have seen different heartbeats.
    """

    heartbeat_at: dt.datetime
    looked_s: float
    silent_s: float
    beats: bool
