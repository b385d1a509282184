"""The loop in which a job waits for its board, its labgrid place and its host's capacity, for all programs.

The database tells it of changed jobs and reservations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias

from attrs import define, field
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import PoolProxiedConnection

from lab.errors import BoardlabError, ConfigurationError
from lab.host import locks
from lab.jobs.listing import obstacle
from lab.jobs.queue import PERSONS, JobQueue, Prospect, wait_on
from lab.jobs.records import HEARTBEAT_S, Job
from lab.results.store import Store

# Time between two looks at a labgrid place, at this host's capacity or at a file: no change of a job tells of them.
POLL_S: Final = 2.0
# A waiting job looks for changes of its boards each `LOOK_S`. Each `HEARTBEAT_S` it sends a heartbeat, and looks
# whether the jobs before it live. A job that is behind other waiting jobs cannot be next at the next change, so it
# looks less often as long as all of these live.
LOOK_S: Final = 1.0
BEHIND_LOOK_S: Final = 10.0
BEHIND_HEARTBEAT_S: Final = 2 * HEARTBEAT_S
PLACE_BUSY: Final = "place_busy"  # failure class: another user has the board's labgrid place
# Returns the other user of a job's place; empty: there is none (lab.places.job_place.other_user).
PlaceGate: TypeAlias = Callable[[JobQueue, Job], str]
CHANNEL: Final = "boardlab_board"  # channel of NOTIFY by triggers of lab/results/migrations; its payload is the board
_LISTENS: Final = "boardlab listens"  # key in the `info` of a connection that listens to the channel
_CHUNK: Final = 500  # boards in one query; SQLite bounds the number of parameters
# The jobs and reservations of some boards, each as one text: reading them as rows takes longer in Python.
_STATE: Final = """
SELECT (SELECT group_concat(id || state || cancelled_by || yields_to, char(10)) FROM jobs
        WHERE state IN ('queued', 'running') AND board IN ({0})),
       (SELECT group_concat(id || at || coalesce(until, ''), char(10)) FROM reservations
        WHERE ended_at IS NULL AND board IN ({0}))
