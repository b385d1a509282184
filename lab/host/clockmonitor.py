"""Noticing that the clock of the stamps stood still: a host that was suspended, a virtual machine that was restored.

CLOCK_MONOTONIC_RAW does not count the time in which a host is suspended, and CLOCK_BOOTTIME does (clock_gettime(2)). NTP
slews the one and not the other, by at most 500 ppm (ntp_adjtime(2)); what they drift apart beyond that is a jump. A
virtual machine that is paused from outside sees nothing of it on any clock; there only the board's own clock tells
(`lab.console.printk`), and bytes that come too soon (`lab.console.pace`). Where somebody sets the wall clock as it goes on,
as agents of hypervisors do, CLOCK_REALTIME jumps. It may be slewed faster than the others (chrony: 83333 ppm), so that only
a jump between two looks counts. Who sets it for another reason during a boot loses that attempt.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from lab.host.clock import NS_PER_S, Clock

TOLERANCE_NS = 1_000_000  # two clocks are read one after the other, by a process that may have to wait between
SLEW_LIMIT = 500e-6
COMPARED_NS = NS_PER_S  # the comparison begins anew so often, so that slewing does not add up
WALL_TOLERANCE_NS = 20_000_000
WALL_SLEW_LIMIT = 0.1
_TRIES = 3


def boottime_ns() -> int:
    """CLOCK_BOOTTIME in nanoseconds."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def wall_monitor(clock: Clock) -> ClockMonitor:
    """Compares the clock of the stamps with the wall clock."""
    return ClockMonitor(clock, time.time_ns, WALL_TOLERANCE_NS, WALL_SLEW_LIMIT, compared_ns=0)


class ClockMonitor:
    """Compares the clock of the stamps with one that goes on while the host is suspended."""

    def __init__(
        self,
        clock: Clock,
        other: Callable[[], int] = boottime_ns,
        tolerance_ns: int = TOLERANCE_NS,
        slew_limit: float = SLEW_LIMIT,
        compared_ns: int = COMPARED_NS,
    ) -> None:
        """They agree now. `compared_ns`: how old the comparison may be before it begins anew."""
        self._clock = clock
        self._other = other
        self._tolerance_ns = tolerance_ns
        self._slew_limit = slew_limit
        self._compared_ns = compared_ns
        self._reference = self._both()

    def missing_ns(self) -> int:
        """By how much the clock of the stamps fell behind since the last call; 0 while all is well."""
        now_ns, other_ns = self._both()
        since_ns, since_other_ns = now_ns - self._reference[0], other_ns - self._reference[1]
        missing_ns = since_other_ns - since_ns
        if abs(missing_ns) > self._tolerance_ns + self._slew_limit * max(since_ns, since_other_ns):
            self._reference = now_ns, other_ns
            return missing_ns
        if since_other_ns > self._compared_ns:
            self._reference = now_ns, other_ns
        return 0

    def _both(self) -> tuple[int, int]:
        """Both clocks at the same instant, as far as this process was let run; of some tries the closest."""
        tries = []
        for _ in range(_TRIES):
            before_ns = self._clock.now_ns()
            other_ns = self._other()
            apart_ns = self._clock.now_ns() - before_ns
            tries.append((apart_ns, before_ns + apart_ns // 2, other_ns))
            if apart_ns < TOLERANCE_NS // 2:
                break
        _, now_ns, other_ns = min(tries)
        return now_ns, other_ns
