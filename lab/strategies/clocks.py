"""One time line for the instants of a board: those of its console and those of its switches.

Stamps are taken on the host with the port. Where that is another host than this one, the switches' instants, which are taken here,
are carried over to that host's clock, and what that may be wrong by widens them.
"""

from __future__ import annotations

from typing import Any

import attr

from lab.benchmarks.boot import PowerEdge
from lab.host.clock import MonotonicRaw
from lab.host.clockrelation import ClockRelation, RelatedClock


def relate(console: Any, *switches: Any) -> None:
    """Let switches take their instants on the console's time line; None of them: there is none."""
    relation: ClockRelation | None = getattr(console, "relation", None)
    for switch in switches:
        if switch is None:
            continue
        known = getattr(switch.clock, "relation", None)
        if relation is None and known is not None:
            switch.clock = MonotonicRaw()
        elif relation is not None and known is not relation:
            switch.clock = RelatedClock(relation, MonotonicRaw())


def bound_ns(clock: Any) -> int:
    """How far an instant of this clock may be from the console's time line.

    Raises:
        LabTransientError: the clocks cannot be related.
    """
    return clock.bound_ns() if isinstance(clock, RelatedClock) else 0


def widened(edge: PowerEdge, clock: Any) -> PowerEdge:
    """An edge that covers the instant on the console's time line.

    Raises:
        LabTransientError: the clocks cannot be related.
    """
    bound = bound_ns(clock)
    return attr.evolve(edge, requested_ns=edge.requested_ns - bound, acknowledged_ns=edge.acknowledged_ns + bound)
