"""Copies of all rows from one database to another, checked by a digest of each table.

The rows are read and written by the bulk interfaces of SQLite and PostgreSQL. Their values have the form that SQLite
stores: numbers, and texts for times and JSON.
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
# Type of a column -> expression in PostgreSQL for SQLite's form of its value, and the expression's type.
_SERVER_FORMS: Final = (
    (DateTime, "to_char({} AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')", "text"),
    (Boolean, "{}::int", "int8"),
    (JSON, "{}::text", "text"),
    (Double, "{}", "float8"),
    (Integer, "{}", "int8"),
)


def digests(connection: Connection) -> dict[str, str]:
    """Return the SHA-256 of each table's rows, which is the same on SQLite and PostgreSQL."""
    by_table = {}
    for table in _TABLES:
        digest = hashlib.sha256()
        for row in _rows(connection, table):
            digest.update(repr(row).encode())
        by_table[table.name] = digest.hexdigest()
    return by_table


def nonempty_tables(connection: Connection) -> list[str]:
    """Return the tables that have rows; a server's tables are locked against writers until the transaction ends."""
    if connection.dialect.name == "postgresql":
        names = ", ".join(_quote(table.name) for table in _TABLES)
        connection.exec_driver_sql(f"LOCK TABLE {names} IN EXCLUSIVE MODE")
    return [t.name for t in _TABLES if connection.execute(select(literal(1)).select_from(t).limit(1)).first()]


def copy(source: Connection, target: Connection) -> None:
    """Copy all tables, and compare the digests of the rows on both sides.

    Raises:
        LabStableError: a table differs after it was copied.
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
    received = digests(target)
    wrong = [name for name in sent if sent[name] != received[name]]
    if wrong:
        raise LabStableError(
            f"the copied rows of {', '.join(wrong)} differ from the original ones; "
            "nothing was changed: look at the databases' logs",
            failure="results",
        )


def _hash_rows(rows: Iterable[tuple[Any, ...]], digest: Any) -> Iterator[tuple[Any, ...]]:
    """Yield rows, and add them to a digest."""
    for row in rows:
        digest.update(repr(row).encode())
        yield row


def _rows(connection: Connection, table: Table) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a table in SQLite's form, in the order of the primary key."""
    driver: Any = connection.connection.driver_connection
    order = ", ".join(_quote(column.name) for column in table.primary_key)
    if connection.dialect.name != "postgresql":
        names = ", ".join(_quote(column.name) for column in table.c)
        yield from driver.execute(f"SELECT {names} FROM {_quote(table.name)} ORDER BY {order}")  # noqa: S608
        return
    forms = [_sqlite_form(column.type, _quote(column.name)) for column in table.c]
    query = f"SELECT {', '.join(text for text, _ in forms)} FROM {_quote(table.name)} ORDER BY {order}"  # noqa: S608
    with _driver_errors(connection), driver.cursor() as cursor, cursor.copy(f"COPY ({query}) TO STDOUT") as copy:
        copy.set_types([sql_type for _, sql_type in forms])
        yield from copy.rows()


def _fill(connection: Connection, table: Table, rows: Iterable[tuple[Any, ...]]) -> None:
    """Insert rows in SQLite's form into a table."""
    driver: Any = connection.connection.driver_connection
    names = ", ".join(_quote(column.name) for column in table.c)
    if connection.dialect.name != "postgresql":
        marks = ", ".join("?" for _ in table.c)
        with _driver_errors(connection):
            driver.executemany(f"INSERT INTO {_quote(table.name)} ({names}) VALUES ({marks})", rows)  # noqa: S608
        return
    with _driver_errors(connection), driver.cursor() as cursor:
        cursor.execute("SET LOCAL TIME ZONE 'UTC'")
        with cursor.copy(f"COPY {_quote(table.name)} ({names}) FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)


@contextmanager
def _driver_errors(connection: Connection) -> Iterator[None]:
    """Convert the driver's errors in the block to SQLAlchemy's."""
    kinds: Any = connection.dialect.loaded_dbapi
    try:
        yield
    except kinds.Error as error:
        raise DBAPIError.instance(None, None, error, kinds.Error, dialect=connection.dialect) from error


def _sqlite_form(kind: object, name: str) -> tuple[str, str]:
    """Return the expression in PostgreSQL for a column's value in SQLite's form, and the expression's type."""
    base_type = getattr(kind, "impl", kind)
    for column_type, expression, sql_type in _SERVER_FORMS:
        if isinstance(base_type, column_type):
            return expression.format(name), sql_type
    return name, "text"


def _quote(name: str) -> str:
    """Return a name as SQL."""
    return f'"{name}"'
