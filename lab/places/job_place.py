"""The labgrid place of a job's environment."""

from __future__ import annotations

import math
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Final

from attrs import evolve, frozen
from sqlalchemy import select

from lab.benchmarks.cycles import AWAY_S
from lab.env import envfile
from lab.errors import BoardlabError, ConfigurationError, LabTransientError
from lab.jobs import listing
from lab.jobs.queue import PERSONS, JobQueue
from lab.jobs.records import Job
from lab.jobs.waiting import PLACE_BUSY
from lab.places.place import Place, holds_of_people, in_use, is_reserved
from lab.places.records import job_user, may_be_one, reserving_user, stock_user, store_name, with_port
from lab.results.models import AttemptRow
from lab.results.store import Store

DEFAULT_COORDINATOR: Final = "127.0.0.1"
AWAY: Final = frozenset({"exporter_gone", "coordinator_unreachable"})  # they are started again, or their host is
POLL_S: Final = 2.0
TOKEN_VARIABLE: Final = "LG_TOKEN"  # noqa: S105 - labgrid's word for a reservation
_WAITS: Final = "waiting"


@frozen
class PlaceWait:
    """Conditions of waiting for a place, while the job keeps its lease.

    Attributes:
        deadline: by the queue's monotonic_s.
        say: prints a line.
        ends: gives a sign of life, and returns whether the job must end.
    """

    deadline: float
    say: Callable[[str], None]
    ends: Callable[[], bool]


@contextmanager
def hold_place(queue: JobQueue, job: Job, place_wait: PlaceWait | None = None) -> Iterator[dict[str, str]]:
    """Hold the job's place and yield pytest's additional environment variables.

    Without a place in the environment it holds none.

    Args:
        place_wait: None: do not wait for a place that is taken, or whose exporter or coordinator is away.

    Raises:
        BoardlabError: as of `lab.places.place.Place.hold`, also with `place_wait` if a person has it, see
            `person_at_place`; or LG_TOKEN's reservation has no place (yet: `place_busy`).
    """
    with ExitStack() as stack:
        printed, away_at = "", math.inf
        while True:
            try:
                environ = stack.enter_context(_hold_place(queue, job))
                break
            except BoardlabError as error:
                if place_wait is None or error.failure not in {PLACE_BUSY, *AWAY}:
                    raise
                now = queue.monotonic_s
                away_at = min(away_at, now) if error.failure in AWAY else math.inf
                if now >= min(place_wait.deadline, away_at + AWAY_S):
                    raise
                if error.failure == PLACE_BUSY and person_at_place(queue, job):
                    raise  # the holder may need the board there
                if str(error) != printed:
                    printed = str(error)
                    place_wait.say(f"job {job.called} waits: {printed}")
                if place_wait.ends():
                    raise
            queue.pause(POLL_S)
        yield environ


def has_lost_place(store: Store, run_id: int) -> bool:
    """Return whether a run ended because it lost its place."""
    last = select(AttemptRow.outcome).where(AttemptRow.run_id == run_id).order_by(AttemptRow.id.desc()).limit(1)
    return [row.outcome for row in store.rows(last)] == ["place_lost"]


def other_user(queue: JobQueue, job: Job) -> str:
    """Other user of a job's place, for whom it waits; empty: none known.

    A timer's job also gives way to a person who waits for the place.

    Raises:
        ConfigurationError: the environment cannot be understood.
    """
    if job.priority >= PERSONS:
        return person_at_place(queue, job)
    place = _place_of(job)
    if place is None or place.name == envfile.RESERVATION:
        return ""
    try:
        return place.other_user(_own_users(queue, job))
    except BoardlabError:
        return ""


def person_at_place(queue: JobQueue, job: Job) -> str:
    """Describe the person who has a job's place; empty: none known.

    Raises:
        ConfigurationError: the environment cannot be understood.
    """
    place = _place_of(job)
    if place is None:
        return ""
    try:
        return _reserved_place(place).claim_of_person(_own_users(queue, job))
    except BoardlabError as error:
        return str(error) if error.failure == PLACE_BUSY else ""


