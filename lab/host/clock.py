"""Named clocks, passed in by whoever builds an object.

Host intervals are taken on CLOCK_MONOTONIC_RAW: it is neither stepped nor slewed by NTP (clock_gettime(2)).
Wall time only labels.
"""

from __future__ import annotations

import datetime as dt
import time
from pathlib import Path
from typing import Final, Protocol

NS_PER_S: Final = 1_000_000_000


class Clock(Protocol):
    """A clock with a name that goes into the provenance of what it stamped."""

    name: str

    def now_ns(self) -> int:
        """The reading in nanoseconds since the clock's own, arbitrary start."""
        ...


class MonotonicRaw:
    """CLOCK_MONOTONIC_RAW; one time line for all processes of a host since its boot."""

    name = "CLOCK_MONOTONIC_RAW"

    def now_ns(self) -> int:
        """Nanoseconds since the host's boot, not adjusted by NTP."""
        return time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)


def time_line() -> str:
    """Which time line this process's CLOCK_MONOTONIC_RAW is on: that of a boot of a host, and of a time namespace on it.

    Readings of the same line can be compared. A container may have a time namespace of its own (time_namespaces(7)).
    """
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    try:
        return f"{boot} {Path('/proc/self/ns/time').readlink()}"
    except OSError:  # a kernel before 5.6 knows none
        return boot


def utc_now() -> dt.datetime:
    """The wall time, in UTC, for labels only."""
    return dt.datetime.now(dt.UTC)
