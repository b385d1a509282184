"""Which process this is, in a form that tells later, on the same host, whether it has died."""

from __future__ import annotations

import os
import pwd
import resource
import signal
import socket
from pathlib import Path
from typing import Final

from attrs import frozen

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


# --- Whose a process is, in the words by which others of the lab know that person ---


_NOBODY_LOGGED_IN: Final = 0xFFFFFFFF  # of a process that no login started, proc_pid_loginuid(5)
_PROGRAM_CHARACTERS: Final = 60


def person_of(pid: int, proc: Path = PROC) -> str:
    """Who started a process: the user who logged in, also where a shared account runs it; else its owner. Empty: it is gone."""
    try:
        uid = (proc / str(pid)).stat().st_uid
    except OSError:
        return ""
    try:
        login = int((proc / str(pid) / "loginuid").read_text("ascii"))
    except (OSError, ValueError):  # a kernel without audit
        login = _NOBODY_LOGGED_IN
    return user_name(uid if login == _NOBODY_LOGGED_IN else login)


def user_name(uid: int) -> str:
    """A user's name; the number where none is known."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def program(pid: int, proc: Path = PROC) -> str:
    """What a process runs, in a word or two, e.g. `lab console attach`; empty: it is gone."""
    try:
        words = (proc / str(pid) / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")[:-1]
        if not words:
            return (proc / str(pid) / "comm").read_text("utf-8", "replace").strip()
    except OSError:
        return ""
    if Path(words[0]).name.startswith("python"):
        words = _script(words[1:]) or words[:1]
    plain = [word for word in words[1:3] if word.isalpha()]
    return " ".join([Path(words[0]).name, *plain])[:_PROGRAM_CHARACTERS]


def described(pid: int, proc: Path = PROC) -> str:
    """For a message: `ada (lab console attach, pid 4711)`."""
    who, what = person_of(pid, proc), program(pid, proc)
    inside = ", ".join(part for part in (what, f"pid {pid}") if part)
    return f"{who} ({inside})" if who else f"pid {pid}"


def _script(words: list[str]) -> list[str]:
    """What an interpreter of Python was given to run: a file, or `-m MODULE`."""
    for at, word in enumerate(words):
        if word == "-m":
            return words[at + 1 :]
        if word == "-c":
            return []
        if not word.startswith("-"):
            return words[at:]
    return []


# --- How busy this host's processors are: proc_stat(5) ---


STAT = Path("/proc/stat")


@frozen
class CpuTimes:
    """Time of all processors together since the host booted, in ticks of the kernel.

    Attributes:
        total: of every kind; idle: of those in which nothing ran (idle and iowait).
    """

    total: int
    idle: int

    def busy_since(self, earlier: CpuTimes) -> float | None:
        """The share of time in which something ran, 0 to 1; None where no tick has passed."""
        total = self.total - earlier.total
        return None if total <= 0 else min(1.0, max(0.0, 1 - (self.idle - earlier.idle) / total))


def cpu_times(stat: Path = STAT) -> CpuTimes | None:
    """The times until now; None where the kernel does not say."""
    try:
        words = stat.read_text("ascii").splitlines()[0].split()
        times = [int(word) for word in words[1:9]]  # guest time, which follows, is counted in user time
    except (OSError, ValueError, IndexError):
        return None
    return CpuTimes(sum(times), sum(times[3:5])) if len(times) == 8 else None
