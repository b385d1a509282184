"""Checks and migrations of a database's schema."""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import re
import shlex
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Connection, Engine, inspect, text

from lab.errors import ConfigurationError, LabStableError, LabTransientError, NoResultsError
from lab.results.columns import DamagedSchemaError
from lab.results.database import reader
from lab.results.location import DATABASE_VARIABLE, PRIVATE_FILE, Location

if TYPE_CHECKING:
    from alembic.config import Config
    from alembic.script import ScriptDirectory

VERSION_TABLE: Final = "boardlab_schema"
NEWEST: Final = "0005_indices"  # the last of lab/results/migrations


def require(connection: Connection, expected: str, location: Location) -> None:
    """Require a revision of the database's schema, without changing it.

    Raises:
        LabTransientError: the schema has another revision; another program may be migrating it.
    """
    current = revision(connection)
    if current != expected:
        raise LabTransientError(
            f"{location.name} has schema {current or 'none'}, this program reads {expected}: "
            f"{how_to_migrate(location)}; where it is a newer one, update boardlab here",
            failure="results",
        )


def how_to_migrate(location: Location) -> str:
    """Return the remedy for an older schema, for messages."""
    database = "URL" if location.path is None else shlex.quote(str(location.path))
    return f"update boardlab on every host that uses these results, then run once: lab results migrate --db {database}"


def revision(connection: Connection) -> str | None:
    """Return Alembic's revision of the database; None: it has none, or several."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    query = text(f"SELECT version_num FROM {VERSION_TABLE}")  # noqa: S608 - our name
    versions = connection.execute(query).scalars().all()
    return str(versions[0]) if len(versions) == 1 else None


def readable_revisions() -> set[str]:
    """Return the revisions that this program can read or migrate."""
    from alembic.script import ScriptDirectory  # noqa: PLC0415

    return {script.revision for script in ScriptDirectory.from_config(_config()).walk_revisions()}


def make_ready(engine: Engine, location: Location, *, create: bool, migrate: Callable[[str], None] | None) -> None:
    """Create or migrate the tables if they are not up to date.

    Args:
        create: True: create a missing SQLite file, and the tables of a new database.
        migrate: gets a report after older tables were migrated; None: older tables are refused.

    Raises:
        ConfigurationError: there are no results, or another version of boardlab or another program has written them.
        LabStableError: no copy could be made before the migration.
    """
    path = location.path
    if not create and path is not None and not path.exists():
        raise NoResultsError(
            f"there are no results in {path}: the file does not exist; name another one with --db or "
            f"${DATABASE_VARIABLE}, or measure something first"
        )
    if create and path is not None:
        with contextlib.suppress(OSError):  # an existing file stays as it is; SQLite reports any other problem
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE))
    with reader(engine).connect() as connection:
        if revision(connection) == NEWEST:
            return

    upgrade(engine, location, create=create, migrate=migrate)


# Schemas of before 1.0, whose migrations are no longer here.
_BEFORE_1_0: Final = frozenset(
    {
        "0002_jobs",
        "0003_verdicts",
        "0004_job_options",
        "0005_provisions",
        "0006_actions",
        "0007_indices",
        "0008_audit_replace",
        "0009_yielding",
        "0010_health",
        "0011_requests",
        "0012_boot_partitions",
        "0013_boot_areas",
        "0014_release_identity",
    }
)
_LOCK: Final = 0x626F6172646C6162  # "boardlab"; PostgreSQL's advisory locks are numbers
_log = logging.getLogger(__name__)


def upgrade(engine: Engine, location: Location, *, create: bool, migrate: Callable[[str], None] | None) -> None:
    """Create or migrate the tables if needed, as `make_ready`.

    If several programs open a new database at once, one migrates it and the others wait. An SQLite file is copied to a
    file beside it before it is migrated.

    Raises:
        ConfigurationError: there are no tables, or another version of boardlab or another program has written them.
        DamagedSchemaError: the revision of the database's schema cannot be read.
        LabStableError: no copy could be made; the database is unchanged.
    """
    # Alembic is imported only here: it would take a fifth of the time of a command that only reads.
    from alembic.util import CommandError  # noqa: PLC0415

    try:
        _upgrade(engine, location, create=create, migrate=migrate)
    except CommandError as error:
        raise DamagedSchemaError(str(error)) from error


def _upgrade(engine: Engine, location: Location, *, create: bool, migrate: Callable[[str], None] | None) -> None:
    from alembic import command  # noqa: PLC0415
    from alembic.script import ScriptDirectory  # noqa: PLC0415

    config = _config()
    script = ScriptDirectory.from_config(config)
    newest = script.get_current_head()
    with reader(engine).connect() as connection:
        current = _current_revision(connection, script, location)
        if not _needs_upgrade(current, newest, location, create=create, may_migrate=migrate is not None):
            return
    copy = None
    try:
        with engine.begin() as connection:  # on SQLite this is the write lock
            if connection.dialect.name == "postgresql":
                connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
            # Again, since another program may have migrated it before this one got the lock.
            current = _current_revision(connection, script, location)
            if not _needs_upgrade(current, newest, location, create=create, may_migrate=migrate is not None):
                return
            if current is not None and location.path is not None:
                copy = _copy_beside(engine, location.path, current)
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
    except BaseException:
        if copy is not None:  # the transaction was rolled back, so the copy is not needed
            copy.unlink(missing_ok=True)
        raise
    if migrate is None or current is None:
        _log.info("%s has schema %s now", location.name, newest)
        return
    copied = f"as it was: {copy}" if copy is not None else "no copy was made"
    migrate(
        f"{location.name}: migrated from schema {current} to {newest} ({copied}); "
        "a host with an older boardlab cannot use it until boardlab is updated there"
    )


def _needs_upgrade(
    current: str | None, newest: str | None, location: Location, *, create: bool, may_migrate: bool
) -> bool:
    """Return True if tables must be created or migrated.

    Args:
        current: revision of the database; None: it is empty.
        create: True if tables may be created.
        may_migrate: True if older tables may be migrated.

    Raises:
        ConfigurationError: they must be created or migrated, and it is not allowed.
    """
    if current is None and not create:
        raise NoResultsError(
            f"there are no results in {location.name}: it has no tables; name another one with --db or "
            f"${DATABASE_VARIABLE}, or measure something first"
        )
    if current not in {None, newest} and not may_migrate:
        raise ConfigurationError(
            f"{location.name} has schema {current} of an older boardlab, this one needs {newest}; nothing was changed: "
            f"{how_to_migrate(location)}"
        )
    return current != newest


def _copy_beside(engine: Engine, path: Path, schema: str) -> Path:
    """Copy an SQLite database to a file beside it; the caller holds the write lock.

    Args:
        schema: revision of its schema, which becomes part of the copy's name.

    Raises:
        LabStableError: the copy cannot be made.
    """
    names = (f"{path.name}.{schema}{f'-{number}' if number > 1 else ''}" for number in itertools.count(1))
    copy = next(free for name in names if not (free := path.with_name(name)).exists())
    part = copy.with_name(f"{copy.name}.part")
    try:
        part.unlink(missing_ok=True)  # left by a migration that was killed
        part.touch(mode=path.stat().st_mode & 0o777)
        with reader(engine).connect() as source, contextlib.closing(sqlite3.connect(part)) as target:
            origin: Any = source.connection.driver_connection
            origin.backup(target)
        part.replace(copy)
    except (sqlite3.Error, OSError) as error:
        part.unlink(missing_ok=True)
        raise LabStableError(
            f"{path} cannot be copied to {copy} before it is migrated ({error}); nothing was changed: free space or "
            f"mend the rights in {path.parent}, then try again",
            failure="results",
        ) from error
    return copy


def _restore_command(location: Location, revisions: set[str]) -> str:
    """Return the command that restores the copy from before a migration; empty: there is no copy.

    Args:
        revisions: revisions that this program can use.
    """
    path = location.path
    if path is None:
        return ""
    # The name of a copy ends with its schema, and perhaps a number (`_copy_beside`).
    suffixes = {copy: copy.suffix.removeprefix(".") for copy in path.parent.glob(f"{path.name}.*")}
    copies = [copy for copy, suffix in suffixes.items() if re.sub(r"-\d+$", "", suffix) in revisions]
    if not copies:
        return ""
    newest = max(copies, key=lambda copy: copy.stat().st_mtime_ns)
    words = [shlex.quote(str(file)) for file in (path, newest)]
    return (
        f". Or go back to the copy of before the migration, without what was measured since: stop the services, then "
        f"mv {words[0]} {words[0]}.newer && rm -f {words[0]}-wal {words[0]}-shm && cp -p {words[1]} {words[0]}"
    )


def _hush() -> None:
    """Silence Alembic, which reports the database's dialect each time."""
    logging.getLogger("alembic").setLevel(logging.WARNING)


