"""Connections to SQLite and PostgreSQL that behave the same, and their errors as boardlab's."""

from __future__ import annotations

import ctypes
import datetime as dt
import errno
import json
import os
import re
import sqlite3
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePath
from typing import Any, Final
from urllib.parse import quote

from sqlalchemy import URL, Connection, DateTime, Engine, NullPool, create_engine, event, func, select, text
from sqlalchemy.engine.interfaces import DBAPIConnection, DBAPICursor
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.orm import Session
from sqlalchemy.pool import ConnectionPoolEntry

from lab.errors import BoardlabError, ConfigurationError, LabStableError, LabTransientError, TestStableError
from lab.host.clock import utc_now
from lab.results.columns import DamagedSchemaError, DamagedValueError
from lab.results.location import Location
from lab.terminal import plain

_READ_ONLY: Final = "lab_read_only"
_CONNECT_TIMEOUT_S: Final = 10
# Options of a server's connection, by which a host that vanishes is noticed within a minute. By default Linux probes an
# idle connection after two hours, and repeats unanswered data for a quarter of an hour.
_KEEPALIVES: Final = {
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,  # ms
}
_UNBOUNDED: Final = -1  # a pool's overflow: no thread waits for another's connection
WAL_PATIENCE_S: Final = 30.0
_RETRY_S: Final = 0.01
_PRIMARY: Final = 0xFF  # mask of the primary code in an extended result code (sqlite.org/rescode.html)


def create(location: Location, busy_timeout_s: float, *, anew: bool = False) -> Engine:
    """Create an engine whose threads never wait for one another's connections.

    A missing SQLite file is not created by a connection, but by `schema.make_ready`.

    SQLite uses a write-ahead log, so that readers never wait. A transaction takes the write lock when it begins: one
    that reads first and writes later would fail at once if another writer came between
    (sqlite.org/lang_transaction.html). With `synchronous=NORMAL` a killed program loses nothing; after a loss of power
    the last commits may be missing, but the database is sound (sqlite.org/pragma.html#pragma_synchronous).

    Args:
        busy_timeout_s: how long a transaction waits for SQLite's write lock.
        anew: True: open SQLite's file anew for each transaction, to notice a moved or replaced database.
    """
    if location.path is None:
        arguments = {"connect_timeout": _CONNECT_TIMEOUT_S, "application_name": "boardlab"}
        return _server(location, pool_pre_ping=True, max_overflow=_UNBOUNDED, connect_args=arguments)
    # isolation_level=None: the driver must not open transactions of its own before our BEGIN.
    arguments = {"timeout": busy_timeout_s, "isolation_level": None}
    pool: dict[str, Any] = {"poolclass": NullPool} if anew else {"max_overflow": _UNBOUNDED}
    engine = create_engine(_existing(location.path), connect_args=arguments, **pool)
    event.listen(engine, "connect", _prepare)
    _keep_room(engine, location.path)
    event.listen(engine, "begin", _begin)
    return engine


def watching(location: Location, timeout_s: float) -> Engine:
    """Create a read-only engine for repeated polls, which creates no file.

    Each poll opens a connection of its own, to notice a moved or replaced database.

    Args:
        timeout_s: how long to wait for a lock of SQLite, or for the connection to a server.
    """
    if location.path is None:
        arguments = {"connect_timeout": max(2, round(timeout_s)), "application_name": "boardlab watching"}
        return reader(_server(location, poolclass=NullPool, connect_args=arguments))
    arguments = {"timeout": timeout_s, "isolation_level": None}
    engine = create_engine(_existing(location.path), poolclass=NullPool, connect_args=arguments)
    event.listen(engine, "connect", _forbid_writing)
    _keep_room(engine, location.path)
    event.listen(engine, "begin", _begin)
    return reader(engine)


def reader(engine: Engine) -> Engine:
    """Return the engine for read-only transactions, which see one instant and wait for no writer."""
    if engine.dialect.name == "postgresql":
        return engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
    return engine.execution_options(**{_READ_ONLY: True})


