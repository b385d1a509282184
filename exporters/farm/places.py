"""labgrid's places, reservations and exporters, as its coordinator has them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from attrs import frozen
from prometheus_client import Metric

from exporters.farm.away import Away
from exporters.farm.build import gauge


@frozen
class Place:
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

    places: tuple[Place, ...]
    reservations: dict[str, int]
    exporters: dict[str, int]


@frozen
class Places:
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
