"""Processes that stand for hardware: they take a core only when nobody else wants it."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
from pathlib import Path

from attrs import frozen

_HIERARCHIES = (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/cpu"))  # of version 2, and of version 1
_NAME = "boardlab-bench"


@frozen
class Core:
    """Where they run.

    Attributes:
        busy: the machine has other work, beside which an idle group would never run: they get the lowest real-time priority instead, and
            the kernel's workers wait for them.
    """

    number: int
    busy: bool = False


def stand_aside(core: Core, pid: int) -> None:
    """Keep another process to one core, and there below everybody else, such as the kernel's tty worker.

    SCHED_IDLE alone is below the other processes of the same session (autogroup) or control group, but not below the
    kernel's workers, which are in none (sched(7)). So the process gets a control group of its own, directly below the
    root, that is idle as a whole (cpu.idle in Documentation/admin-guide/cgroup-v2.rst).
    """
    os.sched_setaffinity(pid, {core.number})
    if core.busy:
        os.sched_setscheduler(pid, os.SCHED_RR, os.sched_param(1))
        return
    os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0))
    try:
        group = _idle_group()
        (group / "cgroup.procs").write_text(str(pid), encoding="ascii")
    except OSError as error:
        print(f"pid {pid} takes time from the kernel's workers on its core: {error}", file=sys.stderr)


def _idle_group() -> Path:
    """The control group, made when it is not there; whoever made it removes it at its end.

    Raises:
        OSError: the kernel or our privileges do not allow it.
    """
    for hierarchy in _HIERARCHIES:
        if not (hierarchy / "cgroup.procs").exists():
            continue
        group = hierarchy / _NAME
        if not group.exists():
            group.mkdir()
            atexit.register(_remove, group)
        if (group / "cpu.idle").exists():
            (group / "cpu.idle").write_text("1", encoding="ascii")
            return group
    raise FileNotFoundError("no control group here has cpu.idle; it needs Linux 5.15 and the cpu controller")


def _remove(group: Path) -> None:
    """Remove it, unless a process is still in it."""
    with contextlib.suppress(OSError):
        group.rmdir()
