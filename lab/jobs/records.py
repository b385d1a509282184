"""Jobs as records: what is to be measured, by whom, and what became of it."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, cast

from attrs import define, field, frozen

from lab.errors import ConfigurationError
from lab.results.models import JobRow
from lab.results.records import LAST_ID

JobState = Literal["queued", "running", "completed", "failed", "interrupted", "cancelled", "refused"]
BY_LAB_RUN: Final = "lab run"
BY_PYTEST: Final = "pytest"
BY_PROVISION: Final = "lab provision"
BY_HEALTH: Final = "lab health"
BY_WEB: Final = "lab web"  # which switches a board's power off and on
HEALTH: Final = "health"  # the option of a job whose board is checked first, where that is due
JOB_VARIABLE: Final = "BOARDLAB_JOB"  # how `lab run` tells its pytest whose runs it begins
AWAY_VARIABLE: Final = (
    "BOARDLAB_AWAY"  # seconds: how long that pytest waits for a host that is away before it measures
)
LETTER: Final = "j"
HasDied = Callable[[str], bool | None]  # whether a holder has died; None: it cannot be told from here
HEARTBEAT_S: Final = 10.0
LEASE_S: Final = 60.0  # without a sign of life; then another job may take the board
_MOST_DIGITS: Final = 12  # of a number that is looked at


@frozen
class Job:
    """A `lab run`, or a session of pytest.

    Attributes:
        suites: what it measures, in this order; the first `done` of them are measured. Of pytest: the kinds of its runs.
        holder: which process waits or measures, see lab.host.process.
        after_run: the suite that is being measured has a run with a higher id than this.
        options: as `lab.run.options` has them. person, program: who began it, and with what.
        cancelled_by: who wants it to end; empty: nobody.
        priority: of lab.jobs.queue. yields_to: who wants its board, or what it gave way to last; empty: nobody, or it has it again.
        request: of a queue that asked for it, in that queue's words; empty: none did.
    """

    id: int
    board_type: str
    board: str
    suites: tuple[str, ...]
    done: int
    env: str
    release: str
    cycles: int | None
    state: JobState
    holder: str
    after_run: int
    queued_at: dt.datetime
    heartbeat_at: dt.datetime
    started_at: dt.datetime | None
    finished_at: dt.datetime | None
    options: Mapping[str, Any]
    person: str
    program: str
    cancelled_by: str
    priority: int
    yields_to: str
    request: str

    @property
    def called(self) -> str:
        """Its number as a person sees and types it, which is never a run's, e.g. "j12"."""
        return call(self.id)

    @property
    def host(self) -> str:
        """Where it waits or measures."""
        return self.holder.partition("/")[0]

    @property
    def who(self) -> str:
        """Person and host."""
        return f"{self.person} on {self.host}" if self.person else self.host

    @property
    def ended(self) -> bool:
        """Whether it neither waits nor measures."""
        return self.state not in {"queued", "running"}


@frozen
class Order:
    """What a job is to measure; the options are those of `lab.run.options`."""

    board_type: str
    board: str
    suites: tuple[str, ...]
    env: str
    release: str
    cycles: int | None
    options: Mapping[str, Any] = {}


def call(job_id: int) -> str:
    """A job's number as a person sees it: "j12"."""
    return f"{LETTER}{job_id}"


def number(text: str) -> int:
    """The number in "j12" or "12".

    Raises:
        ConfigurationError: it is none.
    """
    digits = text.strip().lower().removeprefix(LETTER)
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= _MOST_DIGITS and 1 <= int(digits) <= LAST_ID):
        raise ConfigurationError(f"{text!r:.40} is no job: `lab jobs list` has their numbers, e.g. {call(12)}")
    return int(digits)


def job_of(row: JobRow) -> Job:
    """From row to record."""
    return Job(
        id=row.id,
        board_type=row.board_type,
        board=row.board,
        suites=tuple(row.suites.split(",")),
        done=row.done,
        env=row.env,
        release=row.release,
        cycles=row.cycles,
        state=cast(JobState, row.state),
        holder=row.holder,
        after_run=row.after_run,
        queued_at=row.queued_at,
        heartbeat_at=row.heartbeat_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
        options=row.options,
        person=row.person,
        program=row.program,
        cancelled_by=row.cancelled_by,
        priority=row.priority,
        yields_to=row.yields_to,
        request=row.request,
    )


def ended_as(row: JobRow, state: JobState) -> JobState:
    """How a job ended: interrupted, since somebody cancelled it?"""
    return "cancelled" if row.cancelled_by and state in {"interrupted", "refused"} else state


def seems_dead(job: Job | JobRow, now: dt.datetime, has_died: HasDied) -> bool:
    """Whether a job that has not ended seems dead at a glance. Whoever takes its board watches it first, see `Silence`.

    Args:
        now: by the clock of the heartbeats, which is the store's.
        has_died: whether a holder's process is gone; None: nobody can tell, it is of another host or user.
    """
    if _tells_by_heartbeat(job, has_died):
        return (now - job.heartbeat_at).total_seconds() > LEASE_S
    return bool(has_died(job.holder))


def _tells_by_heartbeat(job: Job | JobRow, has_died: HasDied) -> bool:
    """Whether only its heartbeat tells if a job lives; the site lives on when what it did for a board has failed."""
    gone = has_died(job.holder)
    return gone is None or (not gone and job.program == BY_WEB)


@define
class Silence:
    """For how long this process has seen jobs' heartbeats unchanged, by its own monotonic clock.

    No wall clock has a say, so neither a clock that is off nor one that jumps makes a job dead. Only time between two looks counts, and
    at most a heartbeat's for each: a process that could not look, since it or the database stood still, has seen no silence.

    Attributes:
        now_s: a monotonic clock.
    """

    now_s: Callable[[], float] = time.monotonic
    _seen: dict[int, _Seen] = field(factory=dict, init=False)

    def is_dead(self, job: Job | JobRow, has_died: HasDied) -> bool:
        """Whether another job may take the board of a job that has not ended: its process is gone, or it was silent for a lease."""
        if not _tells_by_heartbeat(job, has_died):
            return bool(has_died(job.holder))
        now_s, before = self.now_s(), self._seen.get(job.id)
        silent_s, beats = 0.0, before is not None
        if before is not None and before.heartbeat_at == job.heartbeat_at:
            silent_s, beats = before.silent_s + min(now_s - before.looked_s, HEARTBEAT_S), before.beats
        self._seen[job.id] = _Seen(job.heartbeat_at, now_s, silent_s, beats)
        return silent_s > LEASE_S

    def is_in_doubt(self, job: Job | JobRow, now: dt.datetime, has_died: HasDied) -> bool:
        """Whether a job seems dead, and this process has seen neither a lease of silence nor a heartbeat yet."""
        if not seems_dead(job, now, has_died) or self.is_dead(job, has_died):
            return False
        seen = self._seen.get(job.id)
        return seen is None or not seen.beats


@frozen
class _Seen:
    """A job's heartbeat at the last look, for how long it had been the same then, and whether it was another at an earlier look."""

    heartbeat_at: dt.datetime
    looked_s: float
    silent_s: float
    beats: bool
