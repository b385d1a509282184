"""Being awake when a byte arrives: the priority of the reading process, and evidence of when it was not enough.

The evidence is written beside the stamps (`Lateness`), so that each moment's ± can say what really happened:

- how late a timer of 20 Hz woke the process, which also sees the whole host stand still;
- how long it slept beyond the time at which it wanted to look again, as one that was stopped does;
- how long the process stood in the kernel's run queue, from /proc/self/schedstat (Documentation/scheduler/sched-stats);
- how long the process itself was busy between two looks at its ports;
- how long a byte of its own took through the kernel's tty layer (`lab.console.ttylatency`).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import time
from pathlib import Path

from attrs import frozen

from lab.host.clock import NS_PER_S
from lab.host.timerfd import TimerFd

PRIORITY = 10  # any SCHED_FIFO priority goes before all ordinary processes; the kernel's own threads stay above
REALTIME_ALLOWANCE_NS = 300_000  # from a UART's interrupt to the stamp under SCHED_FIFO, see bench/stamps.py
ORDINARY_ALLOWANCE_NS = 1_000_000  # an ordinary process may wait for another one's time slice
EVIDENCE_NS = 200_000  # less lateness is not worth a record: the smallest allowance covers it
HEARTBEAT_NS = NS_PER_S // 20
STOPPED_NS = 5_000_000  # longer than a wake-up ever takes by itself: this process, or its host, stood still
EPOLL_STEP_NS = 1_000_000  # epoll_wait(2) counts milliseconds

_MCL_CURRENT = 1  # <sys/mman.h>
_PR_SET_TIMERSLACK = 29  # <linux/prctl.h>
_libc = ctypes.CDLL(None, use_errno=True)


@frozen
class Scheduling:
    """What the reading process got.

    Attributes:
        text: in words, for the recordings.
        allowance_ns: how late its stamps may be without leaving evidence.
    """

    text: str
    allowance_ns: int


def raise_priority() -> Scheduling:
    """Take the best scheduling that this process is permitted, and keep its memory in RAM."""
    _libc.prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)
    locked = "memory locked" if _libc.mlockall(_MCL_CURRENT) == 0 else "memory not locked"
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(PRIORITY))
    except PermissionError:
        with contextlib.suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, 0, -20)
        nice = os.getpriority(os.PRIO_PROCESS, 0)
        return Scheduling(f"SCHED_OTHER, nice {nice}, {locked}", ORDINARY_ALLOWANCE_NS)
    return Scheduling(f"SCHED_FIFO {PRIORITY}, {locked}", REALTIME_ALLOWANCE_NS)


def stood_still_ns(slept_ns: int, patience_s: float | None, beat_ns: int) -> int:
    """How long a byte can have waited for this process because it stood still in its sleep; 0: it did not.

    It knows when it should have woken, but not when it was stopped: that may have been as soon as it fell asleep. What is
    much shorter than a sleep is taken for twice what is seen of it.

    Args:
        slept_ns: between two looks. patience_s: how long it wanted to sleep at most; None: until something comes.
        beat_ns: how late it noticed the heartbeat.
    """
    late_ns = beat_ns if patience_s is None else max(beat_ns, slept_ns - round(patience_s * NS_PER_S) - EPOLL_STEP_NS)
    return min(2 * late_ns, slept_ns) if late_ns > STOPPED_NS else 0


class RunQueue:
    """How long this process was ready to run and did not."""

    def __init__(self, path: Path = Path("/proc/self/schedstat")) -> None:
        """Kernels without CONFIG_SCHED_INFO have no such file; then there is no evidence of this kind."""
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            self._fd = -1
        self._last_ns = self._read()

    def waited_ns(self) -> int:
        """Nanoseconds in the run queue since the last call."""
        now = self._read()
        waited, self._last_ns = now - self._last_ns, now
        return waited

    def _read(self) -> int:
        return int(os.pread(self._fd, 64, 0).split()[1]) if self._fd >= 0 else 0


class Heartbeat:
    """A timer of 20 Hz that knows when it should have rung.

    Attributes:
        fd: readable when it has rung.
    """

    def __init__(self, period_ns: int = HEARTBEAT_NS) -> None:
        """Start it; the first beat is one period from now."""
        self._period_ns = period_ns
        self._next_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC) + period_ns
        self._timer = TimerFd()
        self._timer.start_at(self._next_ns, period_ns)
        self.fd = self._timer.fileno()

    def beat(self) -> int:
        """How late the process noticed the first of the beats since the last call, in nanoseconds."""
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        beats = self._timer.expiries()
        late = now - self._next_ns
        self._next_ns += beats * self._period_ns
        return late

    def close(self) -> None:
        """Stop it."""
        self._timer.close()
