"""Waiting of a job for its board, its labgrid place and the host's capacity: one loop for all programs.

The database tells of changes of jobs and reservations.
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

# Between looks at a labgrid place, at this host's capacity or at a file, of which no change of the jobs tells.
POLL_S: Final = 2.0
# A waiting job looks each `LOOK_S` for changes of its boards, and each `HEARTBEAT_S` at their holders, with a sign of
# life. One behind others cannot be next at the next change: it looks so much more rarely, while all of these live.
LOOK_S: Final = 1.0
BEHIND_LOOK_S: Final = 10.0
BEHIND_HEARTBEAT_S: Final = 2 * HEARTBEAT_S
PLACE_BUSY: Final = "place_busy"  # failure: another user has the board's labgrid place
# Other user of a job's place, see lab.places.job_place.other_user
PlaceGate: TypeAlias = Callable[[JobQueue, Job], str]
CHANNEL: Final = "boardlab_board"  # of NOTIFY, by triggers of lab/results/migrations; the payload is the board
_LISTENS: Final = "boardlab listens"  # key of a connection's `info`
_CHUNK: Final = 500  # boards in one query; SQLite bounds the number of parameters
# Jobs and reservations of some boards, each as one text: reading their rows one by one takes Python longer.
_STATE: Final = """
SELECT (SELECT group_concat(id || state || cancelled_by || yields_to, char(10)) FROM jobs
        WHERE state IN ('queued', 'running') AND board IN ({0})),
       (SELECT group_concat(id || at || coalesce(until, ''), char(10)) FROM reservations
        WHERE ended_at IS NULL AND board IN ({0}))
"""


@define
class BoardChanges:
    """Tells of changed jobs and reservations of some boards.

    It is a hint: none comes while the database is away. PostgreSQL notifies. SQLite has `data_version`, which tells of
    commits by other connections (sqlite.org/pragma.html); after such a commit the rows are compared.

    Attributes:
        pause: waits that many seconds.
    """

    store: Store
    boards: Sequence[str]
    pause: Callable[[float], None]
    _connection: PoolProxiedConnection | None = field(default=None, init=False)
    _watches: bool = field(default=False, init=False)  # a server's notices
    _version: int = field(default=0, init=False)
    _rows: tuple[Any, ...] | None = field(default=None, init=False)

    def wait(self, seconds: float) -> bool:
        """Wait that long, or until a change; True: there may have been one."""
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
        """Wait for a notice of one of these boards.

        It comes on a connection of the store's pool, so that a waiting job has one connection.
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
        """Close the connection: one that listens is of no further use."""
        if self._watches:
            self._watches = False
            self.store.close()  # its idle connections; the next question makes another
        if self._connection is not None:
            connection, self._connection, self._rows = self._connection, None, None
            connection.invalidate()


@contextmanager
def watching(store: Store, boards: Sequence[str], pause: Callable[[float], None]) -> Iterator[BoardChanges]:
    """The changes of these boards, from now on."""
    changes = BoardChanges(store, boards, pause)
    try:
        changes.wait(0.0)
        yield changes
    finally:
        changes.close()


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
        """Wait until `_start` may succeed, or until its next attempt is due."""
        now_s = self.queue.monotonic_s
        is_watching = deadline <= now_s  # a silent job, whose next sign of life ends the wait and is no change
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
