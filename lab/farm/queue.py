"""Waiting of a job for its board and for the host's capacity."""

from __future__ import annotations

import datetime as dt
import json
import logging
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from attrs import define, field, frozen

from lab.console.client import ConsoleClient
from lab.errors import BoardlabError, ConfigurationError
from lab.farm.config import Limits
from lab.host import locks
from lab.host.runtime import runtime_dir, socket_path
from lab.jobs.listing import Measuring, measuring, obstacle
from lab.jobs.queue import PERSONS, JobQueue, wait_on
from lab.jobs.records import Job
from lab.places.job_place import other_user

# --- Capacity of this host for one more measuring board, by farm.yaml and by the lateness of its stamps ---
# The host records a number of boards as too many if its stamps were too late for a minute without a change of boards. For a day its capacity is
# then one board less. The record is in the runtime folder; deleting it resets the capacity.
#
# The stamps are those of this host's console server: boards with consoles on another host count, but that host is not asked.


LEARNED: Final = "too-many.json"
_DAY: Final = dt.timedelta(days=1)
_SETTLED: Final = dt.timedelta(seconds=60)  # period of the console server's percentile
_log = logging.getLogger(__name__)


def stamps_p99_ms(runtime: Path | None = None) -> float | None:
    """Lateness of this host's console stamps at p99; None: unknown."""
    path = socket_path(runtime or runtime_dir())
    if not path.exists():
        return None
    try:
        with ConsoleClient(path) as client:
            late_ns = client.status().late_p99_ns
    except BoardlabError:
        return None
    return None if late_ns is None else late_ns / 1e6


@frozen
class HostCapacity:
    """Capacity of this host for jobs of a store.

    Attributes:
        late: current lateness of stamps in ms. folder: of the record of too many boards.
    """

    book: JobQueue
    limits: Limits
    late: Callable[[], float | None] = stamps_p99_ms
    folder: Path = field(factory=runtime_dir)
    host: str = field(factory=socket.gethostname)

    def why_wait(self) -> str:
        """Reason why one more board must wait; empty: none."""
        boards = self._measuring().boards
        most = self.limits.max_boards
        if not boards:
            return ""
        if most and boards >= most:
            return f"host {self.host} measures {_boards(boards)}, and farm.yaml allows {most} (limits: max_boards)"
        late_ms = self.late() if self.limits.late_ms else None
        if late_ms is not None and late_ms > self.limits.late_ms:
            return (
                f"host {self.host}: stamps are {late_ms:.1f} ms late at p99 with {_boards(boards)}; the {_th(boards + 1)} waits (farm.yaml, "
                f"limits: late_ms: {self.limits.late_ms:g})"
            )
        known = self._known()
        if known is not None and boards >= known[0] - 1:
            return (
                f"host {self.host}: stamps were {known[1]:.1f} ms late at p99 with {_boards(known[0])} at {known[2]:%H:%M} UTC, and {boards} "
                f"measure; the {_th(boards + 1)} waits (farm.yaml, limits: late_ms: {self.limits.late_ms:g})"
            )
        return ""

    def record(self) -> None:
        """Record the current number of boards if stamps are too late."""
        late_ms = self.late() if self.limits.late_ms else None
        if late_ms is None or late_ms <= self.limits.late_ms:
            return
        now, seen, known = self.book.now(), self._measuring(), self._known()
        settled = seen.changed_at is None or now - seen.changed_at > _SETTLED
        if seen.boards < 2 or not settled or (known is not None and known[0] < seen.boards):
            return
        text = json.dumps({"boards": seen.boards, "p99_ms": late_ms, "at": now.isoformat()})
        try:
            draft = self.folder / f"{LEARNED}.new"
            draft.write_text(text, encoding="utf-8")
            draft.replace(self.folder / LEARNED)
        except OSError as error:
            _log.warning("%s: %s", error.filename, error.strerror)

    def _measuring(self) -> Measuring:
        return measuring(self.book, self.host)

    def _known(self) -> tuple[int, float, dt.datetime] | None:
        """Last day's record: number of boards, lateness in ms, time."""
        try:
            found = json.loads((self.folder / LEARNED).read_text(encoding="utf-8"))
            known = int(found["boards"]), float(found["p99_ms"]), dt.datetime.fromisoformat(found["at"])
            return known if self.book.now() - known[2] < _DAY else None
        except (OSError, ValueError, TypeError, KeyError):
            return None


