"""Reserving a board, putting it in maintenance, and ending that, by a browser or a shell: by the same rules, each with its entry in the audit."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from lab.errors import ConfigurationError
from lab.farm.status import BoardNow
from lab.jobs.reservations import Hold, Kind, ReservationBook
from lab.results.audit import Act
from lab.results.store import Store

RESERVE: Final = "reserve"  # how the audit calls it
RELEASE: Final = "release"
MAINTAIN: Final = "maintenance on"
MAINTAINED: Final = "maintenance off"


def reserve(store: Store, act: Act, board: BoardNow, person: str, reason: str, hours: float) -> Hold:
    """The board is that person's for some hours.

    Raises:
        ConfigurationError, LabTransientError: as of ReservationBook.reserve.
    """
    act.about = f"{hours:g} h: {reason}"
    return ReservationBook(store).reserve(board.board, person, reason, hours)


def maintain(store: Store, act: Act, board: BoardNow, person: str, reason: str) -> Hold:
    """The board is in maintenance until somebody ends that.

    Raises:
        ConfigurationError, LabTransientError: as of ReservationBook.maintain.
    """
    act.about = reason
    return ReservationBook(store).maintain(board.board, person, reason)


def end(store: Store, act: Act, board: str, kind: Kind, person: str) -> Hold:
    """End it, whoever began it; returns what stood.

    Raises:
        ConfigurationError: there is none.
    """
    ended = ReservationBook(store).end(board, kind, person)
    act.about = ended.described
    return ended


def board_of(boards: Iterable[BoardNow], name: str, shown_by: str) -> BoardNow:
    """A board of the lab.

    Args:
        shown_by: what shows all of them, for the message.

    Raises:
        ConfigurationError: there is none of that name.
    """
    found = next((each for each in boards if each.board == name), None)
    if found is None:
        raise ConfigurationError(f"no board {name!r:.200}; {shown_by} shows the boards that there are")
    return found
