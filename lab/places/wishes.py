"""Who wants a labgrid place: reservations that wait for it, that it was given to, and whoever has acquired it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

import grpc
from attrs import frozen
from labgrid.remote.generated import labgrid_coordinator_pb2 as messages
from labgrid.remote.generated.labgrid_coordinator_pb2_grpc import CoordinatorStub

from lab.errors import LabTransientError
from lab.places.holding import is_a_program

_LIMIT_S: Final = 5.0
_WAITING, _ALLOCATED, _ACQUIRED = 0, 1, 2  # labgrid.remote.common.ReservationState


@frozen
class Wanted:
    """A place and its coordinator, at host:port."""

    name: str
    coordinator: str

    def by(self, ours: Collection[str]) -> str:
        """Who wants it or has it, and what they did, e.g. "pc1/lena has reserved labgrid's place b1"; empty: nobody but us.

        Args:
            ours: users of labgrid, as "host/user", who are no others.

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
        # What another job has, or has left when it died, is waited for, or taken over, when it is acquired.
        if place.acquired and place.acquired not in ours and not is_a_program(place.acquired):
            return f"{place.acquired} has acquired labgrid's place {self.name}"
        tags = {**place.tags, "name": self.name}
        for each in sorted(reservations, key=lambda each: (-each.prio, each.created)):
            if each.owner not in ours and not is_a_program(each.owner) and _is_for(each, self.name, tags):
                return f"{each.owner} has reserved labgrid's place {self.name}"
        return ""


def _is_for(reservation: Any, name: str, tags: Mapping[str, str]) -> bool:
    """Whether it has the place, or waits for one and takes this one, too: labgrid gives it to the first that fits."""
    if reservation.state in {_ALLOCATED, _ACQUIRED}:
        return name in reservation.allocations.values()
    fits: bool = reservation.filters["main"].filter.items() <= tags.items()
    return reservation.state == _WAITING and fits
