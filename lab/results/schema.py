"""Which schema a database has, and which this program knows."""

from __future__ import annotations

import shlex
from typing import Final

from sqlalchemy import Connection, inspect, text

from lab.errors import LabTransientError
from lab.results.location import Location

VERSION_TABLE: Final = "boardlab_schema"
NEWEST: Final = "0001_first"  # the last of lab/results/migrations


def require(connection: Connection, wanted: str, location: Location) -> None:
    """Make sure that the database has that revision, and change nothing.

    Raises:
        LabTransientError: it has another one, perhaps since it is being migrated just now.
    """
    found = revision(connection)
    if found != wanted:
        raise LabTransientError(
            f"{location.name} has schema {found or 'none'}, this program reads {wanted}: {how_to_migrate(location)}; "
            "where it is a newer one, update boardlab here",
            failure="results",
        )


def how_to_migrate(location: Location) -> str:
    """What a person does about an older schema."""
    database = "URL" if location.path is None else shlex.quote(str(location.path))
    return f"update boardlab on every host that uses these results, then run once: lab results migrate --db {database}"


def revision(connection: Connection) -> str | None:
    """What Alembic has noted in the database; None where it has noted nothing, or several things."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    found = connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalars().all()  # noqa: S608 - our name
    return str(found[0]) if len(found) == 1 else None
