"""A boardlab whose schema is one revision newer, to which a store of today is an older one; as a plugin, for a whole session."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from alembic.config import Config
from sqlalchemy import Connection, create_engine, make_url

from lab.results import schema

OLDER = schema.NEWEST
NEWER = "0003_next"
FOLDER = "BOARDLAB_TESTS_NEWER_SCHEMA"  # environment variable of a session: a folder for the revision
_REVISION = f"""
from alembic import op

revision = "{NEWER}"
down_revision = "{OLDER}"


def upgrade():
    op.execute("CREATE TABLE later (id INTEGER)")
"""


@contextmanager
def newer_program(folder: Path) -> Iterator[None]:
    """Within it, this program has one more revision."""
    folder.mkdir(exist_ok=True)
    (folder / f"{NEWER}.py").write_text(_REVISION)
    usual = schema._config

    def config() -> Config:
        made = usual()
        made.set_main_option("path_separator", "newline")
        made.set_main_option(
            "version_locations", f"{Path(schema.__file__).with_name('migrations')}/versions\n{folder}"
        )
        return made

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schema, "NEWEST", NEWER)
        patch.setattr(schema, "_config", config)
        yield


def pytest_configure(config: pytest.Config) -> None:
    """Be newer until the session ends."""
    newer = newer_program(Path(os.environ[FOLDER]))
    newer.__enter__()
    config.add_cleanup(lambda: newer.__exit__(None, None, None))


@contextmanager
def raw(database: str) -> Iterator[Connection]:
    """A transaction on the bare database."""
    url = make_url(database)
    engine = create_engine(url if url.get_backend_name() == "sqlite" else url.set(drivername="postgresql+psycopg"))
    with engine.begin() as connection:
        yield connection
    engine.dispose()
