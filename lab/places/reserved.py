"""Whether a place that is held for a person who reserved its board in `lab web` is still his."""

from __future__ import annotations

from collections.abc import Iterable

from lab.jobs.queue import JobQueue
from lab.jobs.records import Job
from lab.jobs.reservations import QUARANTINE, Hold, ReservationBook
from lab.places.holding import reserving_user, store_name


def holds_of_people(book: JobQueue, board: str | None = None) -> list[Hold]:
    """The reservations and maintenance that stand; not boardlab's own quarantine, which keeps no check from the place."""
    return [hold for hold in ReservationBook(book.store).standing(board) if hold.kind != QUARANTINE]


def is_reserved(holder: str, book: JobQueue) -> bool:
    """Whether a place's holder is a reservation made in this store, standing or ended."""
    return holder.startswith(f"{reserving_user('', store_name(book.store)).host}/")


def in_use(holder: str, holds: Iterable[Hold], jobs: Iterable[Job], book: JobQueue) -> bool:
    """Whether the board is held for that person, or a job of theirs measures at the place: it goes on when the reservation ends.

    Args:
        holder: see `is_reserved`. holds: of the board, see `holds_of_people`. jobs: that measure there.
    """
    people = {hold.person for hold in holds} | {job.person for job in jobs}
    return holder in {str(reserving_user(person, store_name(book.store))) for person in people}
