"""The store's record of boards' health: checks, and what follows from them and from how attempts ended."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Final

from attrs import evolve, field, frozen
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from lab.health import DEFAULT_RULE, Check, Health, Rule, derive, due
from lab.health.state import shared
from lab.host.clock import utc_now
from lab.results.healthmodels import HealthCheckRow
from lab.results.healthrows import check_of, row_of
from lab.results.models import AttemptRow, RunRow
from lab.results.quarantine import events, kept, lift
from lab.results.reservations import QUARANTINE, Hold, standing
from lab.results.store import Store

_FAILED: Final = 1000  # attempts of all boards that are looked at


@frozen
class HealthBook:
    """The health of a store's boards.

    Attributes:
        rule: as farm.yaml has it.
    """

    store: Store
    rule: Rule = DEFAULT_RULE
    now: Callable[[], dt.datetime] = field(default=utc_now)

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
            return _of(session, board, _latest(session, board), standing(session, board, now), self.rule, now)

    def all(self) -> dict[str, Health]:
        """Board -> its health now, of all that were checked, failed lately, or are kept out."""
        with self.store._read() as session:
            return healths(session, self.rule, self.now())


def healths(session: Session, rule: Rule, now: dt.datetime) -> dict[str, Health]:
    """As of `HealthBook.all`."""
    checks: dict[str, list[Check]] = {}
    for check in _latest(session, None):
        checks.setdefault(check.board, []).append(check)
    holds: dict[str, list[Hold]] = {}
    for hold in standing(session, None, now):
        if hold.kind != "reserved":
            holds.setdefault(hold.board, []).append(hold)
    boards = {*checks, *holds, *_failing(session, now - rule.window)}
    found = {
        board: _of(session, board, checks.get(board, []), holds.get(board, []), rule, now) for board in sorted(boards)
    }
    newest = [max(of_board, key=lambda check: check.at) for of_board in checks.values()]
    for board, with_others in shared(newest).items():
        if found[board].state == "bad":
            found[board] = evolve(found[board], reasons=(*found[board].reasons, with_others))
    return found


def _of(session: Session, board: str, checks: list[Check], holds: list[Hold], rule: Rule, now: dt.datetime) -> Health:
    why = {hold.kind: hold.described for hold in holds}
    return derive(
        board,
        events(session, board, now - rule.window),
        checks,
        rule,
        now,
        kept=why.get(QUARANTINE, ""),
        maintenance=why.get("maintenance", ""),
    )


def _latest(session: Session, board: str | None) -> list[Check]:
    """The latest check on each host, of one board or of all."""
    last = select(func.max(HealthCheckRow.id)).group_by(HealthCheckRow.board, HealthCheckRow.host)
    if board is not None:
        last = last.where(HealthCheckRow.board == board)
    return [check_of(row) for row in session.scalars(select(HealthCheckRow).where(HealthCheckRow.id.in_(last)))]


def _failing(session: Session, since: dt.datetime) -> set[str]:
    """The boards of which an attempt failed since then."""
    failed = select(AttemptRow.run_id).where(AttemptRow.outcome != "ok", AttemptRow.started_at >= since)
    ids = set(session.scalars(failed.order_by(AttemptRow.started_at.desc()).limit(_FAILED)))
    return set(session.scalars(select(RunRow.board).where(RunRow.id.in_(ids)).distinct()))
