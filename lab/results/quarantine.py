"""Boards that boardlab itself keeps out, after faults of the lab in a row, until a check passes.

It is a reservation of its own kind. It is made in the transaction in which a job asks for its board or gives it back, so that
no job slips past it and no program that was killed leaves it out.
"""

from __future__ import annotations

import datetime as dt
from contextlib import suppress
from typing import Final

from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from lab.health import Event, Rule, quarantine
from lab.results.actionmodels import ReservationRow
from lab.results.healthmodels import HealthCheckRow
from lab.results.healthrows import check_of
from lab.results.jobrecords import BY_HEALTH, BY_PROVISION, BY_WEB, HEALTH
from lab.results.models import AttemptRow, JobRow, RunRow
from lab.results.reservations import QUARANTINE, Hold, standing

KEEPER: Final = "boardlab itself"  # no user of a host is called so
RUNS: Final = 30  # of a board, whose attempts are looked at
_ATTEMPTS: Final = 200
_CHECKS: Final = 50


def kept(session: Session, board: str, now: dt.datetime, rule: Rule) -> list[Hold]:
    """Whose a board is now; it is put in quarantine first where that is due. `session`: writes."""
    holds = standing(session, board, now)
    if any(hold.kind == QUARANTINE for hold in holds):
        return holds
    why = quarantine(events(session, board, now - rule.window), rule, now)
    if not why:
        return holds
    with suppress(IntegrityError), session.begin_nested():  # another job has just put it there
        session.add(
            ReservationRow(
                board=board,
                kind=QUARANTINE,
                person=KEEPER,
                reason=f"{why}. `lab health {board} --check` brings it back when it passes",
                at=now,
                until=None,
                ended_at=None,
                ended_by="",
            )
        )
    return standing(session, board, now)


def allowed(job: JobRow) -> bool:
    """Whether a job may have a board that is in quarantine.

    It checks it first, writes a release, which may be what mends it, or is a person at its power switch.
    """
    return job.program in {BY_HEALTH, BY_PROVISION, BY_WEB} or bool(job.options.get(HEALTH))


def lift(session: Session, board: str, now: dt.datetime, by: str) -> None:
    """End a board's quarantine, where it is in one."""
    its = (ReservationRow.board == board, ReservationRow.kind == QUARANTINE, ReservationRow.ended_at.is_(None))
    for row in session.scalars(select(ReservationRow).where(*its).with_for_update()):
        row.ended_at, row.ended_by = now, by


def events(session: Session, board: str, since: dt.datetime) -> list[Event]:
    """How a board's latest attempts and checks ended, oldest first."""
    runs = select(RunRow.id).where(RunRow.board == board).order_by(RunRow.id.desc()).limit(RUNS)
    wanted = select(AttemptRow.started_at, AttemptRow.outcome, AttemptRow.fault).where(
        AttemptRow.run_id.in_(session.scalars(runs).all()), AttemptRow.started_at >= since
    )
    found = [
        Event.of_attempt(at, outcome, fault)
        for at, outcome, fault in session.execute(wanted.order_by(AttemptRow.started_at.desc()).limit(_ATTEMPTS))
    ]
    checks = select(HealthCheckRow).where(HealthCheckRow.board == board, HealthCheckRow.at >= since)
    found += [check_of(row).event for row in session.scalars(checks.order_by(HealthCheckRow.id.desc()).limit(_CHECKS))]
    return sorted(found, key=lambda event: event.at)
