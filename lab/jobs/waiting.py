"""Waiting of a job for its board, its labgrid place and the host's capacity: one loop for all programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Final, TypeAlias

from attrs import define, field

from lab.errors import ConfigurationError
from lab.host import locks
from lab.jobs.changes import BoardChanges, watching
from lab.jobs.listing import obstacle
from lab.jobs.queue import PERSONS, JobQueue, wait_on
from lab.jobs.records import HEARTBEAT_S, Job

POLL_S: Final = 2.0  # of what no change of the jobs tells: a labgrid place, room on this host, a file
# A waiting job looks each `LOOK_S` for changes of its boards, and each `HEARTBEAT_S` at their holders, with a sign of
# life. One behind others cannot be next at the next change: it looks so much more rarely.
LOOK_S: Final = 1.0
BEHIND_LOOK_S: Final = 10.0
BEHIND_HEARTBEAT_S: Final = 2 * HEARTBEAT_S
PLACE_BUSY: Final = "place_busy"  # failure: another user has the board's labgrid place
PlaceGate: TypeAlias = Callable[
    [JobQueue, Job], str
]  # other user of a job's place, see lab.places.job_place.other_user


class BusyBoardError(Exception):
    """Another job, a reservation or the user of its place has the board.

    Attributes:
        why: names it.
    """

    def __init__(self, why: str) -> None:
        super().__init__(f"{why}. Wait for it with --wait SECONDS")
        self.why = why


def has_no_place(_queue: JobQueue, _job: Job) -> str:
    """The gate of a program that labgrid has let into the place, or that needs none."""
    return ""


@define
class JobWaiter:
    """Waits for the boards of a process's jobs.

    Attributes:
        say: tells a person a line.
        other_user: of a job's place.
        is_over: whether the process is to end.
        why_full: reason why this host takes no further board; empty: none.
        choice: board -> environment, of a job that takes any of these boards.
    """

    queue: JobQueue
    say: Callable[[str], None]
    other_user: PlaceGate = has_no_place
    is_over: Callable[[], bool] = lambda: False
    why_full: Callable[[], str] = lambda: ""
    choice: Mapping[str, Path] = field(factory=dict)
    _obstacle: str = field(default="", init=False)  # reason to wait beside its board
    _unread: bool = field(default=False, init=False)  # the reason is an unreadable environment

    def wait(self, job: Job, wait_s: float) -> Job | None:
        """Wait for the job's board; None: the process is to end, or somebody cancelled the job.

        A job in its way that seems dead is watched to the end, however short `wait_s` is.

        Raises:
            BusyBoardError: its time is up.
        """
        deadline = self.queue.monotonic_s + wait_s
        announced = False
        with ExitStack() as stack:
            changes: BoardChanges | None = None
            while (started := self._start_of_choice(job) if self._chooses(job) else self._start(job)) is None:
                if self.is_over() or self.queue.job(job.id).cancelled_by:
                    return None
                if job.yields_to and not self._unread and (self._obstacle or self.queue.refusing(job.board)):
                    deadline = self.queue.monotonic_s + wait_s  # the claimant's time does not count
                if self.queue.monotonic_s >= deadline and (self._obstacle or not self.queue.watches(job.id)):
                    raise BusyBoardError(self._why(job))
                if not announced:
                    self.say(f"job {job.called} waits: {self._why(job)}")
                    announced = True
                if changes is None:
                    boards = tuple(self.choice) if self._chooses(job) else (job.board,)
                    changes = stack.enter_context(watching(self.queue.store, boards, self.queue.pause))
                else:
                    self._rest(job, changes, deadline)
        return started

    def _chooses(self, job: Job) -> bool:
        return bool(self.choice) and job.started_at is None

    def _start_of_choice(self, job: Job) -> Job | None:
        """Start the job on the first willing board of its choice."""
        for board in self.queue.free(self.choice):
            started = self._start(self.queue.move(job.id, board, str(self.choice[board])))
            if started is not None:
                return started
        wait_on(self.queue, job.id)
        return None

    def _why(self, job: Job) -> str:
        if self._chooses(job):
            boards = ", ".join(sorted(self.choice))
            return f"none of {boards} is free; {obstacle(self.queue, self.queue.job(job.id).board)}"
        return self._obstacle or obstacle(self.queue, job.board)

    def _rest(self, job: Job, changes: BoardChanges, deadline: float) -> None:
        """Wait until `start` may take a board, or something else is to be looked at."""
        now_s = self.queue.monotonic_s
        is_watching = deadline <= now_s  # a silent job, whose next sign of life ends the wait and is no change
        is_polling = bool(self._obstacle) or is_watching
        look_s, heartbeat_s = LOOK_S, POLL_S if is_polling else HEARTBEAT_S
        if not (is_polling or self._chooses(job) or self.queue.is_next(job)):
            look_s, heartbeat_s = BEHIND_LOOK_S, BEHIND_HEARTBEAT_S
        due_s = now_s + heartbeat_s
        while not self.is_over():
            now_s = self.queue.monotonic_s
            if not is_watching:
                due_s = min(due_s, deadline)
            if now_s < due_s:
                if changes.wait(min(look_s, due_s - now_s)):
                    return
            elif (
                is_polling or job.yields_to or now_s >= deadline or not self.queue.is_kept_waiting(job, changes.boards)
            ):
                return
            else:
                due_s = now_s + heartbeat_s

    def _start(self, job: Job) -> Job | None:
        """Start the job if its board, place and host are free."""
        previous = self._obstacle
        try:
            # Before the turn: a coordinator that is slow to answer keeps no other job waiting.
            self._obstacle, self._unread = self.other_user(self.queue, job), False
        except ConfigurationError as error:  # a file that is being saved is whole at a later look
            self._obstacle, self._unread = str(error), True
            wait_on(self.queue, job.id)
            return None
        if job.priority >= PERSONS:
            if self._obstacle or previous:
                wait_on(self.queue, job.id, self._obstacle)  # the place's user gets the board before us
            return None if self._obstacle else self.queue.start(job.id)
        if not self._obstacle:
            with locks.turn("start", job.called, lambda _holder: None):
                self._obstacle = self.why_full()
                if not self._obstacle:
                    return self.queue.start(job.id)
        wait_on(self.queue, job.id)
        return None
