"""Reservations and maintenance of a board, recorded in the audit log."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from typing import Final

from lab.errors import ConfigurationError
from lab.farm.board_state import BoardNow
from lab.farm.config import TokenLimits
from lab.health.reservations import Hold, Kind, ReservationBook
from lab.results.audit import Act
from lab.results.store import Store

RESERVE: Final = "reserve"  # names of the audit log
RELEASE: Final = "release"
MAINTAIN: Final = "maintenance on"
MAINTAINED: Final = "maintenance off"


def reserve(
    store: Store,
    act: Act,
    board: BoardNow,
    person: str,
    reason: str,
    hours: float,
    begin: dt.datetime | None = None,
    limits: TokenLimits | None = None,
) -> Hold:
    """Reserve a board for a person for some hours, now or from `begin` on.

    Args:
        limits: of a program; None: a person.

    Raises:
        ConfigurationError, LabTransientError: as of ReservationBook.reserve.
    """
    when = f" from {begin:%Y-%m-%d %H:%M} UTC" if begin is not None else ""
    act.about = f"{hours:g} h{when}: {reason}"
    bounds = {} if limits is None else {"most": limits.reservations, "most_h": limits.hours}
    return ReservationBook(store).reserve(board.board, person, reason, hours, begin, **bounds)


def read_begin(text: str) -> dt.datetime:
    """Begin of a reservation, e.g. "2026-03-02 14:00" (UTC, or an offset).

    Raises:
        ConfigurationError: it is no time.
    """
    try:
        begin = dt.datetime.fromisoformat(text)
    except ValueError as error:
        raise ConfigurationError(f"{text!r:.40} is no time: write e.g. '2026-03-02 14:00', in UTC") from error
    return begin if begin.tzinfo is not None else begin.replace(tzinfo=dt.UTC)


def maintain(store: Store, act: Act, board: BoardNow, person: str, reason: str) -> Hold:
    """Put a board into maintenance until somebody ends it.

    Raises:
        ConfigurationError, LabTransientError: as of ReservationBook.maintain.
    """
    act.about = reason
    return ReservationBook(store).maintain(board.board, person, reason)


def end(store: Store, act: Act, board: str, kind: Kind, person: str, *, own: bool = False) -> Hold:
    """End a hold, regardless of its owner; return it.

    Args:
        own: another person's is refused.

    Raises:
        ConfigurationError: there is none, or it is another person's.
    """
    ended = ReservationBook(store).end(board, kind, person, own=own)
    act.about = ended.described
    return ended


def board_of(boards: Iterable[BoardNow], name: str, shown_by: str) -> BoardNow:
    """Board of the lab by its name.

    Args:
        shown_by: page or command with all boards, for the message.

    Raises:
        ConfigurationError: there is none of that name.
    """
    board_now = next((board for board in boards if board.board == name), None)
    if board_now is None:
        raise ConfigurationError(f"no board {name!r:.200}; {shown_by} shows the boards that there are")
    return board_now
