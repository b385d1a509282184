"""A labgrid place for as long as a job measures on it.

A job acquires under a name of its own, `HOST/PERSON-STORE-jNUMBER`: two jobs of one person are two users for labgrid, and whoever
finds the place held can ask the store whether that job still lives. Numbers are of one store, whose tag is in the name. labgrid's own acquisitions never expire.
"""

from __future__ import annotations

import ipaddress
import logging
import os
import re
import socket
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, Self

import grpc
from attrs import frozen
from labgrid.remote.generated import labgrid_coordinator_pb2 as messages
from labgrid.remote.generated.labgrid_coordinator_pb2_grpc import CoordinatorStub

from exporters.farm.coordinator import Coordinator
from exporters.farm.places import MissingResource
from lab.errors import ConfigurationError, LabTransientError
from lab.health.reservations import OWN, Hold, ReservationBook
from lab.jobs.queue import JobQueue
from lab.jobs.records import Job
from lab.results.location import tag_of
from lab.results.store import Store

BUSY: Final = "place_busy"
PORT: Final = 20408  # labgrid's
_OF_A_JOB: Final = re.compile(r"(.+)-([0-9a-f]{8})-j(\d+)")
_NOT_RESERVED_FOR: Final = "was not reserved for"  # labgrid's words
_NOT_OBEYED: Final = "Failed to acquire resources"  # the same
_log = logging.getLogger(__name__)


@frozen
class PlaceUser:
    """User of a place, as labgrid names it."""

    host: str
    name: str

    def __str__(self) -> str:
        """As labgrid shows it."""
        return f"{self.host}/{self.name}"

    @property
    def environ(self) -> dict[str, str]:
        """Environment of labgrid's programs and pytest for this user."""
        return {"LG_HOSTNAME": self.host, "LG_USERNAME": self.name}


def job_user(person: str, called: str, store: str) -> PlaceUser:
    """User of a person's job here; `store` names its results store."""
    return PlaceUser(socket.gethostname(), f"{person}-{tag_of(store)}-{called}".replace("/", "-"))


def reserving_user(person: str, store: str) -> PlaceUser:
    """User of a place that a person reserved in `lab web`.

    It is no program of his, on no host.
    """
    return PlaceUser(f"reserved-{tag_of(store)}", person.replace("/", "-"))


def store_name(store: Store) -> str:
    """Name of a store among those of this host."""
    return store.location.identity


def stock_user(person: str, environ: Mapping[str, str] = os.environ) -> PlaceUser:
    """User of a person here for labgrid's own programs."""
    return PlaceUser(environ.get("LG_HOSTNAME", socket.gethostname()), environ.get("LG_USERNAME", person))


def with_port(address: str) -> str:
    """A coordinator's address with labgrid's port where it has none."""
    return address if re.search(r":\d+$", address) else f"{address}:{PORT}"


def may_be_one(one: str, other: str) -> bool:
    """Return whether two coordinators' addresses may be the same.

    Unresolved names may be, and loopback: ssh forwards it there.
    """
    (host, _, port), (another, _, its_port) = one.rpartition(":"), other.rpartition(":")
    addresses, others = _addresses(host), _addresses(another)
    if not addresses or not others:
        return True
    return port == its_port and not addresses.isdisjoint(others)


def _addresses(host: str) -> set[str]:
    try:
        found = {str(info[4][0]) for info in socket.getaddrinfo(host.strip("[]"), None)}
    except (OSError, UnicodeError):  # the latter: no name of a host at all, e.g. with two dots in a row
        return set()
    return set() if any(ipaddress.ip_address(each.partition("%")[0]).is_loopback for each in found) else found


@frozen
class JobHolder:
    """A job as the name under which it acquires says it.

    Attributes:
        tag: of its store, see `lab.results.location.tag_of`. job: its number.
    """

    host: str
    person: str
    tag: str
    job: int

    @classmethod
    def of(cls, holder: str) -> Self | None:
        """Parse a place's holder; None: it is no job of boardlab's."""
        host, _, name = holder.partition("/")
        found = _OF_A_JOB.fullmatch(name)
        return None if found is None else cls(host, found[1], found[2], int(found[3]))


def is_a_program(holder: str) -> bool:
    """Return whether a place's holder is boardlab, not a person.

    It is a job, the janitor, or a reservation made in `lab web`.
    """
    reserved = re.match(r"reserved-[0-9a-f]{8}/", holder) is not None
    return reserved or JobHolder.of(holder) is not None or MissingResource.of(holder) is not None


