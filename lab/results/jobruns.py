"""What jobs have had of runs."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection
from typing import Final

from sqlalchemy import and_, func, or_, select
from sqlalchemy.orm import Session

from lab.errors import ConfigurationError
from lab.results.jobrecords import call
from lab.results.models import AttemptRow, JobRow, RunRow
from lab.results.store import Store

FAILED_TESTS: Final = "failed_tests"  # key of a run's provenance


def measured(session: Session, row: JobRow, lease_s: float) -> bool:
    """Whether a job has had a run; `lease_s`: one that gave no sign of life for so long has ended."""
    if row.started_at is None:
        return False
    ended_at = row.finished_at or row.heartbeat_at + dt.timedelta(seconds=lease_s)
    then = and_(RunRow.started_at >= row.started_at, RunRow.started_at <= ended_at)
    its = select(RunRow.id).where(
        RunRow.board == row.board,
        RunRow.id > row.after_run,
        or_(RunRow.job_id == row.id, then),  # one that went on has its run of before
    )
    return row.done > 0 or session.scalars(its.limit(1)).one_or_none() is not None


def note_tests(store: Store, run_ids: Collection[int], *, failed: bool) -> None:
    """Keep with runs whether a test of their session failed: a job that is killed after it knows so when it is resumed.

    Raises:
        BoardlabError: the store cannot be written.
    """

    def write(session: Session) -> None:
        for row in session.scalars(select(RunRow).where(RunRow.id.in_(run_ids))):
            if bool(row.provenance.get(FAILED_TESTS)) != failed:
                row.provenance = {**row.provenance, FAILED_TESTS: failed}

    store._write(write)


def has_failed(store: Store, job_id: int) -> bool:
    """Whether a test of a job's runs failed; not of those that were made to confirm a number, nor of one that can be gone on with.

    Raises:
        BoardlabError: the store cannot be read.
    """
    with store._read() as session:
        its = (RunRow.job_id == job_id, RunRow.status == "completed")
        found = session.scalars(select(RunRow.provenance).where(*its)).all()
    return any(provenance.get(FAILED_TESTS) and not provenance.get("confirms") for provenance in found)


def lab_faults(store: Store, job_id: int) -> tuple[str, ...]:
    """Classes of the lab's faults for which a job's runs lack what they lack; none where anything else failed, too, or nothing is lacking.

    Raises:
        BoardlabError: the store cannot be read.
    """
    with store._read() as session:
        its = select(RunRow.id, RunRow.provenance).where(RunRow.job_id == job_id)
        runs = [run for run, provenance in session.execute(its) if "confirms" not in provenance]
        columns = (AttemptRow.run_id, AttemptRow.cycle, AttemptRow.params, AttemptRow.outcome, AttemptRow.fault)
        attempts = session.execute(select(*columns).where(AttemptRow.run_id.in_(runs)).order_by(AttemptRow.id)).all()
    last = {
        (run, cycle, tuple(sorted(params.items()))): (outcome, fault)
        for run, cycle, params, outcome, fault in attempts
    }
    failed = [each for each in last.values() if each[0] != "ok"]
    if any(fault != "lab" for _outcome, fault in failed):
        return ()
    return tuple(sorted({outcome for outcome, _fault in failed}))


def confirms(store: Store, run_id: int) -> bool:
    """Whether a run was made to confirm a number of another one, beyond what its job was to measure.

    Raises:
        BoardlabError: the store cannot be read.
    """
    return "confirms" in store.run(run_id).provenance


def last_run(session: Session, board: str) -> int:
    """The board's latest run; 0: it has none."""
    return session.scalar(select(func.max(RunRow.id)).where(RunRow.board == board)) or 0


def find(session: Session, job_id: int) -> JobRow:
    """The row of a job.

    Raises:
        ConfigurationError: there is none of that number.
    """
    row = session.get(JobRow, job_id)
    if row is None:
        last = session.scalar(select(func.max(JobRow.id)))
        raise ConfigurationError(
            f"no job {call(job_id)}; " + (f"the latest is {call(last)}" if last else "there are none yet")
        )
    return row
