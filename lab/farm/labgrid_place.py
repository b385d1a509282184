"""The labgrid place of a job's environment."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import frozen

from exporters.farm.places import MissingResource
from lab.benchmarks.cycles import AWAY_S
from lab.env import envfile
from lab.errors import BoardlabError, ConfigurationError, LabTransientError
from lab.farm.config import Farm
from lab.jobs import listing
from lab.jobs.queue import JobQueue
from lab.jobs.records import Job
from lab.results.store import Store

if TYPE_CHECKING:
    from lab.places.lease import Place

DEFAULT_COORDINATOR = "127.0.0.1"
PLACE_BUSY = "place_busy"
AWAY = frozenset({"exporter_gone", "coordinator_unreachable"})  # they are started again, or their host is
POLL_S = 2.0
GLANCE_S = 1.0  # wait of `lab status` for a coordinator
RESERVATION = "+"  # of a RemotePlace: that of LG_TOKEN's reservation
TOKEN_VARIABLE = "LG_TOKEN"  # noqa: S105 - labgrid's word for a reservation
_WAITS = "waiting"


@frozen
class PlaceWait:
    """Conditions of waiting for a place, while the job keeps its lease.

    Attributes:
        deadline: by the queue's monotonic_s. say: prints a line. ends: gives a sign of life, and returns whether the
        job must end.
    """

    deadline: float
    say: Callable[[str], None]
    ends: Callable[[], bool]


@contextmanager
def acquired(book: JobQueue, job: Job, place_wait: PlaceWait | None = None) -> Iterator[dict[str, str]]:
    """Hold the job's place and yield pytest's additional environment variables.

    Without a place in the environment it holds none.

    Args:
        place_wait: None: do not wait for a place that is taken, or whose exporter or coordinator is away.

    Raises:
        BoardlabError: as of `lab.places.lease.Place.held`, also with `place_wait` if a person has it, see `person_holding`; or LG_TOKEN's reservation has no place (yet: `place_busy`).
    """
    with ExitStack() as stack:
        printed, away_at = "", math.inf
        while True:
            try:
                environ = stack.enter_context(_acquired(book, job))
                break
            except BoardlabError as error:
                if place_wait is None or error.failure not in {PLACE_BUSY, *AWAY}:
                    raise
                now = book.monotonic_s
                away_at = min(away_at, now) if error.failure in AWAY else math.inf
                if now >= min(place_wait.deadline, away_at + AWAY_S):
                    raise
                if error.failure == PLACE_BUSY and person_holding(book, job):
                    raise  # the holder may need the board there
                if str(error) != printed:
                    printed = str(error)
                    place_wait.say(f"job {job.called} waits: {printed}")
                if place_wait.ends():
                    raise
            book.pause(POLL_S)
        yield environ


def lost_place(store: Store, run_id: int) -> bool:
    """Return whether a run ended because it lost its place."""
    attempts = store.attempts(run_id)
    return bool(attempts) and attempts[-1].outcome == "place_lost"


def person_holding(book: JobQueue, job: Job) -> str:
    """Describe the person who holds a job's place; empty: none known."""
    path = Path(job.env)
    name = place_of(path) if path.is_file() else ""
    if not name:
        return ""
    from lab.places.lease import Place, job_user, stock_user, store_name, with_port  # noqa: PLC0415 - gRPC takes a while to import

    address = with_port(envfile.coordinator_of(path) or os.environ.get("LG_COORDINATOR", DEFAULT_COORDINATOR))
    ours = {str(job_user(job.person, job.called, store_name(book.store))), str(stock_user(job.person))}
    try:
        place = _reserved(address, os.environ.get(TOKEN_VARIABLE, "")) if name == RESERVATION else Place(name, address)
        return place.kept(ours)
    except BoardlabError as error:
        return str(error) if error.failure == PLACE_BUSY else ""


