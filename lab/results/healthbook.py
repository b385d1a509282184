"""The store's record of boards' health: checks, and what follows from them and from how attempts ended."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping

from attrs import Factory, evolve, field, frozen
from sqlalchemy import func, or_, select
from sqlalchemy.orm import Session

from lab.health import DEFAULT_RULE, Check, Event, Health, Rule, derive, due
from lab.health.state import DEVICE_FAULTS, shared
from lab.results.healthmodels import HealthCheckRow
from lab.results.healthrows import check_of, row_of
from lab.results.models import AttemptRow, RunRow
from lab.results.quarantine import events, kept, lift
from lab.results.records import OK
from lab.results.reservations import QUARANTINE, Hold, standing
from lab.results.store import Store


@frozen
class HealthBook:
    """The health of a store's boards.

    Attributes:
        rule: as farm.yaml has it.
    """

    store: Store
    rule: Rule = DEFAULT_RULE
    now: Callable[[], dt.datetime] = field(default=Factory(lambda self: self.store.now, takes_self=True))

    def record(self, check: Check) -> Check:
        """Keep a check that has ended. A passed one ends the board's quarantine; one that failed may begin it."""

        def insert(session: Session) -> Check:
            row = row_of(check)
            session.add(row)
            session.flush()
            if check.passed:
                lift(session, check.board, self.now(), f"health check {row.id}")
            else:
                kept(session, check.board, self.now(), self.rule)
            return evolve(check, id=row.id)

        return self.store._write(insert)

    def checks(self, board: str, limit: int) -> list[Check]:
        """The latest checks of a board, the newest first."""
        wanted = select(HealthCheckRow).where(HealthCheckRow.board == board).order_by(HealthCheckRow.id.desc())
        with self.store._read() as session:
            return [check_of(row) for row in session.scalars(wanted.limit(limit))]

    def due(self, board: str) -> str:
        """Why a board is to be checked before it takes a run; empty: it need not."""
        with self.store._read() as session:
            now = self.now()
            last = max(_latest(session, board), key=lambda check: check.at, default=None)
            is_kept = any(hold.kind == QUARANTINE for hold in standing(session, board, now))
            return due(last, events(session, board, now - self.rule.window), self.rule, now, kept=is_kept)

    def of(self, board: str) -> Health:
        """The health of a board now."""
        with self.store._read() as session:
            now = self.now()
            known = events(session, board, now - self.rule.window)
            return _of(board, known, _latest(session, board), standing(session, board, now), self.rule, now)

    def all(self, measured: Mapping[str, bool] | None = None) -> dict[str, Health]:
        """Board -> its health now, of all that were checked or measured lately, or are kept out.

        Args:
            measured: boards that were measured within the rule's window -> whether a good attempt of it is known; None: nobody knows.
        """
        with self.store._read() as session:
            now = self.now()
            if measured is None:
                measured = dict.fromkeys(_measured(session, now - self.rule.window), False)
            return healths(session, self.rule, now, measured)


def healths(
    session: Session, rule: Rule, now: dt.datetime, measured: Mapping[str, bool] | None = None
) -> dict[str, Health]:
    """Board -> its health now, of those that were checked, are kept out or in maintenance, or have faults that count.

    How attempts ended is read only of boards of which it may say more than that they are well: a look at a large lab is one of seconds else.

    Args:
        measured: others that are wanted, too -> whether a good attempt within the rule's window is known.
    """
    measured = measured or {}
    checks: dict[str, list[Check]] = {}
    for check in _latest(session, None):
        checks.setdefault(check.board, []).append(check)
    newest = {board: max(of_board, key=lambda check: check.at) for board, of_board in checks.items()}
    holds: dict[str, list[Hold]] = {}
    for hold in standing(session, None, now):
        if hold.kind != "reserved":
            holds.setdefault(hold.board, []).append(hold)
    since = now - rule.window
    unsure = (board for board, last in newest.items() if not last.passed or last.failed)
    doubtful = {*holds, *_failing(session, since), *unsure}
    found = {}
    for board in sorted({*checks, *doubtful, *measured}):
        its = checks.get(board, [])
        if board in doubtful or not (its or measured[board]):
            known = events(session, board, since)
        else:
            known = [last.event for last in its] or [Event(now, "ok")]
        found[board] = _of(board, known, its, holds.get(board, []), rule, now)
    for board, with_others in shared(newest.values()).items():
        if found[board].state == "bad":
            found[board] = evolve(found[board], reasons=(*found[board].reasons, with_others))
    return found


def _of(
    board: str, known: list[Event], checks: list[Check], holds: list[Hold], rule: Rule, now: dt.datetime
) -> Health:
    why = {hold.kind: hold.described for hold in holds}
    kept_out, maintenance = why.get(QUARANTINE, ""), why.get("maintenance", "")
    return derive(board, known, checks, rule, now, kept=kept_out, maintenance=maintenance)


def _latest(session: Session, board: str | None) -> list[Check]:
    """The latest check on each host, of one board or of all."""
    last = select(func.max(HealthCheckRow.id)).group_by(HealthCheckRow.board, HealthCheckRow.host)
    if board is not None:
        last = last.where(HealthCheckRow.board == board)
    return [check_of(row) for row in session.scalars(select(HealthCheckRow).where(HealthCheckRow.id.in_(last)))]


def _failing(session: Session, since: dt.datetime) -> set[str]:
    """The boards whose failed attempts since then may say something of them."""
    failed = (AttemptRow.outcome != OK, AttemptRow.started_at >= since)
    query = select(RunRow.board, AttemptRow.fault, func.count()).join(AttemptRow, AttemptRow.run_id == RunRow.id)
    counted = session.execute(query.where(*failed).group_by(RunRow.board, AttemptRow.fault))
    return {board for board, fault, count in counted if fault == "lab" or count >= DEVICE_FAULTS}


def _measured(session: Session, since: dt.datetime) -> set[str]:
    lately = or_(RunRow.finished_at >= since, RunRow.status == "running")
    return set(session.scalars(select(RunRow.board).where(lately).distinct()))
