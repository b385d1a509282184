"""Reservations, maintenance and quarantine: leases of boards for `lab run` and pytest.

A reservation ends by itself. It is a promise between people who trust each other, and no lock against a user of the
host: every writer of the results can end one, and both are in the audit.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from typing import Final, Literal

from attrs import Factory, field, frozen
from sqlalchemy import Select, func, or_, select
from sqlalchemy.orm import Session

from lab.errors import ConfigurationError, LabTransientError, TestStableError
from lab.results.models import ReservationRow, RunRow
from lab.results.rows import record_of
from lab.results.store import Store

Kind = Literal["reserved", "maintenance", "quarantine", "qualifying"]
QUARANTINE: Final = "quarantine"  # boardlab's own, see lab.health.store
QUALIFYING: Final = "qualifying"  # of a new board, see lab.farm.qualification
OWN: Final = frozenset({QUARANTINE, QUALIFYING})  # no person waits for such a board
LONGEST_H: Final = 14 * 24.0
FARTHEST_H: Final = 92 * 24.0  # begin of a later reservation
LONGEST_REASON: Final = 500  # characters
IGNORE: Final = "--ignore-reservation"
_LOCK: Final = 0x6C61625265736572  # "labReser", of PostgreSQL's advisory locks: one reserves at a time


@frozen
class Hold:
    """A reservation of a board.

    Attributes:
        kind: "reserved" ends at `until`, "maintenance" by a person (`until` is None then), "quarantine" when a check
            passes, "qualifying" when the board has qualified.
        at: its begin.
        later: that lay ahead when it was looked up.
    """

    id: int
    board: str
    kind: Kind
    person: str
    reason: str
    at: dt.datetime
    until: dt.datetime | None
    later: bool = False

    @property
    def described(self) -> str:
        """`reserved by lena until 2026-03-02 18:00 UTC (a new PMIC)`."""
        end = f"until {self.until:%Y-%m-%d %H:%M} UTC" if self.until else f"since {self.at:%Y-%m-%d %H:%M} UTC"
        if self.kind == QUALIFYING:
            return f"qualifying {end} ({self.reason})"
        if self.kind == QUARANTINE:
            return f"in quarantine {end} ({self.reason})"
        if self.kind == "reserved" and self.later:
            end = f"from {self.at:%Y-%m-%d %H:%M} {end}"
        what = "reserved" if self.kind == "reserved" else "in maintenance, set"
        return f"{what} by {self.person} {end} ({self.reason})"

    def refuses(self, person: str, *, ignored: bool, checks: bool = False, qualifies: bool = False) -> bool:
        """True if a person may not measure on the board now.

        Args:
            ignored: the person overrides the reservation.
            checks: the board is checked first; only a check ends a quarantine.
            qualifies: the job is of those that a new board needs to qualify.
        """
        if self.kind == QUARANTINE:
            return not checks
        return not (self.kind == QUALIFYING and qualifies) and (self.person != person or not ignored)


@frozen
class ReservationBook:
    """The reservations of a store."""

    store: Store
    now: Callable[[], dt.datetime] = field(default=Factory(lambda self: self.store.now, takes_self=True))

    def reserve(
        self,
        board: str,
        person: str,
        reason: str,
        hours: float,
        begin: dt.datetime | None = None,
        *,
        most: float = math.inf,
        most_h: float = math.inf,
    ) -> Hold:
        """Reserve a board; a person's own reservations of that time are replaced.

        Args:
            begin: None, or not after now: now.
            most, most_h: reservations that the person may have, and their hours left together.

        Raises:
            ConfigurationError: too long or too short, too far ahead, too many, no reason, or it is another person's
                then.
        """
        now = self.now()
        if not 0 < hours <= LONGEST_H:
            raise ConfigurationError(
                f"{hours:g} h: a board is reserved for at most {LONGEST_H:g} h, and for more than 0"
            )
        if begin is not None and begin - now > dt.timedelta(hours=FARTHEST_H):
            raise ConfigurationError(
                f"{begin:%Y-%m-%d %H:%M} UTC: a reservation begins within {FARTHEST_H / 24:g} days"
            )
        return self._hold(board, "reserved", person, reason, hours, begin, most=most, most_h=most_h)

    def maintain(self, board: str, person: str, reason: str) -> Hold:
        """Put a board in maintenance until a person ends it.

        Raises:
            ConfigurationError: no reason, or another person has it in maintenance.
            LabTransientError: another person did so at the same instant.
        """
        return self._hold(board, "maintenance", person, reason, None)

    def qualify(self, board: str, person: str, reason: str) -> bool:
        """Keep a new board for its qualification; False: it had one, or was measured before."""

        def insert(session: Session) -> bool:
            had = select(ReservationRow.id).where(ReservationRow.board == board, ReservationRow.kind == QUALIFYING)
            ran = select(RunRow.id).where(RunRow.board == board)
            if session.scalars(had.limit(1)).first() or session.scalars(ran.limit(1)).first():
                return False
            now = self.now()
            session.add(ReservationRow(board=board, kind=QUALIFYING, person=person, reason=reason, at=now))
            return True

        return self.store.write(insert)

    def reason(self, board: str, kind: Kind, reason: str) -> None:
        """Give a standing hold another reason."""

        def change(session: Session) -> None:
            for row in _rows(session, board, self.now()):
                if row.kind == kind:
                    row.reason = reason[:LONGEST_REASON]

        self.store.write(change)

    def end(self, board: str, kind: Kind, by: str, *, own: bool = False) -> Hold:
        """End and return a board's hold, else this person's next reservation.

        Args:
            own: another person's is refused.

        Raises:
            ConfigurationError: there is none, or it is another person's.
        """

        def close(session: Session) -> Hold:
            now = self.now()
            later = session.scalars(_coming(board, now).where(ReservationRow.person == by))
            row = next((row for row in (*_rows(session, board, now), *later) if row.kind == kind), None)
            if row is None:
                what = {"reserved": "reserved", "maintenance": "in maintenance"}.get(kind, kind)
                raise ConfigurationError(f"{board} is not {what} (any more)")
            if own and row.person != by:
                raise ConfigurationError(
                    f"{board} is {_hold_of(row).described}: {by} ends what it made, and no other reservation; "
                    f"{row.person} or an operator of the site can end this one, or an "
                    f"admin of the host: lab reserve {board} --end"
                )
            row.ended_at, row.ended_by = self.now(), by
            return _hold_of(row)

        return self.store.write(close)

    def standing(self, board: str | None = None) -> list[Hold]:
        """The standing reservations of one board or all."""
        return self.store.read(lambda session: standing(session, board, self.now()))

    def coming(self, board: str | None = None) -> list[Hold]:
        """Reservations of one board or all that begin later, the earliest first."""
        return self.store.read(
            lambda session: [_hold_of(row, later=True) for row in session.scalars(_coming(board, self.now()))]
        )

    def _hold(
        self,
        board: str,
        kind: Kind,
        person: str,
        reason: str,
        hours: float | None,
        begin: dt.datetime | None = None,
        *,
        most: float = math.inf,
        most_h: float = math.inf,
    ) -> Hold:
        reason = reason.strip()
        if not reason or len(reason) > LONGEST_REASON:
            raise ConfigurationError(
                f"the reason is missing or too long: give one of at most {LONGEST_REASON} "
                "characters, for others who want the board"
            )

        def insert(session: Session) -> Hold:
            if session.bind is not None and session.bind.dialect.name == "postgresql":  # SQLite has one writer
                session.execute(select(func.pg_advisory_xact_lock(_LOCK)))
            now = self.now()  # when no other reservation comes between: this host may have stood still since the order
            at = now if begin is None else max(begin, now)
            until = None if hours is None else at + dt.timedelta(hours=hours)
            for row in session.scalars(_open(board).where(ReservationRow.kind == kind).with_for_update()):
                ended = row.until is not None and row.until <= now
                apart = row.until is not None and until is not None and (row.until <= at or until <= row.at)
                if apart and not ended:
                    continue
                if not ended and row.person != person:
                    raise ConfigurationError(f"{board} is {_hold_of(row, later=row.at > now).described}")
                row.ended_at, row.ended_by = (row.until if ended else now), row.person
            session.flush()  # the one before ends before this one stands
            new = ReservationRow(board=board, kind=kind, person=person, reason=reason, at=at, until=until)
            session.add(new)
            session.flush()
            standing = session.scalars(
                _open(None).where(
                    ReservationRow.kind == kind, ReservationRow.person == person, ReservationRow.until > now
                )
            ).all()
            remaining_s = sum(
                (row.until - max(row.at, now)).total_seconds() for row in standing if row.until is not None
            )
            if len(standing) > most or remaining_s > most_h * 3600:
                raise ConfigurationError(
                    f"{person} would have {len(standing)} reservations of {remaining_s / 3600:.1f} h in all, and may "
                    f"have {most:g} of {most_h:g} h (farm.yaml, web: tokens): end one first, or an operator "
                    f"reserves {board}"
                )
            return _hold_of(new, later=at > now)

        try:
            return self.store.write(insert)
        except TestStableError as error:  # the index that lets one stand
            raise LabTransientError(
                f"somebody else took {board} at this instant; look whose it is", failure="results"
            ) from error


def standing(session: Session, board: str | None, now: dt.datetime) -> list[Hold]:
    """The standing reservations of one board or all, by board."""
    return [_hold_of(row) for row in _rows(session, board, now)]


def _open(board: str | None) -> Select[ReservationRow]:
    query = select(ReservationRow).where(ReservationRow.ended_at.is_(None))
    return query if board is None else query.where(ReservationRow.board == board)


def _rows(session: Session, board: str | None, now: dt.datetime) -> list[ReservationRow]:
    lasting = or_(ReservationRow.until.is_(None), ReservationRow.until > now)
    # Only a reservation begins later; clocks jump
    begun = or_(ReservationRow.kind != "reserved", ReservationRow.at <= now)
    query = _open(board).where(lasting, begun)
    return [*session.scalars(query.order_by(ReservationRow.board, ReservationRow.kind))]


def _coming(board: str | None, now: dt.datetime) -> Select[ReservationRow]:
    return (
        _open(board)
        .where(ReservationRow.kind == "reserved", ReservationRow.at > now)
        .order_by(ReservationRow.at, ReservationRow.id)
    )


def _hold_of(row: ReservationRow, *, later: bool = False) -> Hold:
    return record_of(Hold, row, later=later)
