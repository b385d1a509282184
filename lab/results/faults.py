"""What a database's error means for a person: whose fault, whether waiting helps, and how to mend it."""

from __future__ import annotations

import json
import re
import sqlite3
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePath
from typing import Final

from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, SQLAlchemyError

from lab.errors import BoardlabError, ConfigurationError, LabStableError, LabTransientError, TestStableError
from lab.results.columns import DamagedSchemaError, DamagedValueError
from lab.results.location import Location
from lab.shown import plain

_SAID_CHARACTERS: Final = 200
_KEPT: Final = "what was recorded before is intact; mend this and resume the run"

_DAMAGED: Final = "the file is damaged; restore a copy, or save what it holds: sqlite3 {path} .recover"
_UNFIT: Final = "PostgreSQL keeps no such value; take it out of what was asked or given, and try again"

# Primary result codes (sqlite.org/rescode.html); an extended code begins with its primary one.
_SQLITE: Final[dict[str, tuple[type[BoardlabError], str]]] = {
    "SQLITE_BUSY": (LabTransientError, "another program holds it locked; `fuser {path}` names it; let it end"),
    "SQLITE_LOCKED": (LabTransientError, "another program holds it locked; `fuser {path}` names it; let it end"),
    "SQLITE_FULL": (LabStableError, f"the disk is full; free space under {{folder}}: {_KEPT}"),
    "SQLITE_IOERR": (
        LabStableError,
        f"the disk refused to read or write; look at `df {{folder}}`, quotas, file-size limits and dmesg: {_KEPT}",
    ),
    "SQLITE_READONLY": (
        ConfigurationError,
        "this user may not write it or the directory {folder}, where SQLite keeps its journal; "
        "change their owner, or choose another database with --db, --lab-db or $LAB_DB",
    ),
    "SQLITE_CANTOPEN": (
        ConfigurationError,
        "this user may not open or create it in {folder}; "
        "change the owner, or choose another database with --db, --lab-db or $LAB_DB",
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

# What is raised past the driver's own errors where a database holds what boardlab never wrote: bytes that are no UTF-8, in
# values and in SQLite's own messages; values of another type; rows that SQLAlchemy and Alembic do not expect.
UNREADABLE: Final = (
    SQLAlchemyError,
    sqlite3.Error,
    UnicodeError,
    DamagedValueError,
    DamagedSchemaError,
    json.JSONDecodeError,
)
# The same where only rows are turned into records.
MISREAD: Final = (ValueError, TypeError, AttributeError, LookupError, ArithmeticError, RecursionError, TestStableError)

# SQLSTATE classes and codes (PostgreSQL manual, appendix A); the longest that fits counts.
_POSTGRESQL: Final[dict[str, tuple[type[BoardlabError], str]]] = {
    "08": (LabTransientError, "the connection broke; look whether the server runs"),
    "28": (ConfigurationError, "the server refused the login; mend user and password in the URL, or ~/.pgpass"),
    "3D000": (ConfigurationError, "there is no such database; create it: createdb NAME"),
    "42501": (ConfigurationError, "this role may not do that; grant it CREATE on the schema and its tables"),
    "40001": (LabTransientError, "two transactions collided"),
    "40P01": (LabTransientError, "two transactions collided"),
    "53100": (LabStableError, f"the server's disk is full; free space there: {_KEPT}"),
    "53300": (LabTransientError, "the server has no free connection; raise max_connections or end idle clients"),
    "57P": (LabTransientError, "the server is stopping or starting; look at its log"),
    "25006": (ConfigurationError, "the server is read-only (a stand-by?); name the primary in the URL"),
}


def explain(error: DBAPIError, location: Location) -> BoardlabError:
    """The error that a person is told instead of the database's own; its `transient` says whether waiting may help."""
    cause = error.orig
    said = location.without_secrets(printable(str(cause)))
    if isinstance(error, IntegrityError):
        return TestStableError(f"results in {location.name}: two writers recorded the same thing: {said}")
    kind, mend = _meaning(error)
    folder = location.path.parent if location.path else ""
    hint = mend.format(path=location.path, folder=folder)
    return kind(f"results in {location.name}: {said}: {hint}", failure="results")


def busy(location: Location) -> BoardlabError:
    """The error that a person is told where this program has no connection left for one more question."""
    return LabTransientError(
        f"results in {location.name}: this program asks so much at once that no connection to them is free; try again",
        failure="results",
    )


def damaged(error: Exception, location: Location) -> BoardlabError:
    """The error that a person is told of a database whose contents cannot be understood."""
    if location.path is None:
        mend = "it holds what boardlab does not write; restore a backup, or look at who else writes to it"
    else:
        mend = _DAMAGED.format(path=location.path)
    said = location.without_secrets(printable(f"{type(error).__name__}: {error}"))
    return LabStableError(f"results in {location.name}: {said[:_SAID_CHARACTERS]}: {mend}", failure="results")


@contextmanager
def understood(location: Location) -> Iterator[None]:
    """Turns an error of what only reads results into ours: they are not as boardlab writes them.

    Raises:
        LabStableError: with the line of the program that met it, as it may be the program's own fault.
    """
    try:
        yield
    except BoardlabError:
        raise
    except MISREAD as error:
        raise misread(error, location) from error


def misread(error: Exception, location: Location) -> LabStableError:
    """The error that a person is told where what was read of a database is not as boardlab writes it."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{PurePath(place.filename).name}, line {place.lineno}"
    return LabStableError(
        f"{damaged(error, location)}. Where a sound copy says the same, it is a fault of boardlab: report this line ({where})",
        failure="results",
    )


def printable(text: str) -> str:
    """On one line, and without what moves a terminal's cursor: a damaged file has any bytes."""
    return plain(" ".join(text.split()))


def _meaning(error: DBAPIError) -> tuple[type[BoardlabError], str]:
    cause = error.orig
    if isinstance(cause, sqlite3.Error):
        code, table = getattr(cause, "sqlite_errorname", None) or "", _SQLITE
    else:
        code, table = getattr(cause, "sqlstate", None) or "", _POSTGRESQL
        if not code and isinstance(error, DataError):  # the driver's own word: it has sent nothing
            return ConfigurationError, _UNFIT
        if not code:
            return _no_connection(str(cause))
    if isinstance(cause, sqlite3.Error) and not code:  # the module's own: it cannot decode what is there
        return LabStableError, _DAMAGED
    fitting = [prefix for prefix in table if code.startswith(prefix)]
    if fitting:
        return table[max(fitting, key=len)]
    return LabStableError, f"unexpected ({code or type(cause).__name__}); look at the database's log"


def _no_connection(said: str) -> tuple[type[BoardlabError], str]:
    """Errors while connecting carry no code (psycopg 3); only "FATAL" tells that the server answered and refused."""
    if "FATAL" not in said:
        return LabTransientError, "the server does not answer; look whether it runs and whether the URL is right"
    if re.search("starting up|shutting down|recovery|too many", said):
        return LabTransientError, "the server takes no connection now; look at its log, and at max_connections"
    return ConfigurationError, "the server refused; mend user, password and database in the URL, or: createdb NAME"
