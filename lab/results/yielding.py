"""A job that a timer began gives its board to whoever wants it: after its present cycle, and goes on afterwards.

Who wants it is in the store: a reservation of the board, or what the job's runner has found out and noted (`ask`). Whoever measures
asks between two cycles (`wanted`), and the runner then puts the job back among those that wait (`give_way`).
"""

from __future__ import annotations

import datetime as dt

from sqlalchemy.orm import Session

from lab.results.jobrecords import Job, job_of
from lab.results.jobruns import find
from lab.results.jobs import JobQueue
from lab.results.models import JobRow
from lab.results.reservations import QUARANTINE, standing
from lab.results.store import Store
from lab.results.turns import PERSONS

GAVE_WAY = 66  # exit code of a pytest that ended since somebody wants its board


def wanted(store: Store, job_id: int, now: dt.datetime | None = None) -> str:
    """Who wants the board of a job that gives way, and why; empty: nobody, or it is a person's job, which never does.

    Raises:
        BoardlabError: the store cannot be read.
    """
    with store._read() as session:
        return _wanted(session, find(session, job_id), now or store.now())


def ask(book: JobQueue, job_id: int, who: str) -> None:
    """Note that somebody wants the board, e.g. "lena reserved labgrid's place b1"; empty: nobody any more. A person's job is left alone."""

    def note(session: Session) -> None:
        row = find(session, job_id)
        if row.holder == book.holder and row.state == "running" and row.priority < PERSONS:
            row.yields_to = who

    book.store._write(note)


def wait_on(book: JobQueue, job_id: int, who: str | None = None) -> None:
    """A sign of life of a job that waits for something else than its board.

    Args:
        who: has what a person's job waits for, which keeps nobody from the board meanwhile: they may need it; empty: nobody any more.

    Raises:
        LabStableError: the job was taken from us meanwhile.
    """

    def renew(session: Session) -> None:
        row = book._own(session, job_id, "queued")
        row.heartbeat_at = book.now()
        row.yields_to = row.yields_to if who is None else who

    book.store._write(renew)


def give_way(book: JobQueue, job_id: int) -> Job:
    """Give the board back and wait for it again, with the age that the job has.

    Raises:
        LabStableError: the job was taken from us meanwhile.
    """

    def requeue(session: Session) -> Job:
        row = book._own(session, job_id, "running")
        row.yields_to = _wanted(session, row, book.now()) or row.yields_to
        row.state, row.heartbeat_at = "queued", book.now()
        return job_of(row)

    return book.store._write(requeue)


def _wanted(session: Session, row: JobRow, now: dt.datetime) -> str:
    if row.priority >= PERSONS:
        return ""
    holds = [hold for hold in standing(session, row.board, now) if hold.kind != QUARANTINE]  # which nobody waits for
    return f"{row.board} is {', '.join(hold.described for hold in holds)}" if holds else row.yields_to
