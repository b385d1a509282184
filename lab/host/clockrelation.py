"""The relation of two hosts' clocks, by queries over a connection.

An answer proves that the other clock showed `there_ns` at some instant between the question and its arrival (Cristian,
"Probabilistic clock synchronization", Distributed Computing 3, 1989). So the offset lies within a bound that no delay,
loss or asymmetry of the network can break; the shorter the round trip, the narrower it is. Two crystals drift apart,
at a rate that is almost the same for hours; the bounds of all readings together bound the rate as well, and every
bound is carried to the requested instant.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from typing import Final

from attrs import define, field, frozen

from lab.errors import LabTransientError
from lab.host.clock import NS_PER_S, Clock

RATE_LIMIT: Final = 500e-6  # of two crystals, of which nothing is known; computers' are within 100e-6 of the second
RATE_WANDER: Final = 1e-6  # by which their rate changes within some hours, with the temperature
WIDEST_NS: Final = NS_PER_S // 2  # a bound beyond this relates nothing
_KEPT: Final = 48  # readings: the narrowest of each part of the time
_NEAR_NS: Final = 10 * NS_PER_S  # readings so close to each other compete


@frozen
class ClockReading:
    """A query of the other clock.

    Attributes:
        asked_ns, told_ns: this process's CLOCK_MONOTONIC_RAW before the question and after the answer.
        there_ns: the other clock's reading.
        line: its time line, see `lab.host.clock.time_line`.
    """

    asked_ns: int
    there_ns: int
    told_ns: int
    line: str = ""

    @property
    def round_trip_ns(self) -> int:
        """Duration of the query."""
        return self.told_ns - self.asked_ns

    def agrees(self, other: ClockReading) -> bool:
        """True if one offset within `RATE_LIMIT` explains both readings."""
        elapsed_ns = max(self.told_ns, other.told_ns) - min(self.asked_ns, other.asked_ns)
        drift_ns = RATE_LIMIT * elapsed_ns
        low = max(self.there_ns - self.told_ns, other.there_ns - other.told_ns)
        high = min(self.there_ns - self.asked_ns, other.there_ns - other.asked_ns)
        return low <= high + drift_ns


@frozen
class Offset:
    """The other clock less this one, at an instant.

    Attributes:
        bound_ns: ±, which covers it for certain as long as the clocks' rate keeps within its limits.
    """

    ns: int
    bound_ns: int


@define
class ClockRelation:
    """The relation to another host's clock.

    Attributes:
        name: of the other host, for messages.
        same: it is the same clock, without measuring.
    """

    name: str
    same: bool = False
    readings: list[ClockReading] = field(factory=list)
    line: str = ""
    _bounds: tuple[float, float] | None = field(default=None, init=False)

    def add(self, reading: ClockReading) -> None:
        """Add a reading.

        Raises:
            LabTransientError: it is of another time line than those before: the host was booted again.
        """
        if self.line and reading.line != self.line:
            raise self._relation_error("it is on another time line than before: that host was booted again")
        self.line = reading.line
        self._bounds = None
        newest = self.readings[-1] if self.readings else None
        is_near = newest is not None and reading.asked_ns - newest.asked_ns < _NEAR_NS
        if newest is not None and is_near and reading.agrees(newest):  # else a clock has jumped, and both show it
            if reading.round_trip_ns <= newest.round_trip_ns:
                self.readings[-1] = reading
        else:
            self.readings.append(reading)
        if len(self.readings) > _KEPT:
            # Of the closest neighbours, the slower round trip goes; the first and the last reading stay.
            inner = range(1, len(self.readings) - 2)
            at = min(inner, key=lambda n: self.readings[n + 1].asked_ns - self.readings[n].asked_ns)
            del self.readings[max((at, at + 1), key=lambda n: self.readings[n].round_trip_ns)]

    def at(self, t_ns: int) -> Offset:
        """The offset when this host's clock shows `t_ns`.

        Raises:
            LabTransientError: no offset fits all readings (a clock has jumped), or it is unbounded.
        """
        if self.same:
            return Offset(0, 0)
        if not self.readings:
            raise self._relation_error("it gave no answer")
        slow, fast = self._rates()
        low, high = -math.inf, math.inf
        for reading in self.readings:  # linear in the instant and in the rate, so its extremes are at their ends
            ends = [
                reading.there_ns - here_ns + rate * (t_ns - here_ns)
                for here_ns in (reading.asked_ns, reading.told_ns)
                for rate in (slow, fast)
            ]
            low, high = max(low, min(ends)), min(high, max(ends))
        if low > high:
            raise self._relation_error(
                f"its readings contradict each other by {(low - high) / 1e6:.3f} ms: one of the clocks has jumped"
            )
        if high - low > 2 * WIDEST_NS:
            raise self._relation_error(f"its answers take too long: ± {(high - low) / 2e9:.3f} s")
        return Offset(round((low + high) / 2), round((high - low) / 2) + 1)

    def forget(self) -> None:
        """Begin anew, e.g. after a jump."""
        self.readings, self.line, self._bounds = [], "", None

    def rate(self) -> tuple[float, float]:
        """Relative rate of the other clock, and its ±; both as shares."""
        slow, fast = self._rates()
        return (slow + fast) / 2, (fast - slow) / 2

    def document(self) -> dict[str, object]:
        """The relation for a run's provenance.

        Raises:
            LabTransientError: as `at`.
        """
        if self.same:
            return {"host": self.name, "same_clock": True}
        last_ns = self.readings[-1].told_ns if self.readings else 0
        offset, (rate, rate_bound) = self.at(last_ns), self.rate()
        return {
            "host": self.name,
            "same_clock": False,
            "line": self.line,
            "offset_ns": offset.ns,
            "bound_ns": offset.bound_ns,
            "at_ns": last_ns,
            "rate": rate,
            "rate_bound": rate_bound,
            "round_trip_ns": min(reading.round_trip_ns for reading in self.readings),
            "readings": len(self.readings),
        }

    def _rates(self) -> tuple[float, float]:
        """The least and the greatest rate that the readings allow."""
        if self._bounds is not None:
            return self._bounds
        slow, fast = -RATE_LIMIT, RATE_LIMIT
        for early, late in itertools.combinations(self.readings, 2):
            there_ns = late.there_ns - early.there_ns
            shortest_ns, longest_ns = late.asked_ns - early.told_ns, late.told_ns - early.asked_ns
            if shortest_ns > 0:
                slow = max(slow, there_ns / longest_ns - 1 - RATE_WANDER)
                fast = min(fast, there_ns / shortest_ns - 1 + RATE_WANDER)
        if slow > fast:
            raise self._relation_error("no rate of its crystal explains its readings: one of the clocks has jumped")
        self._bounds = slow, fast
        return slow, fast

    def _relation_error(self, why: str) -> LabTransientError:
        return LabTransientError(
            f"the clock of {self.name} cannot be related to this host's: {why}. Times from the power switch to its "
            "console are not measured; look at that host (suspended? restored?) and at the network, then try again",
            failure="clock_unrelated",
        )


@define
class RelatedClock:
    """Another host's CLOCK_MONOTONIC_RAW, computed from ours.

    A wait may ignore its uncertainty; a measurement uses `bound_ns`.

    Attributes:
        name: goes into the provenance of what it stamps.
    """

    relation: ClockRelation
    clock: Clock
    name: str = "CLOCK_MONOTONIC_RAW of another host"
    _last: Offset = field(default=Offset(0, 0), init=False)

    def now_ns(self) -> int:
        """The other clock's time; by the last known offset if needed."""
        here_ns = self.clock.now_ns()
        with contextlib.suppress(LabTransientError):
            self._last = self.relation.at(here_ns)
        return here_ns + self._last.ns

    def bound_ns(self) -> int:
        """± of `now_ns`.

        Raises:
            LabTransientError: the clocks cannot be related.
        """
        return self.relation.at(self.clock.now_ns()).bound_ns
