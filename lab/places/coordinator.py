"""gRPC client of labgrid's coordinator.

`labgrid.remote.client` would do too, but it is asyncio throughout and replaces sys.excepthook when it is imported.
"""

from __future__ import annotations

import itertools
import queue
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import Any, Final

import grpc
from attrs import evolve, frozen
from labgrid.remote.generated import labgrid_coordinator_pb2 as messages
from labgrid.remote.generated.labgrid_coordinator_pb2_grpc import CoordinatorStub

from lab.errors import ConfigurationError, LabTransientError
from lab.places.records import CoordinatorState, MissingResource, PlaceRow

TIMEOUT_S: Final = 5.0
RELEASE_S: Final = 30.0  # an exporter is told of each resource, and has ten seconds for it
LISTENER: Final = "boardlab exporter"
_STATES: Final = ("waiting", "allocated", "acquired", "expired", "invalid")  # labgrid.remote.common.ReservationState
_GRANTED: Final = frozenset({"allocated", "acquired"})
_REFUSALS: Final = (
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.ALREADY_EXISTS,
    grpc.StatusCode.PERMISSION_DENIED,
)
# The coordinator knows a session by its TCP connection, which gRPC shares among the channels of a process: the second
# session is refused, or acquires as the first one's user.
_OWN_CONNECTION: Final = (("grpc.use_local_subchannel_pool", 1),)
_PORT: Final = "NetworkSerialPort"  # labgrid may not set `avail` of other classes
_ANY: Final = frozenset("*?[")  # of an exporter's name in a match, which then names none


