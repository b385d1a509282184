"""A fresh database for each test: an SQLite file, or one on the PostgreSQL server that $LAB_TEST_SERVER names.

tests/integration/test_postgresql_store.py runs this folder's store tests a second time against a real server.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, make_url, text
from support.jobbook import Steady, Wall

from lab.results import Store, open_store


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of an empty database; its artifacts lie in the test's directory."""
    monkeypatch.setenv("LAB_ARTIFACTS", str(tmp_path / "artifacts"))
    server = os.environ.get("LAB_TEST_SERVER")
    if server is None:
        yield f"sqlite:///{tmp_path / 'results.db'}"
        return
    url = make_url(server).set(drivername="postgresql+psycopg")
    name = f"test_{uuid.uuid4().hex}"
    admin = create_engine(url, isolation_level="AUTOCOMMIT")
    with admin.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
        yield url.set(drivername="postgresql", database=name).render_as_string(hide_password=False)
        connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
    admin.dispose()


@pytest.fixture
def store(database: str) -> Iterator[Store]:
    with open_store(database) as opened:
        yield opened


@pytest.fixture
def wall() -> Wall:
    return Wall()


@pytest.fixture
def steady() -> Steady:
    return Steady()
