"""Which schema a database has. One that is not up to date is migrated, and only then is Alembic loaded."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Connection, Engine, inspect, text

from lab.errors import LabTransientError
from lab.results.engine import reader
from lab.results.location import Location

VERSION_TABLE: Final = "boardlab_schema"
NEWEST: Final = "0002_jobs"  # the last of lab/results/migrations


def upgrade(engine: Engine, location: Location) -> None:
    """Create or migrate the tables; nothing where they are up to date.

    Safe when several programs open a new database at once: one migrates, the others wait for it.

    Raises:
        ConfigurationError: the database belongs to a newer boardlab, or to something else.
    """
    with reader(engine).connect() as connection:
        if revision(connection) == NEWEST:
            return
    from lab.results import migrating  # noqa: PLC0415 - a fifth of what a command takes that only reads

    migrating.upgrade(engine, location)


def require(connection: Connection, wanted: str, location: Location) -> None:
    """Make sure that the database has that revision, and change nothing.

    Raises:
        LabTransientError: it has another one, perhaps since it is being migrated just now.
    """
    found = revision(connection)
    if found != wanted:
        raise LabTransientError(
            f"{location.name} has schema {found or 'none'}, this program reads {wanted}: an older one is migrated by "
            "the next program that measures into it; for a newer one, update boardlab here",
            failure="results",
        )


def revision(connection: Connection) -> str | None:
    """What Alembic has noted in the database; None where it has noted nothing, or several things."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    found = connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalars().all()  # noqa: S608 - our name
    return str(found[0]) if len(found) == 1 else None