@frozen
class Place:
    """A place of a coordinator."""

    name: str
    coordinator: str

    @contextmanager
    def held(
        self,
        user: PlaceUser,
        person: PlaceUser,
        has_left: Callable[[int], bool],
        also: PlaceUser | None = None,
        lapsed: Callable[[str], bool] = lambda _: False,
    ) -> Iterator[dict[str, str]]:
        """Hold the place in the context; yield its user's environment.

        Args:
            person: a place that this user has acquired is used as it is, and stays. Else labgrid's programs let them
                use the place beside the job, above all `labgrid-client console`.
            has_left: True: a job of this store, by its number, has no board: it waits, has ended or died.
            also: another such user, see `reserving_user`. lapsed: True: a holder is a reservation that has ended.

        Raises:
            LabTransientError: somebody else has or has reserved it (`place_busy`), its exporter is away
                (`exporter_gone`), or the coordinator does not answer.
            ConfigurationError: labgrid refuses, e.g. since there is no such place.
        """
        at = Coordinator(self.coordinator)
        self._check_exporters(at)
        holder = at.holder(self.name)
        for known in (person, also):
            if known is not None and holder == str(known):
                yield known.environ
                return
        if holder and holder != str(user):
            if MissingResource.of(holder) is not None:
                if (away := at.lacking().get(self.name)) is not None:
                    raise self._gone(away)  # else a janitor would give it back at its next look
            elif not lapsed(holder) and not self._is_left(holder, user, has_left):
                raise self._busy(holder)
            else:
                _log.warning("place %s: %s has gone without giving it back; it is released", self.name, holder)
            at.release(self.name, holder)
        elif holder:  # a process of this job that died had it, and a janitor may be giving it back just now: not what we acquire next
            at.release(self.name, holder)
        self._acquire(at, user, person)
        try:
            yield user.environ
        finally:  # measured cycles stay valid
            self._give_back(at, user)

    def kept(self, ours: Collection[str]) -> str:
        """Reason of a person's claim at labgrid-client; empty: none.

        The person has acquired or reserved the place.

        Args:
            ours: own users of labgrid, as "host/user".

        Raises:
            LabTransientError: the coordinator does not answer.
        """
        at = Coordinator(self.coordinator)
        holder = at.holder(self.name)
        if holder:
            return "" if holder in ours or is_a_program(holder) else str(self._busy(holder))
        owner = at.reserver(self.name)
        return str(self._reserved(owner)) if owner and owner.partition(" (")[0] not in ours else ""

    @staticmethod
    def _is_left(holder: str, user: PlaceUser, has_left: Callable[[int], bool]) -> bool:
        """Return whether the holding job has no board, or is this one.

        The job is of this host and of the store of `user`.
        """
        theirs, ours = JobHolder.of(holder), JobHolder.of(str(user))
        if theirs is None or ours is None or (theirs.host, theirs.tag) != (ours.host, ours.tag):
            return False
        return theirs.job == ours.job or has_left(theirs.job)

    def _acquire(self, at: Coordinator, user: PlaceUser, person: PlaceUser) -> None:
        try:
            at.acquire(self.name, str(user), str(person) if person != user else "")
        except ConfigurationError as error:
            holder = at.holder(self.name)
            if (away := MissingResource.of(holder)) is not None:
                raise self._gone(away) from error
            if holder and holder != str(user):
                raise self._busy(holder) from error  # somebody was faster
            if _NOT_RESERVED_FOR in str(error):
                raise self._reserved(at.reserver(self.name)) from error
            if _NOT_OBEYED in str(error):
                raise LabTransientError(
                    f"labgrid's place {self.name}: its exporter does not obey: is the board's host up, and `lab farm export` there?",
                    failure="exporter_gone",
                ) from error
            raise ConfigurationError(
                f"place {self.name} cannot be acquired: {error}; mend the place, or RemotePlace in the env"
            ) from error
        except BaseException:  # no answer in time, or Ctrl-C: the coordinator may have done it all the same
            self._give_back(at, user)
            raise

    def _give_back(self, at: Coordinator, user: PlaceUser) -> None:
        try:
            at.release(self.name, str(user))
        except (ConfigurationError, LabTransientError) as error:
            _log.warning("place %s could not be given back: %s", self.name, error)

    def _check_exporters(self, at: Coordinator) -> None:
        """Make sure that exporters offer the place's resources.

        labgrid acquires and reserves a place without its exporter, too.
        """
        if missing := at.unmatched(self.name):
            raise LabTransientError(
                f"labgrid's place {self.name}: no exporter offers {', '.join(missing)}: start `lab farm export` on the board's host, and look "
                "at its log (systemctl status boardlab-export)",
                failure="exporter_gone",
            )

    def _gone(self, away: MissingResource) -> LabTransientError:
        return LabTransientError(f"labgrid's place {self.name}: {away.described}", failure="exporter_gone")

    def _reserved(self, owner: str) -> LabTransientError:
        return LabTransientError(
            f"labgrid's place {self.name} is reserved for {owner or 'somebody else'}: wait until that ends (labgrid-client reservations; "
            "labgrid-client cancel-reservation, by them)",
            failure=BUSY,
        )

    def _busy(self, holder: str) -> LabTransientError:
        return LabTransientError(
            f"labgrid's place {self.name} is held by {holder}: wait until it is released (labgrid-client -p {self.name} release, by them)",
            failure=BUSY,
        )


