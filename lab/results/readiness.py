"""Whether a database can be used as it is; where it can be made so, it is."""

from __future__ import annotations

from sqlalchemy import Engine

from lab.errors import ConfigurationError
from lab.results import schema
from lab.results.engine import reader
from lab.results.location import DATABASE_VARIABLE, Location


def make_ready(engine: Engine, location: Location, *, create: bool) -> None:
    """Create or migrate the tables, as `lab.results.migrating.upgrade` does; nothing where they are up to date.

    Args:
        create: whether to create an SQLite file that is not there.

    Raises:
        ConfigurationError: the file is not there, or the database belongs to a newer boardlab, or to something else.
    """
    path = location.path
    if not create and path is not None and not path.exists():
        raise ConfigurationError(
            f"there are no results in {path}: the file does not exist; name another one with --db or "
            f"${DATABASE_VARIABLE}, or measure something first"
        )
    with reader(engine).connect() as connection:
        if schema.revision(connection) == schema.NEWEST:
            return
    from lab.results import migrating  # noqa: PLC0415 - a fifth of what a command takes that only reads

    migrating.upgrade(engine, location)
