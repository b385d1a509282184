"""A time limit for calls that have none: blocking HTTP, ssh and serial calls of labgrid's drivers.

The call is interrupted by a timer's signal rather than left behind in a thread: a call that is left behind goes on later,
e.g. connects at last and moves a strap in the middle of another boot, and labgrid's stack of steps knows no threads. What
is interrupted unwinds as with Ctrl-C: sockets are closed, and programs that it has started are killed.

Signals reach the main thread only; in any other one a call has no limit but its own. Nothing interrupts a call that hangs
inside the kernel (state D of ps(1)).
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import TypeVar

AGAIN_S = 1.0  # rings again where a library has swallowed the interruption
_LEAST_S = 1e-3  # of a timer: zero would switch it off

Result = TypeVar("Result")


class TimeLimitError(Exception):
    """The call did not end within its limit."""


class _RingError(BaseException):
    """Interrupts a call; no Exception, so that no library takes it for a failed connection."""


def within(limit_s: float, work: Callable[[], Result]) -> Result:
    """The result of `work`, which has this many seconds.

    A timer that somebody set before (an outer limit, pytest-timeout) goes on counting, and rings first where it is due
    first.

    Raises:
        TimeLimitError: it did not end in time; programs that it started meanwhile are killed.
    """
    if threading.current_thread() is not threading.main_thread():
        return work()
    outer_s = signal.getitimer(signal.ITIMER_REAL)[0]
    if 0 < outer_s <= limit_s:
        return work()
    return _limited(limit_s, work, outer_s)


def _limited(limit_s: float, work: Callable[[], Result], outer_s: float) -> Result:
    ring = _RingError()
    listening, rung = True, False

    def rings(_number: int, _frame: FrameType | None) -> None:
        nonlocal rung
        if listening:
            rung = True
            raise ring

    before, children = signal.signal(signal.SIGALRM, rings), _children()
    began = time.monotonic()
    _, outer_again_s = signal.setitimer(signal.ITIMER_REAL, limit_s, AGAIN_S)
    try:
        try:
            return work()
        finally:
            listening = False
    except BaseException as error:
        if not rung or isinstance(error, KeyboardInterrupt):
            raise
        _kill(_children() - children)
        raise TimeLimitError(f"did not end within {limit_s:g} s") from error
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if outer_s:
            left_s = outer_s - (time.monotonic() - began)
            signal.setitimer(signal.ITIMER_REAL, max(_LEAST_S, left_s), outer_again_s)


def _children() -> frozenset[int]:
    """The programs that this thread has started and that have not been waited for; proc_pid_task(5)."""
    try:
        text = Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text(encoding="ascii")
    except OSError:  # a kernel without CONFIG_PROC_CHILDREN
        return frozenset()
    return frozenset(map(int, text.split()))


def _kill(pids: frozenset[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)  # `subprocess` waits for them
