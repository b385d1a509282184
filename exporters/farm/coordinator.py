"""What labgrid's coordinator knows, asked over its gRPC interface as a client that only listens.

`labgrid.remote.client` would do too, but it is asyncio throughout and replaces sys.excepthook when it is imported.
"""

from __future__ import annotations

import queue
from collections import Counter
from collections.abc import Iterator
from typing import Final

import grpc
from attrs import frozen
from labgrid.remote.generated import labgrid_coordinator_pb2 as messages
from labgrid.remote.generated.labgrid_coordinator_pb2_grpc import CoordinatorStub

from exporters.farm.places import CoordinatorState, Place
from lab.errors import LabTransientError

TIMEOUT_S: Final = 5.0
_STATES: Final = ("waiting", "allocated", "acquired", "expired", "invalid")  # labgrid.remote.common.ReservationState
_ANY: Final = frozenset("*?[")  # of an exporter's name in a match, which then names none


@frozen
class Coordinator:
    """The coordinator at host:port."""

    address: str

    def holder(self, name: str) -> str:
        """Who has acquired a place, as "host/user"; empty: nobody, or there is no such place.

        Raises:
            LabTransientError: it does not answer.
        """
        try:
            with grpc.insecure_channel(self.address) as channel:
                places = CoordinatorStub(channel).GetPlaces(messages.GetPlacesRequest(), timeout=TIMEOUT_S).places
        except grpc.RpcError as error:
            raise LabTransientError(
                f"labgrid's coordinator at {self.address} does not answer ({_reason(error)})",
                failure="coordinator_unreachable",
            ) from error
        return next((str(place.acquired) for place in places if place.name == name), "")

    def state(self) -> CoordinatorState:
        """Its places, reservations and exporters.

        Raises:
            LabTransientError: it does not answer.
        """
        try:
            with grpc.insecure_channel(self.address) as channel:
                stub = CoordinatorStub(channel)
                places = stub.GetPlaces(messages.GetPlacesRequest(), timeout=TIMEOUT_S).places
                reservations = stub.GetReservations(messages.GetReservationsRequest(), timeout=TIMEOUT_S).reservations
                offered = _offered(stub)
        except grpc.RpcError as error:
            raise LabTransientError(
                f"labgrid's coordinator at {self.address} does not answer ({_reason(error)}); start it, or mend "
                "`coordinator:` in farm.yaml",
                failure="coordinator_unreachable",
            ) from error
        named = {match.exporter for place in places for match in place.matches if not _ANY & set(match.exporter)}
        return CoordinatorState(
            places=tuple(Place(p.name, p.acquired, p.changed) for p in places),
            reservations=dict(Counter(_STATES[reservation.state] for reservation in reservations)),
            exporters={name: offered[name] for name in sorted(named | offered.keys())},
        )


def _offered(stub: CoordinatorStub) -> Counter[str]:
    """How many resources each exporter offers: what comes after a subscription, until the answer to our sync."""
    said: queue.SimpleQueue[messages.ClientInMessage | None] = queue.SimpleQueue()
    startup = messages.ClientInMessage()
    startup.startup.version, startup.startup.name = "boardlab", "boardlab exporter"
    subscribe, sync = messages.ClientInMessage(), messages.ClientInMessage()
    subscribe.subscribe.all_resources = True
    sync.sync.id = 1
    for message in (startup, subscribe, sync):
        said.put(message)

    def talk() -> Iterator[messages.ClientInMessage]:
        while (message := said.get()) is not None:
            yield message

    found: Counter[str] = Counter()
    stream = stub.ClientStream(talk(), timeout=TIMEOUT_S)
    try:
        for answer in stream:
            for update in answer.updates:
                if update.WhichOneof("kind") == "resource" and update.resource.avail:
                    found[update.resource.path.exporter_name] += 1
            if answer.sync.id == sync.sync.id:
                break
    finally:
        said.put(None)
        stream.cancel()
    return found


def _reason(error: grpc.RpcError) -> str:
    return error.code().name.lower() if isinstance(error, grpc.Call) else type(error).__name__
