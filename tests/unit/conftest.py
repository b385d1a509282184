"""New SQLite stores of unit tests get their tables from the first one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from alembic import command
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect, text

from lab.results import migrating
from lab.results.schema import NEWEST, VERSION_TABLE


@pytest.fixture(scope="session", autouse=True)
def _tables_by_copy() -> Iterator[None]:
    """Run the migrations of a new store once: they cost a tenth of a second."""
    upgrade, tables = command.upgrade, list[str]()
    scripts = ScriptDirectory.from_config(migrating._config())

    def copied(config: Any, revision: str) -> None:
        connection: Connection = config.attributes["connection"]
        new = connection.dialect.name == "sqlite" and revision == "head" and not inspect(connection).get_table_names()
        if not new or not tables:
            upgrade(config, revision)
        if new and not tables:
            found = connection.execute(text("SELECT sql FROM sqlite_master WHERE sql NOT NULL ORDER BY rowid"))
            tables.extend(found.scalars())
        elif new:
            for statement in tables:
                connection.exec_driver_sql(statement)
            connection.exec_driver_sql(f"INSERT INTO {VERSION_TABLE} VALUES ('{NEWEST}')")  # noqa: S608 - our names

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(command, "upgrade", copied)
        patch.setattr(ScriptDirectory, "from_config", lambda _config: scripts)
        yield