def _place_of(job: Job) -> Place | None:
    """The place that a job's environment names; None: none."""
    path = Path(job.env)
    try:
        state = path.stat()
    except OSError:
        return None
    if not stat.S_ISREG(state.st_mode):
        return None
    name, coordinator = _place_in(path, (state.st_mtime_ns, state.st_ctime_ns, state.st_size, state.st_ino))
    default = os.environ.get("LG_COORDINATOR", DEFAULT_COORDINATOR)
    return Place(name, with_port(coordinator or default)) if name else None


@lru_cache(maxsize=1024)
def _place_in(path: Path, _state: tuple[int, ...]) -> tuple[str, str]:
    """Place and coordinator of an environment, cached by the file's state: a waiting job asks again and again."""
    name = envfile.place_of(path)
    return name, envfile.coordinator_of(path) if name else ""


def _own_users(queue: JobQueue, job: Job) -> set[str]:
    return {str(job_user(job.person, job.called, store_name(queue.store))), str(stock_user(job.person))}


@contextmanager
def _hold_place(queue: JobQueue, job: Job) -> Iterator[dict[str, str]]:
    place = _place_of(job)
    if place is None:
        yield {}
        return

    def has_left(number: int) -> bool:
        try:
            return not queue.has_board(number)
        except ConfigurationError:  # of another store in its place
            return False

    def has_lapsed(holder: str) -> bool:  # which the janitor has not released yet
        jobs = [
            running
            for running in listing.running(queue)
            if running.id != job.id and measures_at(running, job.board, place.name, place.coordinator)
        ]
        return is_reserved(holder, queue) and not in_use(holder, holds_of_people(queue, job.board), jobs, queue)

    person, store = stock_user(job.person), store_name(queue.store)
    if place.name == envfile.RESERVATION:  # labgrid gives it to the reserving user only
        holding = _reserved_place(place).hold(person, person, has_left)
    else:
        also = reserving_user(job.person, store) if queue.ignores else None
        holding = place.hold(job_user(job.person, job.called, store), person, has_left, also, has_lapsed)
    with holding as environ:
        yield environ


def _reserved_place(place: Place) -> Place:
    """The place, or that of LG_TOKEN's reservation, which the query prolongs by a minute."""
    if place.name != envfile.RESERVATION:
        return place
    token = os.environ.get(TOKEN_VARIABLE, "")
    if not token:
        raise ConfigurationError(
            "the env's RemotePlace is `+`, the place of a reservation, and LG_TOKEN names none: `labgrid-client "
            "reserve --shell --wait FILTER` prints it"
        )
    state, places = place.client().poll(token)
    if state == _WAITS:
        raise LabTransientError(
            f"reservation {token} waits for a place: all that fit are held, or their exporters are away "
            "(labgrid-client reservations, labgrid-client who)",
            failure=PLACE_BUSY,
        )
    if not places:
        raise ConfigurationError(
            f"LG_TOKEN={token}: the coordinator at {place.coordinator} has "
            f"{f'it as {state}' if state else 'no such reservation'}; reserve anew "
            "(labgrid-client reserve --shell --wait FILTER)"
        )
    return evolve(place, name=places[0])


def measures_at(job: Job, board: str, place: str, coordinator: str) -> bool:
    """Return whether a job measures at a place of a coordinator.

    Its environment may call the board differently.

    Where its environment names no place, or cannot be read here and now, the board's name decides.

    Args:
        board: behind the place.
        coordinator: at host:port.
    """
    path = Path(job.env)
    try:
        name = envfile.place_of(path) if path.is_file() else ""
        own_coordinator = envfile.coordinator_of(path) if name else ""
    except ConfigurationError:
        name = own_coordinator = ""
    if not name or name == envfile.RESERVATION:
        return job.board == board
    return name == place and (not own_coordinator or may_be_one(with_port(own_coordinator), coordinator))
