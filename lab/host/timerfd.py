"""A Linux timer as a file descriptor (timerfd_create(2)).

asyncio's own timers end in epoll_wait(2), which counts whole milliseconds; a byte at 115200 Bd takes 0.087 ms.
The standard library has timerfd from Python 3.13 on; ctypes serves all versions the same.
"""

from __future__ import annotations

import ctypes
import os
import time

from lab.host.clock import NS_PER_S

_TFD_NONBLOCK = os.O_NONBLOCK  # linux/timerfd.h
_TFD_CLOEXEC = os.O_CLOEXEC
_TFD_TIMER_ABSTIME = 1


class _Timespec(ctypes.Structure):
    _fields_ = (("tv_sec", ctypes.c_long), ("tv_nsec", ctypes.c_long))


class _Itimerspec(ctypes.Structure):
    _fields_ = (("it_interval", _Timespec), ("it_value", _Timespec))


class TimerFd:
    """A timer on CLOCK_MONOTONIC; its descriptor is readable from its expiry until it is set again or read.

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
        """Expire once, `delay_ns` from now; replaces what was set and makes the descriptor unreadable until then."""
        self._set(0, delay_ns, 0)

    def start_at(self, t_ns: int, period_ns: int) -> None:
        """Expire at `t_ns` of CLOCK_MONOTONIC, and after each period from there; replaces what was set."""
        self._set(_TFD_TIMER_ABSTIME, t_ns, period_ns)

    def expiries(self) -> int:
        """How often it has expired since it was set or read last.

        Raises:
            BlockingIOError: not once.
        """
        return int.from_bytes(os.read(self._fd, 8), "little")

    def stop(self) -> None:
        """Never expire."""
        self._spec.it_value.tv_sec = self._spec.it_value.tv_nsec = 0
        self._arm(0)

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self._fd)

    def _set(self, flags: int, first_ns: int, period_ns: int) -> None:
        first, again = self._spec.it_value, self._spec.it_interval
        first.tv_sec, first.tv_nsec = divmod(max(first_ns, 1), NS_PER_S)
        again.tv_sec, again.tv_nsec = divmod(period_ns, NS_PER_S)
        self._arm(flags)

    def _arm(self, flags: int) -> None:
        if self._libc.timerfd_settime(self._fd, flags, self._spec_pointer, None) < 0:
            raise OSError(ctypes.get_errno(), "timerfd_settime")