@frozen
class Coordinator:
    """The coordinator at host:port."""

    address: str

    def holder(self, name: str) -> str:
        """Holder of a place as "host/user"; empty: none.

        Raises:
            LabTransientError: it does not answer.
        """
        return self.holders().get(name, "")

    def holders(self, timeout_s: float = TIMEOUT_S) -> dict[str, str]:
        """Holders of all places as "host/user"; empty: free.

        Raises:
            LabTransientError: it does not answer.
        """
        with self._stub() as stub:
            places = stub.GetPlaces(messages.GetPlacesRequest(), timeout=timeout_s).places
        return {str(place.name): str(place.acquired) for place in places}

    def release(self, name: str, holder: str) -> None:
        """Release a place if this user holds it.

        Raises:
            LabTransientError: it does not answer.
            ConfigurationError: there is no such place.
        """
        with self._stub() as stub:
            stub.ReleasePlace(messages.ReleasePlaceRequest(placename=name, fromuser=holder), timeout=RELEASE_S)

    def acquire(self, name: str, user: str, allowed: str = "") -> None:
        """Acquire a free place for "host/user".

        Args:
            allowed: another user of the place, until it is released; empty: none.

        Raises:
            LabTransientError: it does not answer.
            ConfigurationError: it refuses: another user has or reserved it, an exporter does not obey, or there is no
                such place.
        """
        with self._stub() as stub, _session(stub, user):
            stub.AcquirePlace(messages.AcquirePlaceRequest(placename=name), timeout=RELEASE_S)
            if allowed:
                stub.AllowPlace(messages.AllowPlaceRequest(placename=name, user=allowed), timeout=TIMEOUT_S)

    def create(self, name: str, match: str, tags: Mapping[str, str]) -> None:
        """Make a place.

        Args:
            match: EXPORTER/GROUP/CLASS, as labgrid-client's add-match takes it.

        Raises:
            LabTransientError: it does not answer.
            ConfigurationError: it refuses.
        """
        with self._stub() as stub, _session(stub, LISTENER):
            stub.AddPlace(messages.AddPlaceRequest(name=name), timeout=TIMEOUT_S)
            stub.AddPlaceMatch(messages.AddPlaceMatchRequest(placename=name, pattern=match), timeout=TIMEOUT_S)
            stub.SetPlaceTags(messages.SetPlaceTagsRequest(placename=name, tags=dict(tags)), timeout=TIMEOUT_S)

    def poll(self, token: str) -> tuple[str, tuple[str, ...]]:
        """State and places of a reservation; empty: no such token.

        Only its owner may poll: labgrid ends a reservation without a poll within a minute, unless its place is
        acquired.

        Raises:
            LabTransientError: it does not answer.
        """
        with self._stub() as stub:
            try:
                request = messages.PollReservationRequest(token=token)
                mine = stub.PollReservation(request, timeout=TIMEOUT_S).reservation
            except grpc.RpcError as error:
                if isinstance(error, grpc.Call) and error.code() is grpc.StatusCode.FAILED_PRECONDITION:
                    return "", ()
                raise
        return _STATES[mine.state], tuple(sorted(mine.allocations.values()))

    def reserver(self, name: str) -> str:
        """Owner and token of a place's reservation; empty: none.

        Example: "desk-1/lena (reservation 7F3K)".

        Raises:
            LabTransientError: it does not answer.
        """
        return self.reservers().get(name, "")

    def reservers(self) -> dict[str, str]:
        """Owners and tokens of all reserved places.

        Raises:
            LabTransientError: it does not answer.
        """
        with self._stub() as stub:
            reservations = stub.GetReservations(messages.GetReservationsRequest(), timeout=TIMEOUT_S).reservations
        granted = [reservation for reservation in reservations if _STATES[reservation.state] in _GRANTED]
        return {
            str(place): f"{reservation.owner} (reservation {reservation.token})"
            for reservation in granted
            for place in reservation.allocations.values()
        }

    def reserving_users(self, name: str) -> list[str]:
        """Owners of reservations that have a place or may get it, as "host/user".

        They are in labgrid's order, which gives a place to the first waiting one that fits.

        Raises:
            LabTransientError: it does not answer.
        """
        with self._stub() as stub:
            places = stub.GetPlaces(messages.GetPlacesRequest(), timeout=TIMEOUT_S).places
            reservations = stub.GetReservations(messages.GetReservationsRequest(), timeout=TIMEOUT_S).reservations
        tags = next(({**place.tags, "name": name} for place in places if place.name == name), None)
        if tags is None:
            return []
        return [
            str(reservation.owner)
            for reservation in sorted(reservations, key=lambda reservation: (-reservation.prio, reservation.created))
            if (_STATES[reservation.state] in _GRANTED and name in reservation.allocations.values())
            or (_STATES[reservation.state] == "waiting" and reservation.filters["main"].filter.items() <= tags.items())
        ]

    def find_unmatched(self, name: str) -> tuple[str, ...]:
        """Missing resources of a place as "exporter/group/class".

        Raises:
            LabTransientError: it does not answer.
        """
        with self._stub() as stub:
            places = stub.GetPlaces(messages.GetPlacesRequest(), timeout=TIMEOUT_S).places
            with _session(stub, LISTENER) as session:
                offered = list(session)
        matches = [match for place in places if place.name == name for match in place.matches]
        return tuple(
            f"{match.exporter}/{match.group}/{match.cls}"
            for match in matches
            if not any(_fits(match, resource) for resource in offered)
        )

    def lacking(self) -> dict[str, MissingResource]:
        """Missing resource of each unusable place.

        Raises:
            LabTransientError: it does not answer.
        """
        with self._stub() as stub:
            places = stub.GetPlaces(messages.GetPlacesRequest(), timeout=TIMEOUT_S).places
            with _session(stub, LISTENER) as session:
                resources = list(session)
        by_exporter: dict[str, list[Any]] = {}
        for resource in resources:
            by_exporter.setdefault(str(resource.path.exporter_name), []).append(resource)
        offered = by_exporter
        missing = {str(place.name): away for place in places if (away := _away(place, offered)) is not None}
        whole = [place for place in places if place.name not in missing]
        return {
            str(place.name): evolve(missing[place.name], shared_with=_sharing_place(place, whole, resources))
            for place in places
            if place.name in missing
        }

    def _channel(self) -> Any:
        return grpc.insecure_channel(self.address, options=_OWN_CONNECTION)

    @contextmanager
    def _stub(self) -> Iterator[CoordinatorStub]:
        try:
            with self._channel() as channel:
                yield CoordinatorStub(channel)
        except grpc.RpcError as error:
            if isinstance(error, grpc.Call) and error.code() in _REFUSALS:
                raise ConfigurationError(f"labgrid's coordinator at {self.address}: {error.details()}") from error
            raise LabTransientError(
                f"labgrid's coordinator at {self.address} does not answer ({_reason(error)})",
                failure="coordinator_unreachable",
            ) from error

    def state(self) -> CoordinatorState:
        """Places, reservations and exporters.

        Raises:
            LabTransientError: it does not answer.
        """
        try:
            with self._channel() as channel:
                stub = CoordinatorStub(channel)
                places = stub.GetPlaces(messages.GetPlacesRequest(), timeout=TIMEOUT_S).places
                reservations = stub.GetReservations(messages.GetReservationsRequest(), timeout=TIMEOUT_S).reservations
                with _session(stub, LISTENER) as updates:
                    offered = Counter(str(update.path.exporter_name) for update in updates if update.avail)
        except grpc.RpcError as error:
            raise LabTransientError(
                f"labgrid's coordinator at {self.address} does not answer ({_reason(error)}); start it, or correct "
                "`coordinator:` in farm.yaml",
                failure="coordinator_unreachable",
            ) from error
        named = {match.exporter for place in places for match in place.matches if not _ANY & set(match.exporter)}
        return CoordinatorState(
            places=tuple(PlaceRow(p.name, p.acquired, p.changed) for p in places),
            reservations=dict(Counter(_STATES[reservation.state] for reservation in reservations)),
            exporters={name: offered[name] for name in sorted(named | offered.keys())},
        )


