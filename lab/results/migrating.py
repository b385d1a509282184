"""Brings a database to the schema that this program knows."""

from __future__ import annotations

import logging
from typing import Final

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection, Engine, inspect, text

from lab.errors import ConfigurationError
from lab.results.columns import DamagedSchemaError
from lab.results.engine import reader
from lab.results.location import Location
from lab.results.schema import VERSION_TABLE

_LOCK: Final = 0x626F6172646C6162  # "boardlab"; PostgreSQL's advisory locks are numbers
_log = logging.getLogger(__name__)


def upgrade(engine: Engine, location: Location) -> None:
    """Create or migrate the tables; nothing where they are up to date.

    Safe when several programs open a new database at once: one migrates, the others wait for it.

    Raises:
        ConfigurationError: the database belongs to a newer boardlab, or to something else.
        DamagedSchemaError: what the database notes of its schema cannot be understood.
    """
    try:
        _upgrade(engine, location)
    except CommandError as error:
        raise DamagedSchemaError(str(error)) from error


def _upgrade(engine: Engine, location: Location) -> None:
    config = _config()
    script = ScriptDirectory.from_config(config)
    with reader(engine).connect() as connection:
        if _is_current(connection, script, location):
            return
    with engine.begin() as connection:  # on SQLite this is the write lock
        if connection.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
        if not _is_current(connection, script, location):
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
            _log.info("%s has schema %s now", location.name, script.get_current_head())


def _revision(connection: Connection) -> str | None:
    _hush()
    return MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE}).get_current_revision()


def _hush() -> None:
    """Alembic tells at each look at a database which dialect it has found; nobody asked."""
    logging.getLogger("alembic").setLevel(logging.WARNING)


def _config() -> Config:
    _hush()
    config = Config()
    config.set_main_option("script_location", "lab.results:migrations")
    return config


def _is_current(connection: Connection, script: ScriptDirectory, location: Location) -> bool:
    tables = inspect(connection).get_table_names()  # before the version: another program may be creating both just now
    current = _revision(connection)
    if current is None and tables:
        raise ConfigurationError(
            f"{location.name} is a database of something else: it has tables, but not {VERSION_TABLE}; "
            "choose another one with --db, --lab-db or $LAB_DB"
        )
    known = {revision.revision for revision in script.walk_revisions()}
    if current is not None and current not in known:
        raise ConfigurationError(
            f"{location.name} was written by a newer boardlab (its schema is {current}, this program knows up to "
            f"{script.get_current_head()}); update boardlab, or choose another database with --db, --lab-db or $LAB_DB"
        )
    return current == script.get_current_head()
