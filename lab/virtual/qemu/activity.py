"""Activity of a QEMU board, from console and CPU time.

Its rails show it.

A sleeping and an idle board take the same, next to nothing. So its console tells the sleep and its mode: the kernel's
line, or the command for it. It sleeps when it falls still after them, and it is awake when it says something or takes
CPU time again. A board that a busy host does not let run is not still: it wants to run.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from lab.host.clock import Clock
from lab.virtual.rails.levels import BOOT, BUSY, IDLE, OFF

LOOK_S: Final = 0.05
_BUSY_SHARE: Final = 0.5  # of one core
_STILL_NS: Final = 4_000_000  # between two looks; timers of an idle QEMU take up to 1.5 ms
_STILL_WAIT_NS: Final = 6_000_000  # that these timers wait for a core of a busy host
_ASLEEP_LOOKS: Final = 2
_MODES: Final = {
    b"deep": "deep_sleep",
    b"mem": "deep_sleep",
    b"shallow": "mcu_only",
    b"standby": "mcu_only",
    b"s2idle": "mcu_only",
    b"freeze": "mcu_only",
}
_ENTRY: Final = re.compile(
    rb"PM: suspend entry \((deep|shallow|s2idle)\)|echo (?:-n )?(mem|standby|freeze) *> */sys/power/state"
)
_LOGIN: Final = re.compile(rb"login: |# $")
_KEPT_BYTES: Final = 200


class _Taken(NamedTuple):
    """Running and waiting time of QEMU's threads.

    The last field: one waits or runs now (proc(5), /proc/PID/task).
    """

    ran_ns: int
    waited_ns: int
    runnable: bool


class Activity:
    """Watches one power cycle.

    Args:
        tasks: the threads of QEMU, /proc/PID/task.
        on_state: gets each state and the instant from which on it holds.
    """

    def __init__(self, tasks: Path, clock: Clock, on_state: Callable[[str, int], None]) -> None:
        self._clock = clock
        self._on_state = on_state
        self._tasks = tasks
        self._text = b""
        self._booted = False
        self._mode = ""  # that it was told to enter, and is in when it falls still
        self._still = 0
        self._asleep = False
        self._last = self._taken()
        self._looked_ns = clock.now_ns()
        on_state(BOOT, self._looked_ns)
        self._task = asyncio.get_running_loop().create_task(self._watch())

    def said(self, data: bytes) -> None:
        """The board speaks."""
        if self._asleep:
            self._awake()
        self._look_for_mode(data)
        self._booted = self._booted or _LOGIN.search(self._text) is not None

    def typed(self, data: bytes) -> None:
        """Somebody types."""
        self._look_for_mode(data)

    def close(self) -> None:
        """The board has no power any more."""
        self._task.cancel()
        self._on_state(OFF, self._clock.now_ns())

    def look(self) -> None:
        """Sample QEMU's CPU time since the last look."""
        now_ns, taken = self._clock.now_ns(), self._taken()
        ran = taken.ran_ns - self._last.ran_ns
        waited = taken.waited_ns - self._last.waited_ns
        share = (ran + waited) / max(1, now_ns - self._looked_ns)
        wants = taken.runnable or waited >= _STILL_WAIT_NS  # a wait is counted when it ends
        still = ran < _STILL_NS and (self._asleep or not wants)
        self._last, self._looked_ns = taken, now_ns
        self._on_state(self._state(still, share), now_ns)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            self.look()

    def _look_for_mode(self, data: bytes) -> None:
        self._text = (self._text + data)[-_KEPT_BYTES:]
        found = _ENTRY.search(self._text)
        if found:
            self._mode, self._still = _MODES[found[1] or found[2]], 0
            self._text = b""

    def _awake(self) -> None:
        self._asleep, self._mode = False, ""
        self._on_state(IDLE, self._clock.now_ns())

    def _state(self, still: bool, share: float) -> str:
        self._still = self._still + 1 if still else 0
        if self._mode and self._still >= _ASLEEP_LOOKS:
            self._asleep = True
            return self._mode
        if self._asleep:
            self._asleep, self._mode = False, ""
        return (BUSY if share > _BUSY_SHARE else IDLE) if self._booted else BOOT

    def _taken(self) -> _Taken:
        ran = waited = 0
        runnable = False
        with contextlib.suppress(OSError, ValueError, IndexError):  # it ends, or a thread does
            for task in self._tasks.iterdir():
                words = (task / "schedstat").read_text().split()
                ran += int(words[0])
                waited += int(words[1])
                runnable |= (task / "stat").read_text().rpartition(")")[2].split()[0] == "R"
        return _Taken(ran, waited, runnable)
