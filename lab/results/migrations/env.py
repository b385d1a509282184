"""Alembic's environment, on the connection and transaction of lab.results.schema."""

from __future__ import annotations

from alembic import context

from lab.results.models import Base
from lab.results.schema import VERSION_TABLE

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    version_table=VERSION_TABLE,
    render_as_batch=True,  # SQLite changes a table by copying it
)
context.run_migrations()
