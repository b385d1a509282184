"""labgrid's places, reservations and exporters, as its coordinator has them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Final, Literal, Self

from attrs import frozen
from prometheus_client import Metric

from exporters.farm.build import gauge

# --- Places that nobody can use: an exporter of theirs is away, or a serial port ---
# labgrid acquires and reserves them as if they were whole. So the janitor (`lab.places.janitor`) acquires them meanwhile, under a name that says why.


_HOLDER: Final = re.compile(r"(exporter|port)-away/(.*)")
_SOME: Final = "some-host"  # where a place's match is a pattern, which names no exporter


@frozen
class Away:
    """A resource that is away.

    Attributes:
        what: an exporter, which offers nothing that the place wants, or a serial port, of which it says that it is not there.
        exporter: its name; empty: the place's match is a pattern, which names none.
        beside: a place that is whole, and has a resource of this one's: who acquires this one takes that from it. Empty: there is none.
    """

    what: Literal["exporter", "port"]
    exporter: str
    beside: str = ""

    @classmethod
    def of(cls, holder: str) -> Self | None:
        """Of a place's holder, as labgrid has it; None: it is held by somebody."""
        found = _HOLDER.fullmatch(holder)
        if found is None:
            return None
        return cls("exporter" if found[1] == "exporter" else "port", "" if found[2] == _SOME else found[2])

    @property
    def holder(self) -> str:
        """The holder of the place meanwhile, as "host/user"."""
        return f"{self.what}-away/{self.exporter or _SOME}"

    @property
    def described(self) -> str:
        """The remedy."""
        host = self.exporter or "the board's host"
        if self.what == "exporter":
            return f"exporter of {host} is away; start boardlab-export there"
        return f"serial port of {host} is away; plug its adapter in, or start boardlab-console there"


# --- labgrid's places, reservations and exporters, as its coordinator has them ---


@frozen
class PlaceRow:
    """A place. holder: "host/user", empty when free. changed_at: seconds since 1970."""

    name: str
    holder: str
    changed_at: float

    @property
    def away(self) -> Away | None:
        """Why the janitor keeps it from everybody; None: it does not."""
        return Away.of(self.holder)

    @property
    def acquired_by(self) -> str:
        """Who has it; empty: nobody, also where the janitor keeps it."""
        return "" if self.away else self.holder


@frozen
class CoordinatorState:
    """What a coordinator knows.

    Attributes:
        reservations: state -> how many.
        exporters: name -> how many resources it offers now; 0 where a place wants it and it is away.
    """

    places: tuple[PlaceRow, ...]
    reservations: dict[str, int]
    exporters: dict[str, int]


@frozen
class PlaceCollector:
    """The places of a coordinator.

    Attributes:
        ask: the coordinator's state, or a BoardlabError (exporters.farm.coordinator).
    """

    ask: Callable[[], CoordinatorState]

    def read(self) -> list[Metric]:
        """How the places are.

        Raises:
            LabTransientError: the coordinator does not answer.
        """
        state = self.ask()
        users = Counter(place.acquired_by for place in state.places if place.acquired_by)
        return [
            gauge(
                "boardlab_place_acquired",
                "Whether somebody has the place.",
                ["place"],
                [((p.name,), float(bool(p.acquired_by))) for p in state.places],
            ),
            gauge(
                "boardlab_place_acquired_by",
                "1 for who has the place.",
                ["place", "user"],
                [((p.name, p.acquired_by), 1.0) for p in state.places if p.acquired_by],
            ),
            gauge(
                "boardlab_place_away",
                "1 for a place that is kept from everybody, since its exporter or its serial port is away.",
                ["place", "exporter", "away"],
                [((p.name, p.away.exporter, p.away.what), 1.0) for p in state.places if p.away],
            ),
            gauge(
                "boardlab_place_changed_timestamp_seconds",
                "When the place was last acquired, released or edited.",
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
                "Whether an exporter offers resources; 0 for one that a place names and that is away.",
                ["exporter"],
                [((name,), float(count > 0)) for name, count in state.exporters.items()],
            ),
            gauge(
                "boardlab_labgrid_exporter_resources",
                "How many resources an exporter offers.",
                ["exporter"],
                [((name,), count) for name, count in state.exporters.items()],
            ),
        ]
