"""Families of labgrid's places, reservations and exporters."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Final, Literal, Self

from attrs import frozen
from prometheus_client import Metric

from exporters.farm.build import gauge

# --- Unusable places: an exporter or a serial port of theirs is away ---
# labgrid would acquire and reserve them all the same. So the janitor (`lab.places.janitor`) holds them meanwhile, under a name with the reason.


_HOLDER: Final = re.compile(r"(exporter|port)-away/(.*)")
_SOME: Final = "some-host"  # exporter of a match that is a pattern


@frozen
class MissingResource:
    """A missing resource of a place.

    Attributes:
        what: an exporter without the place's resources, or a serial port that its exporter lists as
        unavailable. exporter: its name; empty: the place's match is a pattern. shared_with: a whole place with a
        resource of this one, which would lose it to this one's holder; empty: none.
    """

    what: Literal["exporter", "port"]
    exporter: str
    shared_with: str = ""

    @classmethod
    def of(cls, holder: str) -> Self | None:
        """Missing resource in a janitor's holder name; None: another holder."""
        found = _HOLDER.fullmatch(holder)
        if found is None:
            return None
        return cls("exporter" if found[1] == "exporter" else "port", "" if found[2] == _SOME else found[2])

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


# --- Families of places, reservations and exporters ---


@frozen
class PlaceRow:
    """A place.

    Attributes:
        holder: "host/user", empty when free. changed_at: seconds since 1970.
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
        reservations: their number by state. exporters: number of resources by name; 0: a place names it and it
        is away.
    """

    places: tuple[PlaceRow, ...]
    reservations: dict[str, int]
    exporters: dict[str, int]


@frozen
class PlaceCollector:
    """Collector of a coordinator's places.

    Attributes:
        ask: the coordinator's state, or a BoardlabError (exporters.farm.coordinator).
    """

    ask: Callable[[], CoordinatorState]

    def read(self) -> list[Metric]:
        """Families of the places.

        Raises:
            LabTransientError: the coordinator does not answer.
        """
        state = self.ask()
        users = Counter(place.acquired_by for place in state.places if place.acquired_by)
        return [
            gauge(
                "boardlab_place_acquired",
                "1: a user has the place.",
                ["place"],
                [((p.name,), float(bool(p.acquired_by))) for p in state.places],
            ),
            gauge(
                "boardlab_place_acquired_by",
                "1: the place's user.",
                ["place", "user"],
                [((p.name, p.acquired_by), 1.0) for p in state.places if p.acquired_by],
            ),
            gauge(
                "boardlab_place_away",
                "1: the place is unusable, since its exporter or its serial port is away.",
                ["place", "exporter", "away"],
                [((p.name, p.away.exporter, p.away.what), 1.0) for p in state.places if p.away],
            ),
            gauge(
                "boardlab_place_changed_timestamp_seconds",
                "Time of the place's last acquisition, release or edit.",
                ["place"],
                [((p.name,), p.changed_at) for p in state.places],
            ),
            gauge(
                "boardlab_places_of_user", "Places that a user has.", ["user"], [((u,), n) for u, n in users.items()]
            ),
            gauge(
                "boardlab_reservations",
                "Reservations by state.",
                ["state"],
                [((state_name,), count) for state_name, count in state.reservations.items()],
            ),
            gauge(
                "boardlab_labgrid_exporter_up",
                "1: the exporter offers resources; 0: a place names it, and it is away.",
                ["exporter"],
                [((name,), float(count > 0)) for name, count in state.exporters.items()],
            ),
            gauge(
                "boardlab_labgrid_exporter_resources",
                "Number of resources that an exporter offers.",
                ["exporter"],
                [((name,), count) for name, count in state.exporters.items()],
            ),
        ]
