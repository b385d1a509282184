"""Reservations and maintenance of a board, recorded in the audit log."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from lab.errors import ConfigurationError
from lab.farm.board_state import BoardNow
from lab.jobs.reservations import Hold, Kind, ReservationBook
from lab.results.audit import Act
from lab.results.store import Store

RESERVE: Final = "reserve"  # names of the audit log
RELEASE: Final = "release"
MAINTAIN: Final = "maintenance on"
MAINTAINED: Final = "maintenance off"


def reserve(store: Store, act: Act, board: BoardNow, person: str, reason: str, hours: float) -> Hold:
    """Reserve a board for a person for some hours.

    Raises:
        ConfigurationError, LabTransientError: as of ReservationBook.reserve.
    """
    act.about = f"{hours:g} h: {reason}"
    return ReservationBook(store).reserve(board.board, person, reason, hours)


def maintain(store: Store, act: Act, board: BoardNow, person: str, reason: str) -> Hold:
    """Put a board into maintenance until somebody ends it.

    Raises:
        ConfigurationError, LabTransientError: as of ReservationBook.maintain.
    """
    act.about = reason
    return ReservationBook(store).maintain(board.board, person, reason)


def end(store: Store, act: Act, board: str, kind: Kind, person: str) -> Hold:
    """End a hold, regardless of its owner; return it.

    Raises:
        ConfigurationError: there is none.
    """
    ended = ReservationBook(store).end(board, kind, person)
    act.about = ended.described
    return ended


def board_of(boards: Iterable[BoardNow], name: str, shown_by: str) -> BoardNow:
    """Board of the lab by its name.

    Args:
        shown_by: page or command with all boards, for the message.

    Raises:
        ConfigurationError: there is none of that name.
    """
    found = next((each for each in boards if each.board == name), None)
    if found is None:
        raise ConfigurationError(f"no board {name!r:.200}; {shown_by} shows the boards that there are")
    return found
