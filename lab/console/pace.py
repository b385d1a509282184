"""Bytes that came sooner than their line can send them: time is missing in their stamps.

While a virtual machine is paused, all of its clocks stand still, and the bytes of the board wait at its door. They then
come at once, as after any stall, but for one thing: since the read before them less time has gone by than the line needed
for them. A line that is faster than its speed says (a USB gadget, a pty that nobody paces) does so all the time, and is
not meant.
"""

from __future__ import annotations

from collections.abc import Iterable

from lab.console.lateness import SETTLED_NS, DelayTracker
from lab.console.model import Chunk, Event, Gap, Lateness, LineTiming

EARLY_NS = 5_000_000  # an adapter hands on its bytes some milliseconds later or sooner
MAX_EPISODES = 8  # of one boot; more, and the line is as fast as that


def missing_ns(events: Iterable[Event], timing: LineTiming) -> int:
    """How much time is missing in the stamps at least; 0: none, or none that bytes tell of."""
    tracker = DelayTracker(timing)
    episodes: list[int] = []
    last_ns: int | None = None  # when bytes last came too soon
    for event in events:
        match event:
            case Chunk():
                if tracker.previous is not None and event.position != tracker.previous.end:
                    tracker.forget()
                early_ns = tracker.delay(event).early_ns
                if early_ns > EARLY_NS:
                    if last_ns is None or event.t_ns - last_ns > SETTLED_NS:
                        episodes.append(0)
                    episodes[-1] += early_ns
                    last_ns = event.t_ns
            case Lateness():
                tracker.take_evidence(event)
            case Gap():
                tracker.forget()
    return sum(episodes) if len(episodes) <= MAX_EPISODES else 0
