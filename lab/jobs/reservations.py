"""Reservations, maintenance and quarantine: leases of boards for `lab run` and pytest.

A reservation ends by itself. It is a promise between people who trust each other, and no lock against a user of the host: every
writer of the results can end one, and both are in the audit.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Final, Literal, cast

from attrs import Factory, field, frozen
from sqlalchemy import Select, or_, select
from sqlalchemy.orm import Session

from lab.errors import ConfigurationError, LabTransientError, TestStableError
from lab.results.models import ReservationRow
from lab.results.store import Store

Kind = Literal["reserved", "maintenance", "quarantine"]
QUARANTINE: Final = "quarantine"  # boardlab's own, see lab.health.store
LONGEST_H: Final = 14 * 24.0
LONGEST_REASON: Final = 500  # characters
IGNORE: Final = "--ignore-reservation"


@frozen
class Hold:
    """A reservation of a board.

    Attributes:
        kind: "reserved" ends at `until`, "maintenance" by a person (`until` is None then), "quarantine" when a check passes.
    """

    id: int
    board: str
    kind: Kind
    person: str
    reason: str
    at: dt.datetime
    until: dt.datetime | None

    @property
    def described(self) -> str:
        """`reserved by lena until 2026-03-02 18:00 UTC (a new PMIC)`."""
        end = f"until {self.until:%Y-%m-%d %H:%M} UTC" if self.until else f"since {self.at:%Y-%m-%d %H:%M} UTC"
        if self.kind == QUARANTINE:
            return f"in quarantine {end} ({self.reason})"
        what = "reserved" if self.kind == "reserved" else "in maintenance, set"
        return f"{what} by {self.person} {end} ({self.reason})"

    def refuses(self, person: str, *, ignored: bool, checks: bool = False) -> bool:
        """True if a person may not measure on the board now.

        Args:
            ignored: the person overrides the reservation. checks: the board is checked first; only a check ends a
                quarantine.
        """
        return not checks if self.kind == QUARANTINE else self.person != person or not ignored


@frozen
class ReservationBook:
    """The reservations of a store."""

    store: Store
    now: Callable[[], dt.datetime] = field(default=Factory(lambda self: self.store.now, takes_self=True))

    def reserve(self, board: str, person: str, reason: str, hours: float) -> Hold:
        """Reserve a board from now on; a person's own reservation is replaced.

        Raises:
            ConfigurationError: too long or too short, no reason, or it is another person's.
            LabTransientError: another person did so at the same instant.
        """
        if not 0 < hours <= LONGEST_H:
            raise ConfigurationError(
                f"{hours:g} h: a board is reserved for at most {LONGEST_H:g} h, and for more than 0"
            )
        return self._hold(board, "reserved", person, reason, self.now() + dt.timedelta(hours=hours))

    def maintain(self, board: str, person: str, reason: str) -> Hold:
        """Put a board in maintenance until a person ends it.

        Raises:
            ConfigurationError: no reason, or another person has it in maintenance.
            LabTransientError: another person did so at the same instant.
        """
        return self._hold(board, "maintenance", person, reason, None)

    def end(self, board: str, kind: Kind, by: str) -> Hold:
        """End a board's reservation or maintenance, and return it.

        Raises:
            ConfigurationError: none stands.
        """

        def close(session: Session) -> Hold:
            row = next((row for row in _rows(session, board, self.now()) if row.kind == kind), None)
            if row is None:
                what = "reserved" if kind == "reserved" else "in maintenance"
                raise ConfigurationError(f"{board} is not {what} (any more)")
            row.ended_at, row.ended_by = self.now(), by
            return _hold_of(row)

        return self.store._write(close)

    def standing(self, board: str | None = None) -> list[Hold]:
        """The standing reservations of one board or all."""
        with self.store._read() as session:
            return standing(session, board, self.now())

    def _hold(self, board: str, kind: Kind, person: str, reason: str, until: dt.datetime | None) -> Hold:
        reason = reason.strip()
        if not reason or len(reason) > LONGEST_REASON:
            raise ConfigurationError(
                f"the reason is missing or too long: give one of at most {LONGEST_REASON} characters, for others who want the board"
            )

        def insert(session: Session) -> Hold:
            now = self.now()
            for row in session.scalars(_open(board).where(ReservationRow.kind == kind).with_for_update()):
                ended = row.until is not None and row.until <= now
                if not ended and row.person != person:
                    raise ConfigurationError(f"{board} is {_hold_of(row).described}")
                row.ended_at, row.ended_by = (row.until if ended else now), row.person
            session.flush()  # the one before ends before this one stands
            new = ReservationRow(
                board=board, kind=kind, person=person, reason=reason, at=now, until=until, ended_at=None, ended_by=""
            )
            session.add(new)
            session.flush()
            return _hold_of(new)

        try:
            return self.store._write(insert)
        except TestStableError as error:  # the index that lets one stand
            raise LabTransientError(
                f"somebody else took {board} at this instant; look whose it is", failure="results"
            ) from error


def standing(session: Session, board: str | None, now: dt.datetime) -> list[Hold]:
    """The standing reservations of one board or all, by board."""
    return [_hold_of(row) for row in _rows(session, board, now)]


def _open(board: str | None) -> Select[ReservationRow]:
    wanted = select(ReservationRow).where(ReservationRow.ended_at.is_(None))
    return wanted if board is None else wanted.where(ReservationRow.board == board)


def _rows(session: Session, board: str | None, now: dt.datetime) -> list[ReservationRow]:
    lasting = or_(ReservationRow.until.is_(None), ReservationRow.until > now)
    return [*session.scalars(_open(board).where(lasting).order_by(ReservationRow.board, ReservationRow.kind))]


def _hold_of(row: ReservationRow) -> Hold:
    return Hold(row.id, row.board, cast(Kind, row.kind), row.person, row.reason, row.at, row.until)
