"""Families of labgrid's places, reservations and exporters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from attrs import frozen
from prometheus_client import Metric

from exporters.farm.build import gauge
from lab.places.records import CoordinatorState


@frozen
class PlaceCollector:
    """Collector of a coordinator's places.

    Attributes:
        ask: the coordinator's state, or a BoardlabError (lab.places.coordinator).
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