@contextmanager
def _acquired(book: JobQueue, job: Job) -> Iterator[dict[str, str]]:
    path = Path(job.env)
    name = place_of(path) if path.is_file() else ""
    if not name:
        yield {}
        return
    from lab.places.lease import (  # noqa: PLC0415 - gRPC takes a while to import
        Place,
        holds_of_people,
        in_use,
        is_reserved,
        job_user,
        reserving_user,
        stock_user,
        store_name,
        with_port,
    )

    address = with_port(envfile.coordinator_of(path) or os.environ.get("LG_COORDINATOR", DEFAULT_COORDINATOR))

    def has_left(number: int) -> bool:
        try:
            return not book.has_board(number)
        except ConfigurationError:  # of another store in its place
            return False

    person, known = stock_user(job.person), store_name(book.store)
    if name == RESERVATION:  # labgrid gives it to the reserving user only
        place = _reserved(address, os.environ.get(TOKEN_VARIABLE, ""))
        with place.held(person, person, has_left) as environ:
            yield environ
        return

    def lapsed(holder: str) -> bool:  # which the janitor has not released yet
        jobs = [
            each for each in listing.running(book) if each.id != job.id and measures_at(each, job.board, name, address)
        ]
        return is_reserved(holder, book) and not in_use(holder, holds_of_people(book, job.board), jobs, book)

    also = reserving_user(job.person, known) if book.ignores else None
    place = Place(name, address)
    with place.held(job_user(job.person, job.called, known), person, has_left, also, lapsed) as environ:
        yield environ


def measures_at(job: Job, board: str, place: str, coordinator: str) -> bool:
    """Return whether a job measures at a place of a coordinator.

    Its environment may call the board differently.

    Where its environment names no place, or cannot be read here and now, the board's name decides.

    Args:
        board: behind the place. coordinator: at host:port.
    """
    path = Path(job.env)
    try:
        name = place_of(path) if path.is_file() else ""
        its = envfile.coordinator_of(path) if name else ""
    except ConfigurationError:
        name = its = ""
    if not name or name == RESERVATION:
        return job.board == board
    from lab.places.lease import may_be_one, with_port  # noqa: PLC0415 - gRPC takes a while to import

    return name == place and (not its or may_be_one(with_port(its), coordinator))


def place_of(env: Path) -> str:
    """Name of the place in an environment; empty: it has none.

    Raises:
        ConfigurationError: the file cannot be understood.
    """
    return str(envfile.arguments_of(env, "RemotePlace", "resources").get("name", ""))


def boards_by_place(farm: Farm) -> dict[str, str]:
    """Boards of labgrid places, from farm.yaml's environments on this host."""
    found = {}
    for board, env in farm.environments.items():
        try:
            path = envfile.find(env, Path(farm.directory))
            state = path.stat()
            name = _place_in(path, (state.st_mtime_ns, state.st_size, state.st_ino))
        except (BoardlabError, OSError):
            continue
        if name:
            found[name] = board
    return found


def held_by_others(farm: Farm) -> dict[str, str]:
    """Holder of each board's place, if neither a job nor a reservation.

    It is a person or the janitor, as "host/user"; empty if the coordinator does not answer.
    """
    boards = boards_by_place(farm) if farm.coordinator else {}
    if not boards:
        return {}
    from exporters.farm.coordinator import Coordinator  # noqa: PLC0415 - gRPC takes a while to import
    from lab.places.lease import is_a_program, with_port  # noqa: PLC0415

    try:
        holders = Coordinator(with_port(farm.coordinator)).holders(GLANCE_S)
    except BoardlabError:  # `lab status` says so of the coordinator itself
        return {}
    return {
        board: holders[place]
        for place, board in boards.items()
        if (holder := holders.get(place)) and (MissingResource.of(holder) is not None or not is_a_program(holder))
    }


@functools.lru_cache(maxsize=4096)
def _place_in(env: Path, _state: tuple[int, ...]) -> str:
    """Place of one environment, cached by the file's state."""
    return place_of(env)


def _reserved(address: str, token: str) -> Place:
    """Place of a reservation; the query prolongs it by a minute."""
    from exporters.farm.coordinator import Coordinator  # noqa: PLC0415 - gRPC takes a while to import
    from lab.places.lease import Place  # noqa: PLC0415

    if not token:
        raise ConfigurationError(
            "the env's RemotePlace is `+`, the place of a reservation, and LG_TOKEN names none: `labgrid-client reserve --shell --wait "
            "FILTER` prints it"
        )
    state, places = Coordinator(address).poll(token)
    if state == _WAITS:
        raise LabTransientError(
            f"reservation {token} waits for a place: all that fit are held, or their exporters are away (labgrid-client reservations, labgrid-client who)",
            failure=PLACE_BUSY,
        )
    if not places:
        raise ConfigurationError(
            f"LG_TOKEN={token}: the coordinator at {address} has {f'it as {state}' if state else 'no such reservation'}; reserve anew "
            "(labgrid-client reserve --shell --wait FILTER)"
        )
    return Place(places[0], address)
