"""Which process this is, in a form that tells later, on the same host, whether it has died."""

from __future__ import annotations

import os
import pwd
import resource
import signal
import socket
from pathlib import Path
from typing import Final

PROC: Final = Path("/proc")
PERSON_VARIABLE: Final = "BOARDLAB_PERSON"  # how `lab web` tells a program whose it is
_MANY_FILES: Final = 1 << 16
_START: Final = 19  # of starttime among the fields after the command's name, proc(5)
_STOPPED: Final = "T"  # of the state, the first of these fields; "t" is a debugger's
_PARTS: Final = 4  # of an identity


def identity(proc: Path = PROC) -> str:
    """This process: host, boot, process id, start."""
    return f"{socket.gethostname()}/{_boot(proc)}/{os.getpid()}/{_start(os.getpid(), proc) or ''}"


def person() -> str:
    """For whom this process works: who asked `lab web` for it, else its user's name, or number where that has no name."""
    if asked := os.environ.get(PERSON_VARIABLE):
        return asked
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def open_many_files() -> int:
    """Let this process have as many open files as it may, at most 65536; shells and systemd allow 1024 unless they are asked. Returns: how many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MANY_FILES if hard == resource.RLIM_INFINITY else min(hard, _MANY_FILES)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def ask_to_end(who: str, proc: Path = PROC) -> bool:
    """Send SIGTERM to that process; False: it is not on this host, has died, or belongs to another user."""
    if has_died(who, proc) is not False:
        return False
    try:
        os.kill(int(who.rsplit("/", 2)[1]), signal.SIGTERM)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def go_on(pid: int, proc: Path = PROC) -> bool:
    """Have a child of this process go on that a signal has stopped (SIGSTOP); False: it was not stopped."""
    if (_fields(pid, proc) or [""])[0] != _STOPPED:
        return False
    os.kill(pid, signal.SIGCONT)
    return True


def has_died(who: str, proc: Path = PROC) -> bool | None:
    """Whether that process has died: its host booted again, or its process is no more.

    None: it cannot be told, since it is another host's, or another user's that /proc hides (hidepid of proc(5)).
    """
    host, boot, pid, start = who.rsplit("/", 3) if who.count("/") >= _PARTS - 1 else ("", "", "", "")
    if host != socket.gethostname() or not pid.isdecimal():
        return None
    if boot != _boot(proc):
        return True
    began = _start(int(pid), proc)
    return (None if _lives(int(pid)) else True) if began is None else start != began


def _boot(proc: Path) -> str:
    return (proc / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def _lives(pid: int) -> bool:
    """Whether there is a process of that number, whoever's it is."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (ProcessLookupError, OverflowError):
        return False
    return True


def _start(pid: int, proc: Path) -> str | None:
    """When the process was started, in ticks since the boot: process ids are used again.

    Empty: it has ended, and its parent has not looked yet. None: nothing is seen of it.
    """
    fields = _fields(pid, proc)
    if fields is None:
        return None
    return "" if fields[0] == "Z" else fields[_START]


def _fields(pid: int, proc: Path) -> list[str] | None:
    """What the kernel says of a process, behind the command's name; None: nothing is seen of it."""
    try:
        return (proc / str(pid) / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
