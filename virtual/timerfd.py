"""A Linux timer as a file descriptor (timerfd_create(2)).

asyncio's own timers end in epoll_wait(2), which counts whole milliseconds; a byte at 115200 baud takes 0.087 ms.
The standard library has timerfd from Python 3.13 on; ctypes serves all versions the same.
"""

from __future__ import annotations

import ctypes
import os
import time

_TFD_NONBLOCK = os.O_NONBLOCK  # linux/timerfd.h
_TFD_CLOEXEC = os.O_CLOEXEC
_NS = 1_000_000_000


class _Timespec(ctypes.Structure):
    _fields_ = (("tv_sec", ctypes.c_long), ("tv_nsec", ctypes.c_long))


class _Itimerspec(ctypes.Structure):
    _fields_ = (("it_interval", _Timespec), ("it_value", _Timespec))


class TimerFd:
    """A one-shot timer; its descriptor is readable from its expiry until it is set again."""

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
        value = self._spec.it_value
        value.tv_sec, value.tv_nsec = divmod(max(delay_ns, 1), _NS)
        self._set()

    def stop(self) -> None:
        """Never expire."""
        self._spec.it_value.tv_sec = self._spec.it_value.tv_nsec = 0
        self._set()

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self._fd)

    def _set(self) -> None:
        if self._libc.timerfd_settime(self._fd, 0, self._spec_pointer, None) < 0:
            raise OSError(ctypes.get_errno(), "timerfd_settime")
