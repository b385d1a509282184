"""What a job was told beside its suites, who began it and with what, whether it shall end, and which job a run is of."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004_job_options"
down_revision = "0003_verdicts"

_RENAMED = {"power": "low_power"}  # suites; the schedules say the new name


def upgrade() -> None:
    """Add the columns; a job of before has no options, and its suites get the names of today."""
    op.add_column("jobs", sa.Column("options", sa.JSON(), nullable=False, server_default="{}"))
    op.add_column("jobs", sa.Column("person", sa.Text(), nullable=False, server_default=""))
    op.add_column("jobs", sa.Column("program", sa.Text(), nullable=False, server_default="lab run"))
    op.add_column("jobs", sa.Column("cancelled_by", sa.Text(), nullable=False, server_default=""))
    op.add_column("runs", sa.Column("job_id", sa.Integer(), nullable=True))
    op.create_index("ix_runs_job_id", "runs", ["job_id"])
    jobs = sa.table("jobs", sa.column("id", sa.Integer()), sa.column("suites", sa.Text()))
    connection = op.get_bind()
    old = sa.select(jobs.c.id, jobs.c.suites).where(jobs.c.suites.like("%power%"))
    for job_id, suites in connection.execute(old).all():
        names = ",".join(_RENAMED.get(name, name) for name in suites.split(","))
        if names != suites:
            connection.execute(sa.update(jobs).where(jobs.c.id == job_id).values(suites=names))
