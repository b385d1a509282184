"""Whose turn it is: what a person waits for comes before what a timer began, and nobody waits for ever.

A waiting job's rank is its priority and a point for every `POINT_S` that it has waited. Two jobs that wait age alike, so who is
first never changes while both wait, and the order is that of one instant a job: when it was queued, less what its priority is worth.
Whoever comes later than that worth is behind, so a job waits for a bounded number of others.
"""

from __future__ import annotations

import datetime as dt
from typing import Final

PERSONS: Final = 10  # the priority of what somebody waits for; as FORCED in farm/buildbot/master.cfg
TIMERS: Final = 0
POINT_S: Final = 1_440.0  # ten points are four hours: as long as a timer's job waits for its board


def turn(priority: int, queued_at: dt.datetime) -> dt.datetime:
    """The instant by which waiting jobs are ordered, the earliest first."""
    return queued_at - dt.timedelta(seconds=priority * POINT_S)