def _boards(number: int) -> str:
    return f"{number} board{'s' * (number != 1)}"


def _th(number: int) -> str:
    ending = "th" if 11 <= number % 100 <= 13 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


# --- Waiting of a job: for its board; a scheduled one also for the host's capacity and for claimants of its labgrid place ---


POLL_S: Final = 2.0  # with a sign of life each time
LOOK_S: Final = 0.5  # of a free board: a look costs a thousandth of that


@define
class JobWaiter:
    """Waits for the boards of a process's jobs.

    Attributes:
        say: tells a person a line. is_over: whether the process is to end.
        capacity: of this host; None: unlimited.
        choice: board -> environment, of a job that takes any of these boards.
    """

    book: JobQueue
    say: Callable[[str], None]
    is_over: Callable[[], bool]
    capacity: HostCapacity | None = None
    choice: Mapping[str, Path] = field(factory=dict)
    _obstacle: str = field(default="", init=False)  # reason to wait beside its board
    _unread: bool = field(default=False, init=False)  # the reason is an unreadable environment

    def wait(self, job: Job, wait_s: float) -> Job | None:
        """Wait for the job's board; None: no board.

        The job was ended, or its time was up, which was printed.

        A job in its way that seems dead is watched to the end, however short `wait_s` is.
        """
        deadline = self.book.monotonic_s + wait_s
        announced = False
        while (started := self._started_of_choice(job) if self._chooses(job) else self._started(job)) is None:
            if self.is_over() or self.book.job(job.id).cancelled_by:
                return None
            if job.yields_to and not self._unread and (self._obstacle or self.book.refusing(job.board)):
                deadline = self.book.monotonic_s + wait_s  # the claimant's time does not count
            if self.book.monotonic_s >= deadline and (self._obstacle or not self.book.watches(job.id)):
                self.say(f"{self._why(job)}. Wait for it with --wait SECONDS")
                return None
            if not announced:
                self.say(f"job {job.called} waits: {self._why(job)}")
                announced = True
            self._rest(job)
        return started

    def _chooses(self, job: Job) -> bool:
        return bool(self.choice) and job.started_at is None

    def _started_of_choice(self, job: Job) -> Job | None:
        """Start the job on the first willing board of its choice."""
        for board in self.book.free(self.choice):
            started = self._started(self.book.move(job.id, board, str(self.choice[board])))
            if started is not None:
                return started
        wait_on(self.book, job.id)
        return None

    def _why(self, job: Job) -> str:
        if self._chooses(job):
            return (
                f"none of {', '.join(sorted(self.choice))} is free; {obstacle(self.book, self.book.job(job.id).board)}"
            )
        return self._obstacle or obstacle(self.book, job.board)

    def _rest(self, job: Job) -> None:
        """Sleep until the next look is due, or the board is free."""
        due = self.book.monotonic_s + POLL_S
        choice = self.choice if self._chooses(job) else (job.board,)
        free = set(self.book.free(choice))
        while self.book.monotonic_s < due and not self.is_over():
            self.book.pause(LOOK_S)
            if set(self.book.free(choice)) - free:
                return

    def _started(self, job: Job) -> Job | None:
        """Start the job if its board, place and host are free."""
        persons = job.priority >= PERSONS
        try:
            # Before the turn: a coordinator that is slow to answer keeps no other job waiting.
            found, self._unread = other_user(self.book, job), False
        except ConfigurationError as error:  # a file that is being saved is whole at a later look
            self._obstacle, self._unread = str(error), True
            wait_on(self.book, job.id)
            return None
        had, self._obstacle = self._obstacle, found
        if persons:
            if self._obstacle or had:
                wait_on(self.book, job.id, self._obstacle)
            return None if self._obstacle else self.book.start(job.id)
        if not self._obstacle:
            with locks.turn("start", job.called, lambda _holder: None):
                self._obstacle = self.capacity.why_wait() if self.capacity is not None else ""
                if not self._obstacle:
                    return self.book.start(job.id)
        wait_on(self.book, job.id)
        return None
