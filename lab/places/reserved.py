"""Whether a place that is held for a person who reserved its board in `lab web` is still his."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from lab.env import envfile
from lab.errors import ConfigurationError
from lab.places.holding import reserving_user, store_name
from lab.results import joblist
from lab.results.jobrecords import Job
from lab.results.jobs import JobQueue
from lab.results.reservations import QUARANTINE, Hold, ReservationBook


def holds_of_people(book: JobQueue, board: str | None = None) -> list[Hold]:
    """The reservations and maintenance that stand; not boardlab's own quarantine, which keeps no check from the place."""
    return [hold for hold in ReservationBook(book.store).standing(board) if hold.kind != QUARANTINE]


def is_reserved(holder: str, book: JobQueue) -> bool:
    """Whether a place's holder is a reservation made in this store, standing or ended."""
    return holder.startswith(f"{reserving_user('', store_name(book.store)).host}/")


def in_use(holder: str, place: str, board: str, holds: Iterable[Hold], book: JobQueue, but: int = 0) -> bool:
    """Whether one of a board's holds is that person's, or a job of theirs measures there: it goes on when the reservation ends.

    Args:
        holder: see `is_reserved`. holds: that stand, see `holds_of_people`. but: a job that does not count, by its number.
    """

    def is_theirs(person: str) -> bool:
        return str(reserving_user(person, store_name(book.store))) == holder

    return any(is_theirs(hold.person) for hold in holds if hold.board == board) or any(
        is_theirs(job.person) and (job.board == board or _place_of(job) == place)
        for job in joblist.running(book)
        if job.id != but
    )


def _place_of(job: Job) -> str:
    path = Path(job.env)
    try:
        return str(envfile.arguments_of(path, "RemotePlace", "resources").get("name", "")) if path.is_file() else ""
    except ConfigurationError:
        return ""
