"""Identities of processes, which tell later whether they have died."""

from __future__ import annotations

import ctypes
import os
import pwd
import resource
import signal
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any, Final

import psutil
from attrs import frozen

PROC: Final = Path("/proc")
PERSON_VARIABLE: Final = "BOARDLAB_PERSON"  # set by `lab web` for its programs
_MANY_FILES: Final = 1 << 16
_M_ARENA_MAX: Final = -8  # of malloc.h
_START: Final = 19  # of starttime among the fields after the command's name, proc(5)
_PARTS: Final = 4  # of an identity
_NOBODY_LOGGED_IN: Final = 0xFFFFFFFF  # of a process that no login started, proc_pid_loginuid(5)
_PROGRAM_CHARACTERS: Final = 60
ENDING: Final = (signal.SIGTERM, signal.SIGINT)  # of `systemctl stop` and of Ctrl-C


@contextmanager
def handling(handlers: Mapping[signal.Signals, Callable[[int, FrameType | None], Any]]) -> Iterator[None]:
    """Handle signals during the block; the earlier handlers come back."""
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def identity(proc: Path = PROC) -> str:
    """This process: host, boot, process id, start."""
    return f"{socket.gethostname()}/{_boot(proc)}/{os.getpid()}/{_start(os.getpid(), proc) or ''}"


def person() -> str:
    """The person for whom this process works.

    The one that `lab web` names, else the user's name or number.
    """
    return os.environ.get(PERSON_VARIABLE) or user_name(os.getuid())


def actor() -> str:
    """The person for the audit: the user, and whom it says to work for.

    The variable is anybody's to set, so it proves nothing: `lena (BOARDLAB_PERSON of root)`.
    """
    asked, user = os.environ.get(PERSON_VARIABLE), user_name(os.getuid())
    return user if asked in {None, "", user} else f"{asked} ({PERSON_VARIABLE} of {user})"


def user_name(uid: int) -> str:
    """A user's name, else the number."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def open_many_files() -> int:
    """Raise the limit of open files to at most 65536; return it.

    Shells and systemd allow 1024 by default.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MANY_FILES if hard == resource.RLIM_INFINITY else min(hard, _MANY_FILES)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def share_memory_of_threads() -> None:
    """Let all threads take memory from two arenas.

    glibc gives eight a core, which fill up one after the other. Threads of Python take turns, so none waits for an
    arena. Before the first thread; another libc than glibc has none (mallopt(3), M_ARENA_MAX).
    """
    with suppress(AttributeError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 2)


def ask_to_end(who: str, proc: Path = PROC) -> bool:
    """Send SIGTERM to a process; False: foreign or dead."""
    if has_died(who, proc) is not False:
        return False
    try:
        os.kill(int(who.rsplit("/", 2)[1]), signal.SIGTERM)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def go_on(pid: int) -> bool:
    """Continue a child stopped by SIGSTOP; False: it was not stopped."""
    child = psutil.Process(pid)
    if child.status() != psutil.STATUS_STOPPED:
        return False
    child.resume()
    return True


def has_died(who: str, proc: Path = PROC) -> bool | None:
    """True if the process has ended or its host has rebooted.

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
    """True if a process has that id, any user's."""
    try:  # by hand: psutil.pid_exists() takes a process that /proc hides for dead
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (ProcessLookupError, OverflowError):
        return False
    return True


def _start(pid: int, proc: Path) -> str | None:
    """Start of the process in ticks since boot: ids are reused.

    Empty: it has ended, and its parent has not waited for it yet. None: invisible.
    """
    # By hand: psutil's create_time() moves with the wall clock (its issue 711), and this is compared later.
    try:
        fields = (proc / str(pid) / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return "" if fields[0] == "Z" else fields[_START]


def person_of(pid: int) -> str:
    """The login user of a process, else its owner; empty: gone."""
    try:
        uid = psutil.Process(pid).uids().effective
        login = int((PROC / str(pid) / "loginuid").read_text("ascii"))  # psutil does not read it
    except psutil.Error:
        return ""
    except (OSError, ValueError):  # a kernel without audit
        login = _NOBODY_LOGGED_IN
    return user_name(uid if login == _NOBODY_LOGGED_IN else login)


def program(pid: int) -> str:
    """The command of a process, e.g. `lab console attach`; empty: gone."""
    try:
        process = psutil.Process(pid)
        return shorten(process.cmdline() or [process.name()])
    except psutil.Error:
        return ""


def shorten(argv: Sequence[str]) -> str:
    """The program of a command line, with its subcommands."""
    if Path(argv[0]).name.startswith("python"):
        argv = _script(argv[1:]) or argv[:1]
    plain = [word for word in argv[1:3] if word.isalpha()]
    return " ".join([Path(argv[0]).name, *plain])[:_PROGRAM_CHARACTERS]


def describe(pid: int) -> str:
    """A process for messages: `ada (lab console attach, pid 4711)`."""
    who, what = person_of(pid), program(pid)
    inside = ", ".join(part for part in (what, f"pid {pid}") if part)
    return f"{who} ({inside})" if who else f"pid {pid}"


def _script(arguments: Sequence[str]) -> Sequence[str]:
    """The script of a Python command line: a file, or `-m MODULE`."""
    for at, word in enumerate(arguments):
        if word == "-m":
            return arguments[at + 1 :]
        if word == "-c":
            return []
        if not word.startswith("-"):
            return arguments[at:]
    return []


@frozen
class CpuTimes:
    """Times of all processors since boot, in seconds.

    Attributes:
        total_s: of every kind.
        idle_s: of those in which nothing ran (idle and iowait).
    """

    total_s: float
    idle_s: float

    def busy_since(self, earlier: CpuTimes) -> float | None:
        """The busy share since then, 0 to 1; None: no tick passed."""
        total_s = self.total_s - earlier.total_s
        return None if total_s <= 0 else min(1.0, max(0.0, 1 - (self.idle_s - earlier.idle_s) / total_s))


def cpu_times() -> CpuTimes:
    """The current times."""
    times = psutil.cpu_times()
    guests_s = times.guest + times.guest_nice  # counted in user and nice, too
    return CpuTimes(sum(times) - guests_s, times.idle + times.iowait)