def _config() -> Config:
    """Return Alembic's configuration for the package's migrations."""
    from alembic.config import Config  # noqa: PLC0415

    _hush()
    config = Config()
    config.set_main_option("script_location", "lab.results:migrations")
    return config


def _current_revision(connection: Connection, script: ScriptDirectory, location: Location) -> str | None:
    """Return the revision of the database's schema; None: the database is empty.

    Raises:
        ConfigurationError: another program has written it, or a version of boardlab that this one cannot read.
    """
    from alembic.runtime.migration import MigrationContext  # noqa: PLC0415

    _hush()
    # The tables are listed before the revision is read: another program may be creating both at the moment.
    tables = inspect(connection).get_table_names()
    current = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE}).get_current_revision()
    if current is None and tables:
        raise ConfigurationError(
            f"{location.name} is a database of something else: it has tables, but not {VERSION_TABLE}; "
            "choose another one with --db, --lab-db or $LAB_DB"
        )
    if current in _BEFORE_1_0:
        raise ConfigurationError(
            f"{location.name} was written by an older boardlab, before 1.0 (its schema is {current}), and cannot be "
            "migrated; read it with that boardlab, or choose another database with --db, --lab-db or $LAB_DB"
        )
    revisions = {revision.revision for revision in script.walk_revisions()}
    if current is not None and current not in revisions:
        raise ConfigurationError(
            f"{location.name} was written by a newer boardlab (its schema is {current}, this program knows up to "
            f"{script.get_current_head()}); update boardlab, or choose another database with --db, --lab-db or $LAB_DB"
            f"{_restore_command(location, revisions)}"
        )
    return current
