"""Rows of one database in another, with a digest of each table.

Both databases' own bulk ways are used, with values as SQLite has them: numbers, and texts for times and JSON.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from sqlalchemy import JSON, Boolean, Connection, DateTime, Double, Integer, Table, literal, select
from sqlalchemy.exc import DBAPIError

from lab.errors import LabStableError
from lab.results.models import Base

_TABLES: Final = tuple(Base.metadata.sorted_tables)
_OF_SERVER: Final = (
    (DateTime, "to_char({} AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')", "text"),
    (Boolean, "{}::int", "int8"),
    (JSON, "{}::text", "text"),
    (Double, "{}", "float8"),
    (Integer, "{}", "int8"),
)


def digests(connection: Connection) -> dict[str, str]:
    """SHA-256 of each table's rows, the same on SQLite and PostgreSQL."""
    by_table = {}
    for table in _TABLES:
        digest = hashlib.sha256()
        for row in _rows(connection, table):
            digest.update(repr(row).encode())
        by_table[table.name] = digest.hexdigest()
    return by_table


def nonempty_tables(connection: Connection) -> list[str]:
    """Tables that have rows; a server's are locked against other writers until the transaction ends."""
    if connection.dialect.name == "postgresql":
        names = ", ".join(_quote(table.name) for table in _TABLES)
        connection.exec_driver_sql(f"LOCK TABLE {names} IN EXCLUSIVE MODE")
    return [t.name for t in _TABLES if connection.execute(select(literal(1)).select_from(t).limit(1)).first()]


def copy(source: Connection, target: Connection) -> None:
    """Copy all tables, and compare the digests of what came.

    Raises:
        LabStableError: a table differs.
    """
    sent = {}
    for table in _TABLES:
        digest = hashlib.sha256()
        _fill(target, table, _hash_rows(_rows(source, table), digest))
        sent[table.name] = digest.hexdigest()
        if target.dialect.name == "postgresql" and "id" in table.c:
            name = _quote(table.name)
            next_id = f"SELECT setval(pg_get_serial_sequence('{name}', 'id'), coalesce(max(id), 0) + 1, false)"
            target.exec_driver_sql(f"{next_id} FROM {name}")
    came = digests(target)
    wrong = [name for name in sent if sent[name] != came[name]]
    if wrong:
        raise LabStableError(
            f"rows of {', '.join(wrong)} came otherwise than they were sent; "
            "nothing was changed: look at the databases' logs",
            failure="results",
        )


def _hash_rows(rows: Iterable[tuple[Any, ...]], digest: Any) -> Iterator[tuple[Any, ...]]:
    for row in rows:
        digest.update(repr(row).encode())
        yield row


def _rows(connection: Connection, table: Table) -> Iterator[tuple[Any, ...]]:
    driver: Any = connection.connection.driver_connection
    order = ", ".join(_quote(column.name) for column in table.primary_key)
    if connection.dialect.name != "postgresql":
        names = ", ".join(_quote(column.name) for column in table.c)
        yield from driver.execute(f"SELECT {names} FROM {_quote(table.name)} ORDER BY {order}")  # noqa: S608
        return
    shown = [_sqlite_form(column.type, _quote(column.name)) for column in table.c]
    query = f"SELECT {', '.join(text for text, _ in shown)} FROM {_quote(table.name)} ORDER BY {order}"  # noqa: S608
    with _of_driver(connection), driver.cursor() as cursor, cursor.copy(f"COPY ({query}) TO STDOUT") as copy:
        copy.set_types([kind for _, kind in shown])
        yield from copy.rows()


def _fill(connection: Connection, table: Table, rows: Iterable[tuple[Any, ...]]) -> None:
    driver: Any = connection.connection.driver_connection
    names = ", ".join(_quote(column.name) for column in table.c)
    if connection.dialect.name != "postgresql":
        marks = ", ".join("?" for _ in table.c)
        with _of_driver(connection):
            driver.executemany(f"INSERT INTO {_quote(table.name)} ({names}) VALUES ({marks})", rows)  # noqa: S608
        return
    with _of_driver(connection), driver.cursor() as cursor:
        cursor.execute("SET LOCAL TIME ZONE 'UTC'")
        with cursor.copy(f"COPY {_quote(table.name)} ({names}) FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)


@contextmanager
def _of_driver(connection: Connection) -> Iterator[None]:
    """Convert a driver's errors to SQLAlchemy's."""
    kinds: Any = connection.dialect.loaded_dbapi
    try:
        yield
    except kinds.Error as error:
        raise DBAPIError.instance(None, None, error, kinds.Error, dialect=connection.dialect) from error


def _sqlite_form(kind: object, name: str) -> tuple[str, str]:
    """Expression and PostgreSQL type of a column as SQLite has it."""
    plain = getattr(kind, "impl", kind)
    return next(
        (
            (text.format(name), sql_type)
            for column_type, text, sql_type in _OF_SERVER
            if isinstance(plain, column_type)
        ),
        (name, "text"),
    )


def _quote(name: str) -> str:
    return f'"{name}"'