def now(session: Session) -> dt.datetime:
    """Return the time by the clock that all programs with this database share.

    It is the clock of PostgreSQL's server, whatever its clients' clocks show. Programs that share an SQLite file run on
    one host, and use its clock.
    """
    if session.get_bind().dialect.name != "postgresql":
        return utc_now()
    return session.execute(select(func.clock_timestamp(type_=DateTime(timezone=True)))).scalar_one().astimezone(dt.UTC)


def transaction_number(session: Session) -> str:
    """Return the number of a server's transaction; empty on SQLite, which answers each commit.

    It is an xid8, as pg_current_xact_id() returns it (PostgreSQL manual, transaction ID functions).
    """
    if session.get_bind().dialect.name != "postgresql":
        return ""
    return str(session.execute(text("SELECT CAST(pg_current_xact_id() AS text)")).scalar_one())


def was_committed(session: Session, number: str) -> bool | None:
    """Return True if a server has committed a transaction; None: the transaction has not ended.

    It decides by pg_xact_status() about a commit whose answer was lost.
    """
    query = text("SELECT pg_xact_status(CAST(:number AS xid8))")
    status = session.execute(query, {"number": number}).scalar_one()
    return None if status == "in progress" else status == "committed"


def _existing(path: Path) -> URL:
    """Return SQLite's URL of a file that must exist: a connection does not create it."""
    return URL.create("sqlite", database=f"file:{quote(str(path))}", query={"mode": "rw", "uri": "true"})


def _server(location: Location, **options: Any) -> Engine:
    """Create an engine for a server's database.

    Raises:
        ConfigurationError: the URL has unknown options. Its cause is left out, since that may contain the password.
    """
    options["connect_args"] |= {name: value for name, value in _KEEPALIVES.items() if name not in location.url.query}
    try:
        return create_engine(location.url, **options)
    except (SQLAlchemyError, TypeError, ValueError) as error:
        reason = location.without_secrets(str(error))
        raise ConfigurationError(f"{location.name}: {reason}; mend the URL of the results") from None


def _keep_room(engine: Engine, database: Path) -> None:
    """Reserve disk space for the index of SQLite's write-ahead log; readers create that file, too."""

    def before(*_connecting: object) -> None:
        require_room(database)

    def after(connection: DBAPIConnection, _record: ConnectionPoolEntry) -> None:
        cursor = connection.cursor()
        cursor.execute("SELECT count(*) FROM sqlite_master")  # SQLite creates the index at the first read
        cursor.close()
        fill_holes(database)

    event.listen(engine, "do_connect", before)
    event.listen(engine, "connect", after)


