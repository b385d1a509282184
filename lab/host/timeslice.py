"""How long a thread runs before another one's turn, without having more or less of the processor in all.

Since Linux 6.6 the kernel lets a task that runs use up its time slice, some milliseconds, before one that wakes has its turn (EEVDF); and of
those that wait, one with a short slice has its turn first. Since 6.12 a thread may choose its own slice (sched_setattr(2), `sched_runtime`),
and needs no privilege for it. A short one makes it interruptible soon, and prompt on a busy host; a long one the contrary.
Earlier kernels take the call without any effect; before 6.6 whoever wakes goes first anyway.
"""

from __future__ import annotations

import ctypes
import os
import platform
from typing import Final

SHORTEST_NS: Final = 100_000  # the kernel gives no shorter one,
LONGEST_NS: Final = 100_000_000  # and no longer one
_RESET_ON_FORK: Final = 0x01  # SCHED_FLAG_RESET_ON_FORK, <linux/sched.h>
_CALLS: Final = {"x86_64": (314, 315), "aarch64": (274, 275), "riscv64": (274, 275)}  # sched_setattr, sched_getattr
_libc = ctypes.CDLL(None, use_errno=True)


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
    """The time slice of this thread, in nanoseconds; 0: it is not an ordinary one, or its kernel does not say."""
    found = _attributes()
    return found.runtime if found is not None and found.policy == os.SCHED_OTHER else 0


def choose_slice(ns: int) -> None:
    """Give this thread a slice, where it is an ordinary one. Threads and processes that it starts have the usual one."""
    found = _attributes()
    if found is not None and found.policy == os.SCHED_OTHER:
        found.runtime, found.flags = ns, found.flags | _RESET_ON_FORK
        call, _ = _CALLS[platform.machine()]
        _libc.syscall(call, 0, ctypes.byref(found), 0)  # where it is refused, all is as before


def _attributes() -> _Attributes | None:
    calls, found = _CALLS.get(platform.machine()), _Attributes()
    if calls is None or _libc.syscall(calls[1], 0, ctypes.byref(found), ctypes.sizeof(found), 0):
        return None
    return found
