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
_CHUNK: Final = 500  # boards in one query; SQLite bounds the number of parameters
_JOBS: Final = (
    "SELECT id, state, cancelled_by, yields_to FROM jobs WHERE state IN ('queued', 'running') AND board IN ({})"
)
_HOLDS: Final = "SELECT id, at, until FROM reservations WHERE ended_at IS NULL AND board IN ({})"


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
    _version: int = field(default=0, init=False)
    _rows: tuple[Any, ...] = field(default=(), init=False)

    def wait(self, seconds: float) -> bool:
        """Wait that long, or until a change; True: there may have been one."""
        try:
            if self._connection is not None and self._is_server:
                driver: Any = self._connection.driver_connection
                notified = [notice.payload in self.boards for notice in driver.notifies(timeout=seconds, stop_after=1)]
                return any(notified)
            self.pause(seconds)
            if self._connection is None:
                self._begin()
                return True
            return self._is_changed(self._connection.driver_connection)
        except (BoardlabError, SQLAlchemyError, self.store.driver_error):
            self.close()
            return False

    @property
    def _is_server(self) -> bool:
        return self.store.location.path is None

    def _begin(self) -> None:
        self._connection = self.store.connection()
        driver: Any = self._connection.driver_connection
        if self._is_server:
            driver.autocommit = True
            driver.execute(f"LISTEN {CHANNEL}")
        else:
            self._is_changed(driver)

    def _is_changed(self, driver: Any) -> bool:
        (version,) = driver.execute("PRAGMA data_version").fetchone()
        if version == self._version:
            return False
        self._version, before = version, self._rows
        chunks = [self.boards[start : start + _CHUNK] for start in range(0, len(self.boards), _CHUNK)]
        self._rows = tuple(
            row
            for boards in chunks
            for query in (_JOBS, _HOLDS)
            for row in driver.execute(query.format(", ".join("?" * len(boards))), boards)
        )
        return self._rows != before

    def close(self) -> None:
        """Close the connection: one that listens is none for the pool."""
        if self._connection is not None:
            connection, self._connection = self._connection, None
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
