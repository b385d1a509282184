"""One time line for the instants of a board: those of its console and those of its switches."""

from __future__ import annotations

from typing import Any

import attr

from lab.benchmarks.boot import PowerEdge
from lab.host.clock import MonotonicRaw
from lab.host.clockrelation import ClockRelation, RelatedClock

# Stamps are taken on the host with the port. Where that is another host than this one, the switches' instants, which
# are taken here, are carried over to that host's clock, and what that may be wrong by widens them.


def relate(console: Any, *switches: Any) -> None:
    """Relate the switches' clocks to the console's time line, if any."""
    relation: ClockRelation | None = getattr(console, "relation", None)
    for switch in switches:
        if switch is None:
            continue
        current_relation = getattr(switch.clock, "relation", None)
        if relation is None and current_relation is not None:
            switch.clock = MonotonicRaw()
        elif relation is not None and current_relation is not relation:
            switch.clock = RelatedClock(relation, MonotonicRaw())


def bound_ns(clock: Any) -> int:
    """Largest distance of this clock from the console's time line.

    Raises:
        LabTransientError: the clocks cannot be related.
    """
    return clock.bound_ns() if isinstance(clock, RelatedClock) else 0


def widen(edge: PowerEdge, clock: Any) -> PowerEdge:
    """An edge that covers the instant on the console's time line.

    Raises:
        LabTransientError: the clocks cannot be related.
    """
    bound = bound_ns(clock)
    return attr.evolve(edge, requested_ns=edge.requested_ns - bound, acknowledged_ns=edge.acknowledged_ns + bound)