# --- Places of reservations ---


def holds_of_people(book: JobQueue, board: str | None = None) -> list[Hold]:
    """Standing reservations and maintenance, without boardlab's own holds.

    Those keep no check and no qualification from the place.
    """
    return [hold for hold in ReservationBook(book.store).standing(board) if hold.kind not in OWN]


def is_reserved(holder: str, book: JobQueue) -> bool:
    """Return whether a holder is a reservation of this store.

    It may have ended.
    """
    return holder.startswith(f"{reserving_user('', store_name(book.store)).host}/")


def in_use(holder: str, holds: Iterable[Hold], jobs: Iterable[Job], book: JobQueue) -> bool:
    """Return whether the person holds or measures on the board.

    A measurement goes on when the reservation ends.

    Args:
        holder: see `is_reserved`. holds: of the board, see `holds_of_people`. jobs: that measure there.
    """
    people = {hold.person for hold in holds} | {job.person for job in jobs}
    return holder in {str(reserving_user(person, store_name(book.store))) for person in people}


# --- Claims to a place ---


_LIMIT_S: Final = 5.0
_WAITING, _ALLOCATED, _ACQUIRED = 0, 1, 2  # labgrid.remote.common.ReservationState


@frozen
class WantedPlace:
    """A place and its coordinator, at host:port."""

    name: str
    coordinator: str

    def by(self, ours: Collection[str]) -> str:
        """Other user of the place and his action; empty: none.

        For example "pc1/lena has reserved labgrid's place b1".

        Args:
            ours: own users of labgrid, as "host/user".

        Raises:
            LabTransientError: the coordinator does not answer.
        """
        try:
            with grpc.insecure_channel(self.coordinator) as channel:
                stub = CoordinatorStub(channel)
                places = stub.GetPlaces(messages.GetPlacesRequest(), timeout=_LIMIT_S).places
                reservations = stub.GetReservations(messages.GetReservationsRequest(), timeout=_LIMIT_S).reservations
        except grpc.RpcError as error:
            raise LabTransientError(
                f"labgrid's coordinator at {self.coordinator} does not answer", failure="coordinator_unreachable"
            ) from error
        place = next((each for each in places if each.name == self.name), None)
        if place is None:
            return ""
        # Acquiring waits for another job's place, or takes over a dead one's.
        if place.acquired and place.acquired not in ours and not is_a_program(place.acquired):
            return f"{place.acquired} has acquired labgrid's place {self.name}"
        tags = {**place.tags, "name": self.name}
        for each in sorted(reservations, key=lambda each: (-each.prio, each.created)):
            if each.owner not in ours and not is_a_program(each.owner) and _is_for(each, self.name, tags):
                return f"{each.owner} has reserved labgrid's place {self.name}"
        return ""


def _is_for(reservation: Any, name: str, tags: Mapping[str, str]) -> bool:
    """Return whether a reservation has the place or may get it.

    labgrid gives a place to the first waiting one that fits.
    """
    if reservation.state in {_ALLOCATED, _ACQUIRED}:
        return name in reservation.allocations.values()
    fits: bool = reservation.filters["main"].filter.items() <= tags.items()
    return reservation.state == _WAITING and fits
