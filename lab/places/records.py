"""Places of labgrid as records: their users, missing resources, and coordinators' addresses."""

from __future__ import annotations

import ipaddress
import os
import re
import socket
from collections.abc import Mapping
from typing import Final, Literal, Self

from attrs import frozen

from lab.results.location import tag_of
from lab.results.store import Store

PORT: Final = 20408  # labgrid's
_OF_A_JOB: Final = re.compile(r"(.+)-([0-9a-f]{8})-j(\d+)")
_HOLDER: Final = re.compile(r"(exporter|port)-away/(.*)")
_SOME: Final = "some-host"  # exporter of a match that is a pattern


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
        addresses = {str(info[4][0]) for info in socket.getaddrinfo(host.strip("[]"), None)}
    except (OSError, UnicodeError):  # the latter: no name of a host at all, e.g. with two dots in a row
        return set()
    return (
        set()
        if any(ipaddress.ip_address(address.partition("%")[0]).is_loopback for address in addresses)
        else addresses
    )


@frozen
class JobHolder:
    """A job as the name under which it acquires says it.

    Attributes:
        tag: of its store, see `lab.results.location.tag_of`.
        job: its number.
    """

    host: str
    person: str
    tag: str
    job: int

    @classmethod
    def of(cls, holder: str) -> Self | None:
        """Parse a place's holder; None: it is no job of boardlab's."""
        host, _, name = holder.partition("/")
        match = _OF_A_JOB.fullmatch(name)
        return None if match is None else cls(host, match[1], match[2], int(match[3]))


def is_a_program(holder: str) -> bool:
    """Return whether a place's holder is boardlab, not a person.

    It is a job, the janitor, or a reservation made in `lab web`.
    """
    reserved = re.match(r"reserved-[0-9a-f]{8}/", holder) is not None
    return reserved or JobHolder.of(holder) is not None or MissingResource.of(holder) is not None


@frozen
class MissingResource:
    """A missing resource of a place.

    labgrid would acquire and reserve such a place all the same. So the janitor (`lab.places.janitor`) holds it
    meanwhile, under a name with the reason.

    Attributes:
        what: an exporter without the place's resources, or a serial port that its exporter lists as unavailable.
        exporter: its name; empty: the place's match is a pattern.
        shared_with: a whole place with a resource of this one, which would lose it to this one's holder; empty: none.
    """

    what: Literal["exporter", "port"]
    exporter: str
    shared_with: str = ""

    @classmethod
    def of(cls, holder: str) -> Self | None:
        """Missing resource in a janitor's holder name; None: another holder."""
        match = _HOLDER.fullmatch(holder)
        if match is None:
            return None
        return cls("exporter" if match[1] == "exporter" else "port", "" if match[2] == _SOME else match[2])

    @property
    def holder(self) -> str:
        """Name under which the janitor holds the place, as "host/user"."""
        return f"{self.what}-away/{self.exporter or _SOME}"

    @property
    def described(self) -> str:
        """Message with the remedy."""
        host = self.exporter or "the board's host"
        if self.what == "exporter":
            return f"exporter of {host} is away; start boardlab-export there"
        return f"serial port of {host} is away; plug its adapter in, or start boardlab-console there"


@frozen
class PlaceRow:
    """A place.

    Attributes:
        holder: "host/user", empty when free.
        changed_at: seconds since 1970.
    """

    name: str
    holder: str
    changed_at: float

    @property
    def away(self) -> MissingResource | None:
        """Missing resource that the janitor holds it for; None: none."""
        return MissingResource.of(self.holder)

    @property
    def acquired_by(self) -> str:
        """User of the place; empty: free, or held by the janitor."""
        return "" if self.away else self.holder


@frozen
class CoordinatorState:
    """State of a coordinator.

    Attributes:
        reservations: their number by state.
        exporters: number of resources by name; 0: a place names it and it is away.
    """

    places: tuple[PlaceRow, ...]
    reservations: dict[str, int]
    exporters: dict[str, int]
