"""Connections that behave the same on every database."""

from __future__ import annotations

import datetime as dt
import sqlite3
import time
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from sqlalchemy import URL, Connection, DateTime, Engine, NullPool, create_engine, event, func, select
from sqlalchemy.engine.interfaces import DBAPIConnection, DBAPICursor
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session
from sqlalchemy.pool import ConnectionPoolEntry

from lab.errors import ConfigurationError
from lab.host.clock import utc_now
from lab.results import walindex
from lab.results.location import Location

_READ_ONLY: Final = "lab_read_only"
_CONNECT_TIMEOUT_S: Final = 10
# Of a server: one whose host is gone without a word is noticed within a minute. Linux would ask after two hours, and send again for a quarter.
_NOTICES: Final = {
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,  # ms
}
_UNBOUNDED: Final = -1  # of a pool's overflow
WAL_PATIENCE_S: Final = 30.0
_RETRY_S: Final = 0.01
_PRIMARY: Final = 0xFF  # of an extended result code: sqlite.org/rescode.html


def create(location: Location, busy_timeout_s: float, *, anew: bool = False) -> Engine:
    """An engine for the location. However many threads share it, none waits for another's connection.

    Args:
        anew: SQLite's file is opened anew for each transaction, so that a database that was moved away or replaced is noticed.

    SQLite: write-ahead log, so that readers never wait; a transaction takes the write lock when it begins, because one
    that reads first and writes later fails at once where another writer came between (sqlite.org/lang_transaction.html).
    `synchronous=NORMAL` loses nothing when a program is killed; after a loss of power the last commits may be missing,
    but the database is sound (sqlite.org/pragma.html#pragma_synchronous).
    """
    if location.path is None:
        arguments = {"connect_timeout": _CONNECT_TIMEOUT_S, "application_name": "boardlab"}
        return _server(location, pool_pre_ping=True, max_overflow=_UNBOUNDED, connect_args=arguments)
    # isolation_level=None: the driver must not open transactions of its own before our BEGIN.
    arguments = {"timeout": busy_timeout_s, "isolation_level": None}
    pool: dict[str, Any] = {"poolclass": NullPool} if anew else {"max_overflow": _UNBOUNDED}
    engine = create_engine(location.url, connect_args=arguments, **pool)
    event.listen(engine, "connect", _prepare)
    _keep_room(engine, location.path)
    event.listen(engine, "begin", _begin)
    return engine


def watching(location: Location, timeout_s: float) -> Engine:
    """An engine for who looks again and again: each look has a connection of its own, so that a database that was
    moved away or replaced is noticed. It never makes a file, and cannot write.
    """
    if location.path is None:
        arguments = {"connect_timeout": max(2, round(timeout_s)), "application_name": "boardlab watching"}
        return reader(_server(location, poolclass=NullPool, connect_args=arguments))
    url = URL.create("sqlite", database=f"file:{quote(str(location.path))}", query={"mode": "rw", "uri": "true"})
    arguments = {"timeout": timeout_s, "isolation_level": None}
    engine = create_engine(url, poolclass=NullPool, connect_args=arguments)
    event.listen(engine, "connect", _forbid_writing)
    _keep_room(engine, location.path)
    event.listen(engine, "begin", _begin)
    return reader(engine)


def reader(engine: Engine) -> Engine:
    """The same engine for transactions that only read: they wait for no writer, and see one instant."""
    if engine.dialect.name == "postgresql":
        return engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
    return engine.execution_options(**{_READ_ONLY: True})


def now(session: Session) -> dt.datetime:
    """The time by the clock that all programs with this database share.

    It is the clock of PostgreSQL's server, whatever the clocks of its clients say. SQLite's programs share a host, and its clock.
    """
    if session.get_bind().dialect.name != "postgresql":
        return utc_now()
    return session.execute(select(func.clock_timestamp(type_=DateTime(timezone=True)))).scalar_one().astimezone(dt.UTC)


def _server(location: Location, **options: Any) -> Engine:
    """An engine for a server's database.

    Raises:
        ConfigurationError: the URL has options that nobody knows. The cause is left out: it may repeat the password.
    """
    options["connect_args"] |= {name: value for name, value in _NOTICES.items() if name not in location.url.query}
    try:
        return create_engine(location.url, **options)
    except (SQLAlchemyError, TypeError, ValueError) as error:
        said = location.without_secrets(str(error))
        raise ConfigurationError(f"{location.name}: {said}; mend the URL of the results") from None


def _keep_room(engine: Engine, database: Path) -> None:
    """See `lab.results.walindex`; a reader has an index, too."""

    def before(*_connecting: object) -> None:
        walindex.require_room(database)

    def after(connection: DBAPIConnection, _record: ConnectionPoolEntry) -> None:
        cursor = connection.cursor()
        cursor.execute("SELECT count(*) FROM sqlite_master")  # the first look makes the index
        cursor.close()
        walindex.fill_holes(database)

    event.listen(engine, "do_connect", before)
    event.listen(engine, "connect", after)


def _prepare(connection: DBAPIConnection, _record: ConnectionPoolEntry) -> None:
    cursor = connection.cursor()
    _turn_to_wal(cursor)
    for pragma in ("synchronous=NORMAL", "foreign_keys=ON"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _turn_to_wal(cursor: DBAPICursor) -> None:
    """Where another program does the same to a new database, SQLite refuses at once, whatever its busy time-out is."""
    give_up_at = time.monotonic() + WAL_PATIENCE_S
    while True:
        try:
            cursor.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            busy = error.sqlite_errorcode & _PRIMARY == sqlite3.SQLITE_BUSY
            if not busy or time.monotonic() > give_up_at:
                raise
        else:
            return
        time.sleep(_RETRY_S)


def _forbid_writing(connection: DBAPIConnection, _record: ConnectionPoolEntry) -> None:
    cursor = connection.cursor()
    cursor.execute("PRAGMA query_only=ON")
    cursor.close()


def _begin(connection: Connection) -> None:
    reads = connection.get_execution_options().get(_READ_ONLY, False)
    connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")
