"""The store's record of boards' health."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final, cast, get_args

from attrs import Factory, asdict, evolve, field, frozen
from sqlalchemy import func, or_, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from lab.health import DEFAULT_RULE, BoardCheck, Health, HealthEvent, QuarantineRule, derive, due, quarantine
from lab.health.reservations import QUARANTINE, Hold, standing
from lab.health.state import DEVICE_FAULTS, CheckedPart, Outcome, find_shared
from lab.results.models import FAILED, AttemptRow, HealthCheckRow, ReservationRow, RunRow
from lab.results.rows import columns_of, json_of, record_of
from lab.results.store import Store


@frozen
class HealthBook:
    """The health of a store's boards.

    Attributes:
        rule: as farm.yaml has it.
    """

    store: Store
    rule: QuarantineRule = DEFAULT_RULE
    now: Callable[[], dt.datetime] = field(default=Factory(lambda self: self.store.now, takes_self=True))

    def record(self, check: BoardCheck) -> BoardCheck:
        """Store an ended check, and end or begin the board's quarantine."""

        def insert(session: Session) -> BoardCheck:
            row = row_of(check)
            session.add(row)
            session.flush()
            if check.passed:
                lift(session, check.board, self.now(), f"health check {row.id}")
            else:
                holds_of(session, check.board, self.now(), self.rule)
            return evolve(check, id=row.id)

        return self.store.write(insert)

    def checks(self, board: str, limit: int) -> list[BoardCheck]:
        """The latest checks of a board, the newest first."""
        query = select(HealthCheckRow).where(HealthCheckRow.board == board).order_by(HealthCheckRow.id.desc())
        return self.store.read(lambda session: [check_of(row) for row in session.scalars(query.limit(limit))])

    def due(self, board: str) -> str:
        """The reason for a check before the next run; empty: none."""

        def read(session: Session) -> str:
            now = self.now()
            last = max(_latest(session, board), key=lambda check: check.at, default=None)
            is_quarantined = any(hold.kind == QUARANTINE for hold in standing(session, board, now))
            return due(
                last, events(session, board, now - self.rule.window), self.rule, now, quarantined=is_quarantined
            )

        return self.store.read(read)

    def of(self, board: str) -> Health:
        """The health of a board now."""

        def read(session: Session) -> Health:
            now = self.now()
            board_events = events(session, board, now - self.rule.window)
            return _of(board, board_events, _latest(session, board), standing(session, board, now), self.rule, now)

        return self.store.read(read)

    def all(self, measured: Mapping[str, bool] | None = None) -> dict[str, Health]:
        """Health by board, of all checked, measured or quarantined boards.

        Args:
            measured: boards measured within the rule's window -> True with a known good attempt; None: unknown.
        """

        def read(session: Session) -> dict[str, Health]:
            now = self.now()
            if measured is not None:
                return healths(session, self.rule, now, measured)
            lately = or_(RunRow.finished_at >= now - self.rule.window, RunRow.status == "running")
            boards = session.scalars(select(RunRow.board).where(lately).distinct())
            return healths(session, self.rule, now, dict.fromkeys(boards, False))

        return self.store.read(read)


def healths(
    session: Session, rule: QuarantineRule, now: dt.datetime, measured: Mapping[str, bool] | None = None
) -> dict[str, Health]:
    """Health by board, of all checked, quarantined or faulty boards.

    Attempts are read only of boards with possible faults: otherwise a look at a large lab would take seconds.

    Args:
        measured: further boards -> True with a known good attempt within the rule's window.
    """
    measured = measured or {}
    checks: dict[str, list[BoardCheck]] = {}
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
    by_board = {}
    for board in sorted({*checks, *doubtful, *measured}):
        board_checks = checks.get(board, [])
        if board in doubtful or not (board_checks or measured[board]):
            board_events = events(session, board, since)
        else:
            board_events = [last.event for last in board_checks] or [HealthEvent(now, "ok")]
        by_board[board] = _of(board, board_events, board_checks, holds.get(board, []), rule, now)
    for board, with_others in find_shared(newest.values()).items():
        if by_board[board].state == "bad":
            by_board[board] = evolve(by_board[board], reasons=(*by_board[board].reasons, with_others))
    return by_board


def _of(
    board: str,
    known: list[HealthEvent],
    checks: list[BoardCheck],
    holds: list[Hold],
    rule: QuarantineRule,
    now: dt.datetime,
) -> Health:
    why = {hold.kind: hold.described for hold in holds}
    quarantined, maintenance = why.get(QUARANTINE, ""), why.get("maintenance", "")
    return derive(board, known, checks, rule, now, quarantined=quarantined, maintenance=maintenance)


