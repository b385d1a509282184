"""Named clocks, passed to the objects that use them.

Host intervals are taken on CLOCK_MONOTONIC_RAW: it is neither stepped nor slewed by NTP (clock_gettime(2)).
Wall time only labels.
"""

from __future__ import annotations

import ctypes
import datetime as dt
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

NS_PER_S: Final = 1_000_000_000


class Clock(Protocol):
    """A clock whose name goes into the provenance of its stamps."""

    name: str

    def now_ns(self) -> int:
        """The reading in nanoseconds since the clock's own, arbitrary start."""
        ...


class MonotonicRaw:
    """CLOCK_MONOTONIC_RAW; one time line per boot of a host."""

    name = "CLOCK_MONOTONIC_RAW"

    def now_ns(self) -> int:
        """Nanoseconds since the host's boot, not adjusted by NTP."""
        return time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)


def time_line() -> str:
    """The time line of this process's CLOCK_MONOTONIC_RAW: boot and time namespace.

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


# asyncio's own timers end in epoll_wait(2), which counts whole milliseconds; a byte at 115200 Bd takes 0.087 ms.
# The standard library has timerfd from Python 3.13 on; ctypes serves all versions the same.


_TFD_NONBLOCK = os.O_NONBLOCK  # linux/timerfd.h
_TFD_CLOEXEC = os.O_CLOEXEC
_TFD_TIMER_ABSTIME = 1


class _Timespec(ctypes.Structure):
    _fields_ = (("tv_sec", ctypes.c_long), ("tv_nsec", ctypes.c_long))


class _Itimerspec(ctypes.Structure):
    _fields_ = (("it_interval", _Timespec), ("it_value", _Timespec))


class TimerFd:
    """A timer on CLOCK_MONOTONIC with a descriptor.

    The descriptor is readable from its expiry until it is set again or read.

    Raises:
        OSError: the kernel gives no timer.
    """

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd = self._libc.timerfd_create(time.CLOCK_MONOTONIC, _TFD_NONBLOCK | _TFD_CLOEXEC)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")
        self._spec = _Itimerspec()
        self._spec_pointer = ctypes.byref(self._spec)

    def fileno(self) -> int:
        """The descriptor to wait on."""
        return int(self._fd)

    def start(self, delay_ns: int) -> None:
        """Expire once, `delay_ns` from now; replaces the earlier setting."""
        self._set(0, delay_ns, 0)

    def start_at(self, t_ns: int, period_ns: int) -> None:
        """Expire at `t_ns` of CLOCK_MONOTONIC, then each period; replaces earlier settings."""
        self._set(_TFD_TIMER_ABSTIME, t_ns, period_ns)

    def expiries(self) -> int:
        """Number of expiries since it was last set or read.

        Raises:
            BlockingIOError: none.
        """
        return int.from_bytes(os.read(self._fd, 8), "little")

    def stop(self) -> None:
        """Never expire."""
        self._spec.it_value.tv_sec = self._spec.it_value.tv_nsec = 0
        self._arm(0)

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self._fd)

    def _set(self, flags: int, first_ns: int, period_ns: int) -> None:
        first, again = self._spec.it_value, self._spec.it_interval
        first.tv_sec, first.tv_nsec = divmod(max(first_ns, 1), NS_PER_S)
        again.tv_sec, again.tv_nsec = divmod(period_ns, NS_PER_S)
        self._arm(flags)

    def _arm(self, flags: int) -> None:
        if self._libc.timerfd_settime(self._fd, flags, self._spec_pointer, None) < 0:
            raise OSError(ctypes.get_errno(), "timerfd_settime")


# CLOCK_MONOTONIC_RAW does not count the time in which a host is suspended, and CLOCK_BOOTTIME does (clock_gettime(2)).
# NTP slews the one and not the other, by at most 500 ppm (ntp_adjtime(2)); what they drift apart beyond that is a
# jump. A virtual machine that is paused from outside sees nothing of it on any clock; there only the board's own clock
# tells (`lab.console.printk`), and bytes that come too soon (`lab.console.moments`). Where somebody sets the wall
# clock as it goes on, as agents of hypervisors do, CLOCK_REALTIME jumps. It may be slewed faster than the others
# (chrony: 83333 ppm), so that only a jump between two looks counts. Who sets it for another reason during a boot loses
# that attempt.


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
    """A monitor of the stamping clock against the wall clock."""
    return ClockMonitor(clock, time.time_ns, WALL_TOLERANCE_NS, WALL_SLEW_LIMIT, compared_ns=0)


class ClockMonitor:
    """Compares the stamping clock with one that runs during suspends."""

    def __init__(
        self,
        clock: Clock,
        other: Callable[[], int] = boottime_ns,
        tolerance_ns: int = TOLERANCE_NS,
        slew_limit: float = SLEW_LIMIT,
        compared_ns: int = COMPARED_NS,
    ) -> None:
        """Start the comparison; it begins anew after `compared_ns`."""
        self._clock = clock
        self._other = other
        self._tolerance_ns = tolerance_ns
        self._slew_limit = slew_limit
        self._compared_ns = compared_ns
        self._reference = self._both()

    def missing_ns(self) -> int:
        """Time lost by the stamping clock since the last call; 0: none."""
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
        """Both clocks at about the same instant, by the closest try."""
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