@contextmanager
def _session(stub: CoordinatorStub, name: str) -> Iterator[list[Any]]:
    """Open a client's session; yield the present resources.

    labgrid acquires a place only for a session.
    """
    requests: queue.SimpleQueue[messages.ClientInMessage | None] = queue.SimpleQueue()
    startup = messages.ClientInMessage()
    startup.startup.version, startup.startup.name = "boardlab", name
    subscribe, sync = messages.ClientInMessage(), messages.ClientInMessage()
    subscribe.subscribe.all_resources = True
    sync.sync.id = 1
    for message in (startup, subscribe, sync):
        requests.put(message)

    def pending() -> Iterator[messages.ClientInMessage]:
        while (message := requests.get()) is not None:
            yield message

    resources = []
    stream = stub.ClientStream(pending(), timeout=2 * RELEASE_S)
    try:
        for answer in stream:
            resources += [update.resource for update in answer.updates if update.WhichOneof("kind") == "resource"]
            if answer.sync.id == sync.sync.id:
                break
        yield resources
    finally:
        requests.put(None)
        stream.cancel()


def _fits(match: Any, resource: Any) -> bool:
    """Return whether a resource fits, as in labgrid's ResourceMatch."""
    pairs = [(resource.path.exporter_name, match.exporter), (resource.path.group_name, match.group)]
    pairs += [(resource.cls, match.cls), (resource.path.resource_name, match.name or "*")]
    return all(fnmatchcase(name, pattern) for name, pattern in pairs)


def _away(place: Any, offered: Mapping[str, Sequence[Any]]) -> MissingResource | None:
    """Missing resource of a place; None: it is whole."""
    port = None
    for match in place.matches:
        named = "" if _ANY & set(match.exporter) else str(match.exporter)
        candidates = offered.get(named, ()) if named else itertools.chain.from_iterable(offered.values())
        matching = [resource for resource in candidates if _fits(match, resource)]
        if not matching:
            return MissingResource("exporter", named)
        gone = (resource for resource in matching if resource.cls == _PORT and not resource.avail)
        port = port or next((MissingResource("port", str(resource.path.exporter_name)) for resource in gone), None)
    return port


def _sharing_place(place: Any, whole: Iterable[Any], resources: Iterable[Any]) -> str:
    """A whole place that shares a resource; empty: none.

    labgrid gives a resource to one place at a time.
    """
    own = [resource for resource in resources if _has(place, resource)]
    return next((str(other.name) for other in whole if any(_has(other, resource) for resource in own)), "")


def _has(place: Any, resource: Any) -> bool:
    return any(_fits(match, resource) for match in place.matches)


def _reason(error: grpc.RpcError) -> str:
    return error.code().name.lower() if isinstance(error, grpc.Call) else type(error).__name__