def _latest(session: Session, board: str | None) -> list[BoardCheck]:
    """The latest check on each host, of one board or of all."""
    last = select(func.max(HealthCheckRow.id)).group_by(HealthCheckRow.board, HealthCheckRow.host)
    if board is not None:
        last = last.where(HealthCheckRow.board == board)
    return [check_of(row) for row in session.scalars(select(HealthCheckRow).where(HealthCheckRow.id.in_(last)))]


def _failing(session: Session, since: dt.datetime) -> set[str]:
    """Boards whose failed attempts since then may count."""
    failed = (FAILED, AttemptRow.started_at >= since)
    query = select(RunRow.board, AttemptRow.fault, func.count()).join(AttemptRow, AttemptRow.run_id == RunRow.id)
    counted = session.execute(query.where(*failed).group_by(RunRow.board, AttemptRow.fault))
    return {board for board, fault, count in counted if fault == "lab" or count >= DEVICE_FAULTS}


_OUTCOMES: Final = frozenset(get_args(Outcome))


def row_of(check: BoardCheck) -> HealthCheckRow:
    """The row of a check to store."""
    document = json_of("found", {"parts": [asdict(part) for part in check.parts]})
    return HealthCheckRow(**columns_of(check, "parts", "id"), found=document)


def check_of(row: HealthCheckRow) -> BoardCheck:
    """The check of a row, without unreadable parts."""
    parts = []
    for part in row.found.get("parts", []):
        if part.get("outcome") in _OUTCOMES:
            texts = {key: str(part.get(key, "")) for key in ("name", "failure", "fault", "message", "said")}
            parts.append(CheckedPart(outcome=cast(Outcome, part["outcome"]), **texts))
    return record_of(BoardCheck, row, parts=tuple(parts))


# A quarantine is a reservation of its own kind. It is made in the transaction in which a job asks for its board or
# gives it back, so that no job slips past it and no program that was killed leaves it out.


KEEPER: Final = "boardlab itself"  # no user of a host is called so
RUNS: Final = 30  # of a board, whose attempts are looked at
_ATTEMPTS: Final = 200
_CHECKS: Final = 50


def holds_of(session: Session, board: str, now: dt.datetime, rule: QuarantineRule) -> list[Hold]:
    """The board's holds, after a due quarantine. `session`: writes."""
    holds = standing(session, board, now)
    if any(hold.kind == QUARANTINE for hold in holds):
        return holds
    why = quarantine(events(session, board, now - rule.window), rule, now)
    if not why:
        return holds
    with suppress(IntegrityError), session.begin_nested():  # another job has just put it there
        reason = f"{why}. `lab health {board} --check` brings it back when it passes"
        session.add(ReservationRow(board=board, kind=QUARANTINE, person=KEEPER, reason=reason, at=now))
    return standing(session, board, now)


def lift(session: Session, board: str, now: dt.datetime, by: str) -> None:
    """End a board's quarantine, if any."""
    standing_quarantine = (
        ReservationRow.board == board,
        ReservationRow.kind == QUARANTINE,
        ReservationRow.ended_at.is_(None),
    )
    for row in session.scalars(select(ReservationRow).where(*standing_quarantine).with_for_update()):
        row.ended_at, row.ended_by = now, by


def events(session: Session, board: str, since: dt.datetime) -> list[HealthEvent]:
    """Outcomes of a board's latest attempts and checks, oldest first."""
    runs = select(RunRow.id).where(RunRow.board == board).order_by(RunRow.id.desc()).limit(RUNS)
    query = select(AttemptRow.started_at, AttemptRow.outcome, AttemptRow.fault).where(
        AttemptRow.run_id.in_(session.scalars(runs).all()), AttemptRow.started_at >= since
    )
    board_events = [
        HealthEvent.of_attempt(at, outcome, fault)
        for at, outcome, fault in session.execute(query.order_by(AttemptRow.started_at.desc()).limit(_ATTEMPTS))
    ]
    checks = select(HealthCheckRow).where(HealthCheckRow.board == board, HealthCheckRow.at >= since)
    board_events += [
        check_of(row).event for row in session.scalars(checks.order_by(HealthCheckRow.id.desc()).limit(_CHECKS))
    ]
    return sorted(board_events, key=lambda event: event.at)
