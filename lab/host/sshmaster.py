"""ssh masters of this host that hang: found by their control socket, and killed.

A master that is stopped, or hangs in the kernel, answers no `ssh -O exit`, and its own time-outs do not run.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Final

from lab.host.process import PROC

GONE_S: Final = 5.0  # for the kernel to end what it has been told to kill


def kill(control: Path, proc: Path = PROC) -> list[int]:
    """Kill this user's masters of a control socket; which they were. None where they are in a container that this process does not see."""
    return [pid for pid in _masters(control, proc) if _killed(pid, control, proc)]


def _killed(pid: int, control: Path, proc: Path) -> bool:
    with suppress(OSError), _opened(pid) as process:
        if _is_master(pid, control, proc):  # still: another process may have got its number
            signal.pidfd_send_signal(process, signal.SIGKILL)
            select.select([process], [], [], GONE_S)
            return True
    return False


def _masters(control: Path, proc: Path) -> list[int]:
    return [
        int(entry.name) for entry in proc.iterdir() if entry.name.isdecimal() and _is_master(entry.name, control, proc)
    ]


def _is_master(pid: int | str, control: Path, proc: Path) -> bool:
    """Whether it was started as that master, or calls itself so (ssh.c, where ControlPersist makes it one); its sessions are none."""
    entry = proc / str(pid)
    try:
        if entry.stat().st_uid != os.getuid():
            return False
        words = (entry / "cmdline").read_bytes().split(b"\0")
    except OSError:  # it ended just now
        return False
    path = os.fsencode(control)
    if words[0].startswith(b"ssh: " + path + b" [mux]"):
        return True
    return b"-M" in words and (b"-S", path) in pairwise(words)


@contextmanager
def _opened(pid: int) -> Iterator[int]:
    process = os.pidfd_open(pid)
    try:
        yield process
    finally:
        os.close(process)
