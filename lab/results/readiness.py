"""Whether a database can be used as it is; where it can be made so, it is."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import Engine

from lab.errors import NoResultsError
from lab.results import schema
from lab.results.engine import reader
from lab.results.location import DATABASE_VARIABLE, Location


def make_ready(engine: Engine, location: Location, *, create: bool, migrate: Callable[[str], None] | None) -> None:
    """Create or migrate the tables, as `lab.results.migrating.upgrade` does; nothing where they are up to date.

    Args:
        create: whether to create an SQLite file that is not there, and the tables of a new database.
        migrate: told what was done to tables of an older boardlab; None: they are refused.

    Raises:
        ConfigurationError: there are no results, or they belong to an older or newer boardlab, or to something else.
        LabStableError: no copy could be made before the migration.
    """
    path = location.path
    if not create and path is not None and not path.exists():
        raise NoResultsError(
            f"there are no results in {path}: the file does not exist; name another one with --db or "
            f"${DATABASE_VARIABLE}, or measure something first"
        )
    with reader(engine).connect() as connection:
        if schema.revision(connection) == schema.NEWEST:
            return
    from lab.results import migrating  # noqa: PLC0415 - a fifth of what a command takes that only reads

    migrating.upgrade(engine, location, create=create, migrate=migrate)
