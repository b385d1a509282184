"""Priority of the reading process, and evidence of its delays.

The evidence is written beside the stamps (`Lateness`), so that each moment's ± covers the real delay:

- how late a timer of 20 Hz woke the process, which also sees the whole host stand still;
- how long it slept beyond the time at which it wanted to look again, as one that was stopped does;
- how long the process stood in the kernel's run queue, from /proc/self/schedstat
(Documentation/scheduler/sched-stats);
- how long the process itself was busy between two looks at its ports;
- how long a byte of its own took through the kernel's tty layer (`lab.console.loop`).
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import platform
import time
from pathlib import Path
from typing import Final

from attrs import frozen

from lab.host.clock import NS_PER_S, TimerFd

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
    """The scheduling of the reading process.

    Attributes:
        text: for the recordings.
        allowance_ns: maximum lateness of its stamps without evidence.
    """

    text: str
    allowance_ns: int


def raise_priority() -> Scheduling:
    """Take the best permitted scheduling, and lock memory in RAM."""
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
    """Maximum wait of a byte for this process's stopped sleep; 0: none.

    The process knows when it should have woken, but not when it was stopped: perhaps as soon as it fell asleep. A stop
    much shorter than a sleep counts as twice its visible part.

    Args:
        slept_ns: between two looks.
        patience_s: the limit of the sleep; None: until an event.
        beat_ns: delay of the heartbeat's notice.
    """
    late_ns = beat_ns if patience_s is None else max(beat_ns, slept_ns - round(patience_s * NS_PER_S) - EPOLL_STEP_NS)
    return min(2 * late_ns, slept_ns) if late_ns > STOPPED_NS else 0


class RunQueue:
    """The time that this process waited in the run queue."""

    def __init__(self, path: Path = Path("/proc/self/schedstat")) -> None:
        """Open schedstat; without it (no CONFIG_SCHED_INFO) there is no evidence."""
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            self._fd = -1
        self._last_ns = self._read()

    def take_wait_ns(self) -> int:
        """Nanoseconds in the run queue since the last call."""
        now = self._read()
        waited, self._last_ns = now - self._last_ns, now
        return waited

    def _read(self) -> int:
        return int(os.pread(self._fd, 64, 0).split()[1]) if self._fd >= 0 else 0


class Heartbeat:
    """A 20 Hz timer that measures how late it fires.

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
        """Delay of the first unnoticed beat, in nanoseconds."""
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        beats = self._timer.expiries()
        late = now - self._next_ns
        self._next_ns += beats * self._period_ns
        return late

    def close(self) -> None:
        """Stop it."""
        self._timer.close()


# Since Linux 6.6 the kernel lets a task that runs use up its time slice, some milliseconds, before one that wakes has
# its turn (EEVDF); and of those that wait, one with a short slice has its turn first. Since 6.12 a thread may choose
# its own slice (sched_setattr(2), `sched_runtime`), and needs no privilege for it. A short one makes it interruptible
# soon, and prompt on a busy host; a long one the contrary. Earlier kernels take the call without any effect; before
# 6.6 a waking thread goes first anyway.


SHORTEST_NS: Final = 100_000  # the kernel gives no shorter one,
LONGEST_NS: Final = 100_000_000  # and no longer one
_RESET_ON_FORK: Final = 0x01  # SCHED_FLAG_RESET_ON_FORK, <linux/sched.h>
_CALLS: Final = {"x86_64": (314, 315), "aarch64": (274, 275), "riscv64": (274, 275)}  # sched_setattr, sched_getattr


class _Attributes(ctypes.Structure):
    """struct sched_attr, <linux/sched/types.h>, in its first form."""

    _fields_ = (
        ("size", ctypes.c_uint32),
        ("policy", ctypes.c_uint32),
        ("flags", ctypes.c_uint64),
        ("nice", ctypes.c_int32),
        ("priority", ctypes.c_uint32),
        ("runtime", ctypes.c_uint64),
        ("deadline", ctypes.c_uint64),
        ("period", ctypes.c_uint64),
    )


def slice_ns() -> int:
    """This thread's time slice in nanoseconds; 0: not ordinary, or unknown."""
    attributes = _read_attributes()
    return attributes.runtime if attributes is not None and attributes.policy == os.SCHED_OTHER else 0


def choose_slice(ns: int) -> None:
    """Set an ordinary thread's time slice; its children get the usual one."""
    attributes = _read_attributes()
    if attributes is not None and attributes.policy == os.SCHED_OTHER:
        attributes.runtime, attributes.flags = ns, attributes.flags | _RESET_ON_FORK
        call, _ = _CALLS[platform.machine()]
        _libc.syscall(call, 0, ctypes.byref(attributes), 0)  # where it is refused, all is as before


def _read_attributes() -> _Attributes | None:
    calls, attributes = _CALLS.get(platform.machine()), _Attributes()
    if calls is None or _libc.syscall(calls[1], 0, ctypes.byref(attributes), ctypes.sizeof(attributes), 0):
        return None
    return attributes


# A processor that sleeps deeply takes some ten to some hundred microseconds to wake when a byte arrives, or a timer
# rings. A process that holds /dev/cpu_dma_latency open with the value 0 forbids that for the whole host
# (Documentation/power/pm_qos_interface.rst of the kernel); cyclictest does the same. It costs power, so it is held
# only as long as a port has a writer, or rails are sampled a thousand times a second.


DEVICE = Path("/dev/cpu_dma_latency")
_NO_LATENCY = bytes(4)  # s32, in microseconds
_log = logging.getLogger(__name__)


class IdleStates:
    """A ban of deep idle states, which ends with this process."""

    def __init__(self, device: Path = DEVICE) -> None:
        """Nothing is forbidden yet."""
        self._device = device
        self._fd: int | None = None
        self._refused = False

    @property
    def forbidden(self) -> bool:
        """True while deep idle states are forbidden."""
        return self._fd is not None

    def forbid(self, forbidden: bool) -> None:
        """Forbid or allow deep idle states, if the device may be opened."""
        if forbidden and self._fd is None and not self._refused:
            try:
                self._fd = os.open(self._device, os.O_WRONLY | os.O_CLOEXEC)
            except OSError as error:
                self._refused = True
                _log.info("%s: %s; processors may sleep deeply while measuring", self._device, error.strerror)
            else:
                os.write(self._fd, _NO_LATENCY)
        elif not forbidden and self._fd is not None:
            os.close(self._fd)
            self._fd = None
