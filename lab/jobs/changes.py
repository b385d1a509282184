"""Changes of boards' jobs and reservations, as the database tells them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from attrs import define, field
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import PoolProxiedConnection

from lab.errors import BoardlabError
from lab.results.store import Store

CHANNEL: Final = "boardlab_board"  # of NOTIFY, by triggers of lab/results/migrations; the payload is the board
_LISTENS: Final = "boardlab listens"  # key of a connection's `info`
_CHUNK: Final = 500  # boards in one query; SQLite bounds the number of parameters
# As one value each: Python takes longer for rows than SQLite for what they say.
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
    commits by other connections (sqlite.org/pragma.html); the rows are looked at only behind one.

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
        """Wait on the connection that the store's questions have, too: a waiting job has one."""
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
