"""Stores as earlier releases left them, made of one of today."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, create_engine, inspect, make_url, text

JOB_COLUMNS = ("options", "person", "program", "cancelled_by", "priority", "yields_to", "request")


@contextmanager
def raw(database: str) -> Iterator[Connection]:
    """A transaction on the bare database."""
    url = make_url(database)
    engine = create_engine(url if url.get_backend_name() == "sqlite" else url.set(drivername="postgresql+psycopg"))
    with engine.begin() as connection:
        yield connection
    engine.dispose()


def back_to_verdicts(database: str) -> None:
    """Make a store what it was before jobs had options, and runs knew their jobs."""
    with raw(database) as connection:
        for index in ("runs_place", "runs_release", "runs_finished_at", "runs_running", "attempts_failed"):
            connection.execute(text(f"DROP INDEX ix_{index}"))
        connection.execute(text("DROP INDEX ix_measurements_metric"))
        for table in ("health_checks", "audit", "comments", "reservations", "provisions"):
            connection.execute(text(f"DROP TABLE {table}"))
        connection.execute(text("DROP INDEX ix_runs_job_id"))
        connection.execute(text("ALTER TABLE runs DROP COLUMN job_id"))
        for column in JOB_COLUMNS:
            connection.execute(text(f"ALTER TABLE jobs DROP COLUMN {column}"))
        connection.execute(text("UPDATE boardlab_schema SET version_num = '0003_verdicts'"))


def back_to_jobs(database: str) -> None:
    """Make a store what it was before there were verdicts."""
    back_to_verdicts(database)
    with raw(database) as connection:
        for table in ("verdicts", "reviews", "mutes"):
            connection.execute(text(f"DROP TABLE {table}"))
        connection.execute(text("UPDATE boardlab_schema SET version_num = '0002_jobs'"))
        assert "jobs" in inspect(connection).get_table_names()