def _prepare(connection: DBAPIConnection, _record: ConnectionPoolEntry) -> None:
    """Set up a new connection that may write."""
    cursor = connection.cursor()
    _turn_to_wal(cursor)
    for pragma in ("synchronous=NORMAL", "foreign_keys=ON"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _turn_to_wal(cursor: DBAPICursor) -> None:
    """Switch to write-ahead logging, with retries while another program does so.

    SQLite does not apply its busy time-out to this switch.
    """
    give_up_at = time.monotonic() + WAL_PATIENCE_S
    while True:
        try:
            cursor.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            is_busy = error.sqlite_errorcode & _PRIMARY == sqlite3.SQLITE_BUSY
            if not is_busy or time.monotonic() > give_up_at:
                raise
        else:
            return
        time.sleep(_RETRY_S)


def _forbid_writing(connection: DBAPIConnection, _record: ConnectionPoolEntry) -> None:
    """Make a new connection read-only."""
    cursor = connection.cursor()
    cursor.execute("PRAGMA query_only=ON")
    cursor.close()


def _begin(connection: Connection) -> None:
    """Begin a transaction of SQLite; one that may write takes the write lock."""
    reads = connection.get_execution_options().get(_READ_ONLY, False)
    connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")


_MAX_REASON: Final = 200  # characters of a damaged database's error in a message
_INTACT: Final = "earlier records are intact; mend this and resume the run"

_DAMAGED: Final = "the file is damaged; restore a copy, or save what it holds: sqlite3 {path} .recover"
_UNFIT: Final = "PostgreSQL keeps no such value; take it out of what was asked or given, and try again"

# Primary result codes (sqlite.org/rescode.html); an extended code begins with its primary one.
_SQLITE: Final[dict[str, tuple[type[BoardlabError], str]]] = {
    "SQLITE_BUSY": (LabTransientError, "another program holds it locked; `fuser {path}` names it; let it end"),
    "SQLITE_LOCKED": (LabTransientError, "another program holds it locked; `fuser {path}` names it; let it end"),
    "SQLITE_FULL": (LabStableError, "the disk is full; free space under {folder}: {meanwhile}"),
    "SQLITE_IOERR": (
        LabStableError,
        "the disk refused to read or write; look at `df {folder}`, quotas, file-size limits and dmesg: {meanwhile}",
    ),
    "SQLITE_READONLY": (
        ConfigurationError,
        "this user may not write it or the directory {folder}, where SQLite keeps its journal; "
        "change their owner, or choose another database with --db, --lab-db or $LAB_DB",
    ),
    "SQLITE_CANTOPEN": (
        ConfigurationError,
        "it does not exist (now), or this user may not open it or write in {folder}; "
        "mount the disk, change the owner, or choose another database with --db, --lab-db or $LAB_DB",
    ),
    "SQLITE_NOTADB": (ConfigurationError, "the file is no SQLite database; name another file, or move this one away"),
    "SQLITE_CORRUPT": (LabStableError, _DAMAGED),
    "SQLITE_ERROR": (LabStableError, f"its tables are not as boardlab makes them: {_DAMAGED}"),
    "SQLITE_MISMATCH": (LabStableError, _DAMAGED),
    "SQLITE_TOOBIG": (LabStableError, _DAMAGED),
    "SQLITE_PROTOCOL": (LabTransientError, "too many programs open it at once; try again"),
    "SQLITE_NOLFS": (LabStableError, "the file system takes no file of this size; move the database to another"),
    "SQLITE_NOMEM": (LabTransientError, "no memory is left; end what takes it"),
    "SQLITE_PERM": (ConfigurationError, "this user may not use it; change its owner, or choose another database"),
}

# Errors of a database with values that boardlab never wrote: bytes that are not UTF-8, in values and in SQLite's own
# messages; values of another type; rows that SQLAlchemy and Alembic do not expect.
UNREADABLE: Final = (
    SQLAlchemyError,
    sqlite3.Error,
    UnicodeError,
    DamagedValueError,
    DamagedSchemaError,
    json.JSONDecodeError,
)
# Errors that such values cause while rows are converted to records.
MISREAD: Final = (ValueError, TypeError, AttributeError, LookupError, ArithmeticError, RecursionError, TestStableError)

# SQLSTATE classes and codes (PostgreSQL manual, appendix A); the longest prefix of a code counts.
_POSTGRESQL: Final[dict[str, tuple[type[BoardlabError], str]]] = {
    "08": (LabTransientError, "the connection broke; look whether the server runs"),
    "28": (ConfigurationError, "the server refused the login; mend user and password in the URL, or ~/.pgpass"),
    "3D000": (ConfigurationError, "there is no such database; create it: createdb NAME"),
    "42501": (ConfigurationError, "this role may not do that; grant it CREATE on the schema and its tables"),
    "40001": (LabTransientError, "two transactions collided"),
    "40P01": (LabTransientError, "two transactions collided"),
    "53100": (LabStableError, "the server's disk is full; free space there: {meanwhile}"),
    "53300": (LabTransientError, "the server has no free connection; raise max_connections or end idle clients"),
    "57P": (LabTransientError, "the server is stopping or starting; look at its log"),
    "25006": (ConfigurationError, "the server is read-only (a stand-by?); name the primary in the URL"),
}


def explain(error: DBAPIError, location: Location, meanwhile: str = _INTACT) -> BoardlabError:
    """Return the BoardlabError for a database's error, with cause and remedy.

    Args:
        meanwhile: what is still safe, and what to do, for messages of a full or failing disk.
    """
    cause = error.orig
    reason = location.without_secrets(printable(str(cause)))
    if isinstance(error, IntegrityError):
        return TestStableError(f"results in {location.name}: two writers recorded the same thing: {reason}")
    kind, hint = _meaning(error)
    folder = location.path.parent if location.path else ""
    hint = hint.format(path=location.path, folder=folder, meanwhile=meanwhile)
    return kind(f"results in {location.name}: {reason}: {hint}", failure="results")


def busy_error(location: Location) -> BoardlabError:
    """Return the error of an exhausted connection pool."""
    return LabTransientError(
        f"results in {location.name}: all connections of this program are in use; try again",
        failure="results",
    )


def damage_error(error: Exception, location: Location) -> BoardlabError:
    """Return the error of a database with unreadable contents."""
    if location.path is None:
        hint = "it holds what boardlab does not write; restore a backup, or look at who else writes to it"
    else:
        hint = _DAMAGED.format(path=location.path)
    reason = location.without_secrets(printable(f"{type(error).__name__}: {error}"))
    return LabStableError(f"results in {location.name}: {reason[:_MAX_REASON]}: {hint}", failure="results")


@contextmanager
def guard(location: Location, meanwhile: str = _INTACT) -> Iterator[None]:
    """Convert a database's errors and undecodable values in the block to BoardlabErrors.

    Args:
        meanwhile: see `explain`.
    """
    try:
        yield
    except PoolTimeoutError as error:
        raise busy_error(location) from error
    except DBAPIError as error:
        raise explain(error, location, meanwhile) from error
    except UNREADABLE as error:
        raise damage_error(error, location) from error


@contextmanager
def guard_contents(location: Location) -> Iterator[None]:
    """Convert a reader's errors on foreign contents to LabStableError.

    Raises:
        LabStableError: the message names the line of the program, which may be at fault itself.
    """
    try:
        yield
    except BoardlabError:
        raise
    except MISREAD as error:
        raise misread(error, location) from error


def misread(error: Exception, location: Location) -> LabStableError:
    """Return the error of contents that boardlab did not write."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{PurePath(frame.filename).name}, line {frame.lineno}"
    return LabStableError(
        f"{damage_error(error, location)}. Where a sound copy says the same, it is a fault of boardlab: "
        f"report this line ({where})",
        failure="results",
    )


def printable(text: str) -> str:
    """Return the text on one line without terminal controls."""
    return plain(" ".join(text.split()))


def _meaning(error: DBAPIError) -> tuple[type[BoardlabError], str]:
    """Return the class of error, and the remedy, that a driver's error code stands for."""
    cause = error.orig
    if isinstance(cause, sqlite3.Error):
        code, table = getattr(cause, "sqlite_errorname", None) or "", _SQLITE
    else:
        code, table = getattr(cause, "sqlstate", None) or "", _POSTGRESQL
        if not code and isinstance(error, DataError):  # the driver refused the value before it sent anything
            return ConfigurationError, _UNFIT
        if not code:
            return _no_connection(str(cause))
    if isinstance(cause, sqlite3.Error) and not code:  # Python's module cannot decode a value
        return LabStableError, _DAMAGED
    fitting = [prefix for prefix in table if code.startswith(prefix)]
    if fitting:
        return table[max(fitting, key=len)]
    return LabStableError, f"unexpected ({code or type(cause).__name__}); look at the database's log"


def _no_connection(reason: str) -> tuple[type[BoardlabError], str]:
    """Return the class of error, and the remedy, of a failed connection.

    Such errors have no code (psycopg 3). Only "FATAL" in their text means that the server has answered and refused.
    """
    if "FATAL" not in reason:
        return LabTransientError, "the server does not answer; look whether it runs and whether the URL is right"
    if re.search("starting up|shutting down|recovery|too many", reason):
        return LabTransientError, "the server takes no connection now; look at its log, and at max_connections"
    return ConfigurationError, "the server refused; mend user, password and database in the URL, or: createdb NAME"


# SQLite writes the index of its log (the file DATABASE-shm) through a memory map. It creates the file by writing one
# byte in each 4 KiB (os_unix.c, unixShmMap). On a file system with smaller blocks, e.g. a small ext4 with 1 KiB, the
# rest of a page is a hole, and the first write to a hole on a full disk is not an error but a SIGBUS, which ends the
# program without a message. So there must be room before SQLite creates the file, and its holes are filled then.


REGION_BYTES: Final = 32 * 1024  # SQLite extends the index by this (wal.c, WALINDEX_PGSZ); enough for 4062 pages
AHEAD_BYTES: Final = 4 * REGION_BYTES  # filled in advance if there is room: a log without checkpoints grows
LEAST_FREE_BYTES: Final = 2 * REGION_BYTES  # the index, and what the file system needs to describe it
_DESCRIPTORS: Final = Path("/proc/self/fd")
_UNSUPPORTED: Final = {errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL}


def require_room(database: Path) -> None:
    """Require that the disk has room for SQLite's index.

    Raises:
        LabStableError: the disk is full.
    """
    with suppress(OSError):  # SQLite reports any other problem of the folder
        if _index(database).exists() and _index(database).stat().st_size >= REGION_BYTES:
            return
        # statvfs(3) also counts blocks that ext4 reserves for itself: only allocating them shows that they are free.
        nameless = os.open(database.parent, os.O_TMPFILE | os.O_RDWR, 0o600)
        try:
            if not _allocate(nameless, LEAST_FREE_BYTES):
                raise _full(database)
        finally:
            os.close(nameless)


def fill_holes(database: Path) -> None:
    """Allocate all blocks of the index while a connection is open.

    It uses SQLite's own descriptor: opening and closing the file would release SQLite's locks on it (fcntl(2)).

    Raises:
        LabStableError: the disk is full.
    """
    descriptor = _descriptor(_index(database))
    if descriptor is None:
        return
    size = os.fstat(descriptor).st_size
    if not _allocate(descriptor, max(size, AHEAD_BYTES)) and not _allocate(descriptor, size):
        raise _full(database)


def _index(database: Path) -> Path:
    return database.with_name(f"{database.name}-shm")


def _descriptor(path: Path) -> int | None:
    """Return this process's descriptor of an open file; None: the file is not open."""
    target = str(path.parent.resolve() / path.name)
    for entry in _DESCRIPTORS.iterdir():
        with suppress(OSError):  # another thread has closed it
            if str(entry.readlink()) == target:
                return int(entry.name)
    return None


def _allocate(descriptor: int, size: int) -> bool:
    """Allocate the first bytes of a file; return False if the disk is full.

    It calls fallocate(2) itself: posix_fallocate(3) may write bytes that another process is changing.
    """
    if not size:
        return True
    libc = ctypes.CDLL(None, use_errno=True)
    libc.fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    while libc.fallocate(descriptor, 0, 0, size) != 0:
        code = ctypes.get_errno()
        if code != errno.EINTR:
            return code in _UNSUPPORTED
    return True


def _full(database: Path) -> LabStableError:
    """Return the error of a disk without room for SQLite's index."""
    return LabStableError(
        f"results in {database}: the disk is full: there is no room for SQLite's index of its log "
        f"({_index(database)}); free "
        f"space under {database.parent}: earlier records are intact; mend this and resume the run",
        failure="results",
    )