"""


@define
class BoardChanges:
    """Detects changes of the jobs and reservations of some boards.

    It gives hints only: while the database is away no change is seen. PostgreSQL sends notices. SQLite's
    `data_version` changes with each commit of another connection (sqlite.org/pragma.html); the rows are compared then.

    Attributes:
        boards: names of the boards.
        pause: waits that many seconds.
    """

    store: Store
    boards: Sequence[str]
    pause: Callable[[float], None]
    _connection: PoolProxiedConnection | None = field(default=None, init=False)
    _watches: bool = field(default=False, init=False)  # True: a connection listens to the server's notices
    _version: int = field(default=0, init=False)  # SQLite's data_version at the last look
    _rows: tuple[Any, ...] | None = field(default=None, init=False)  # SQLite's rows at the last look

    def wait(self, seconds: float) -> bool:
        """Wait that long, or until a change; return True if there may have been one."""
        try:
            if self._watches and self._is_server:
                return self._is_notified(seconds)
            self.pause(seconds)
            if self._is_server:
                self._watches = True
                return self._is_notified(0.0)
            if self._connection is None:
                self._connection = self.store.connection()
            return self._is_changed(self._connection.driver_connection)
        except (BoardlabError, SQLAlchemyError, self.store.driver_error):
            self.close()
            return False

    @property
    def _is_server(self) -> bool:
        return self.store.location.path is None

    def _is_notified(self, seconds: float) -> bool:
        """Wait for the server's notice about one of these boards.

        It uses a connection of the store's pool, so that a waiting job needs only one.
        """
        connection = self.store.connection()
        try:
            driver: Any = connection.driver_connection
            driver.autocommit = True
            is_new = _LISTENS not in connection.info
            if is_new:
                driver.execute(f"LISTEN {CHANNEL}")
                connection.info[_LISTENS] = True
            notices = driver.notifies(timeout=0.0 if is_new else seconds, stop_after=1)
            changed = {notice.payload for notice in notices}
            driver.autocommit = False
        except BaseException:
            connection.invalidate()
            raise
        connection.close()
        return is_new or not changed.isdisjoint(self.boards)

    def _is_changed(self, driver: Any) -> bool:
        """Return True if the rows of these boards differ from those at the last look, on SQLite."""
        (version,) = driver.execute("PRAGMA data_version").fetchone()
        if version == self._version and self._rows is not None:
            return False
        self._version, before = version, self._rows
        chunks = [self.boards[start : start + _CHUNK] for start in range(0, len(self.boards), _CHUNK)]
        self._rows = tuple(
            driver.execute(
                _STATE.format(", ".join(f"?{number}" for number in range(1, len(boards) + 1))), boards
            ).fetchone()
            for boards in chunks
        )
        return self._rows != before

    def close(self) -> None:
        """Close the connection that was used to wait."""
        if self._watches:
            self._watches = False
            self.store.close()  # closes the idle connections, among them the one that listens
        if self._connection is not None:
            connection, self._connection, self._rows = self._connection, None, None
            connection.invalidate()


@contextmanager
def watching(store: Store, boards: Sequence[str], pause: Callable[[float], None]) -> Iterator[BoardChanges]:
    """Detect changes of these boards from now on."""
    changes = BoardChanges(store, boards, pause)
    try:
        changes.wait(0.0)
        yield changes
    finally:
        changes.close()


class BusyBoardError(Exception):
    """The error of a board that another job, a reservation or the user of its place has.

    Attributes:
        why: sentence that names the other one.
    """

    def __init__(self, why: str) -> None:
        super().__init__(f"{why}. Wait for it with --wait SECONDS")
        self.why = why


def has_no_place(_queue: JobQueue, _job: Job) -> str:
    """Return no other user: for a program that has the labgrid place already, or needs none."""
    return ""


@define
class JobWaiter:
    """Waits for the boards of a process's jobs.

    Attributes:
        say: takes a line for a person.
        other_user: returns the other user of a job's labgrid place.
        is_over: returns True if the process has to end.
        why_full: returns the reason why this host takes no further board; empty: it does.
        choice: board -> environment, for a job that takes any of these boards.
    """

    queue: JobQueue
    say: Callable[[str], None]
    other_user: PlaceGate = has_no_place
    is_over: Callable[[], bool] = lambda: False
    why_full: Callable[[], str] = lambda: ""
    choice: Mapping[str, Path] = field(factory=dict)
    _obstacle: str = field(default="", init=False)  # reason to wait other than the board itself; empty: none
    _unread: bool = field(default=False, init=False)  # True: the reason is an environment that cannot be read

    def wait(self, job: Job, wait_s: float) -> Job | None:
        """Wait for the board of a job, and start the job.

        If a job that seems dead is in the way, the wait lasts until that is decided, however short `wait_s` is.

        Returns:
            The started job; None: the process has to end, or somebody cancelled the job.

        Raises:
            BusyBoardError: `wait_s` has passed.
        """
        deadline = self.queue.monotonic_s + wait_s
        announced = False
        with ExitStack() as stack:
            changes: BoardChanges | None = None
            while (started := self._start_of_choice(job) if self._chooses(job) else self._start(job)) is None:
                if self.is_over() or self.queue.job(job.id).cancelled_by:
                    return None
                if job.yields_to and not self._unread and (self._obstacle or self.queue.refusing(job.board)):
                    deadline = self.queue.monotonic_s + wait_s  # time that the job yields does not count
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
        """Return True if the job may still take any board of its choice."""
        return bool(self.choice) and job.started_at is None

    def _start_of_choice(self, job: Job) -> Job | None:
        """Start the job on the first board of its choice that is free; None: none is."""
        for board in self.queue.free(self.choice):
            started = self._start(self.queue.move(job.id, board, str(self.choice[board])))
            if started is not None:
                return started
        wait_on(self.queue, job.id)
        return None

    def _why(self, job: Job) -> str:
        """Return the reason why the job waits."""
        if self._chooses(job):
            boards = ", ".join(sorted(self.choice))
            return f"none of {boards} is free; {obstacle(self.queue, self.queue.job(job.id).board)}"
        return self._obstacle or obstacle(self.queue, job.board)

    def _rest(self, job: Job, changes: BoardChanges, deadline: float) -> None:
        """Wait until `_start` may succeed, or until its next try is due."""
        now_s = self.queue.monotonic_s
        # After the deadline a silent job is being watched. Its next heartbeat ends the wait, but is no change.
        is_watching = deadline <= now_s
        is_polling = bool(self._obstacle) or is_watching
        look_s, heartbeat_s = LOOK_S, POLL_S if is_polling else HEARTBEAT_S
        due_s = now_s + heartbeat_s
        while not self.is_over():
            now_s = self.queue.monotonic_s
            if not is_watching:
                due_s = min(due_s, deadline)
            if now_s < due_s:
                if changes.wait(min(look_s, due_s - now_s)):
                    return
                continue
            if is_polling or job.yields_to or now_s >= deadline:
                return
            match self.queue.prospect(job, changes.boards):
                case Prospect.MAY_START:
                    return
                case Prospect.BEHIND if not self._chooses(job):
                    look_s, heartbeat_s = BEHIND_LOOK_S, BEHIND_HEARTBEAT_S
                case _:
                    look_s, heartbeat_s = LOOK_S, HEARTBEAT_S
            due_s = now_s + heartbeat_s

    def _start(self, job: Job) -> Job | None:
        """Start the job if its board, its place and its host are free; None: one of them is not."""
        previous = self._obstacle
        try:
            # Outside the lock below: a coordinator that answers slowly must not delay other jobs.
            self._obstacle, self._unread = self.other_user(self.queue, job), False
        except ConfigurationError as error:  # the file may just be written, and be complete at the next look
            self._obstacle, self._unread = str(error), True
            wait_on(self.queue, job.id)
            return None
        if job.priority >= PERSONS:
            if self._obstacle or previous:
                wait_on(self.queue, job.id, self._obstacle)  # the user of the place gets the board before this job
            return None if self._obstacle else self.queue.start(job.id)
        if not self._obstacle:
            with locks.turn("start", job.called, lambda _holder: None):
                self._obstacle = self.why_full()
                if not self._obstacle:
                    return self.queue.start(job.id)
        wait_on(self.queue, job.id)
        return None
