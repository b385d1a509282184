"""Other processes that hold a port.

Each byte of a tty goes to only one of its readers. /proc shows the open files of the user's own processes; those of
other users are hidden from all but root, so such a process is found only if its command line names the port.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shlex
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol

import psutil
from attrs import frozen

from lab.errors import BoardError, BoardlabError, LabTransientError, TestTransientError
from lab.host.process import PROC, user_name
from lab.host.runtime import runtime_dir, server_pid

AGAIN_S = 0.02  # until the second look
_SERVER: Final = "lab.console.server"  # the module, in the command line of a server that a client started
_MASTERS = ("/dev/ptmx", "/dev/pts/ptmx")  # of a pty; the kernel gives it the same name in every mount of devpts
# Major numbers of Unix98 slaves (admin-guide/devices.txt), of which each mount of devpts has its own.
_PTYS = range(136, 144)
# Faults of the lab that are read from what the console says.
_CONSOLE_FAULTS: Final = frozenset({"garbled", "wrong_medium", "mixed_boot"})


@frozen
class PortHolder:
    """A process that has a port open.

    Attributes:
        reads: it may take bytes away; a mere writer takes none.
        guessed: its files are hidden, and its command line names the port.
        runtime: the folder of boardlab's console server that it is; None: it is none, or its folder is unknown.
    """

    pid: int
    program: str
    user: str
    reads: bool = True
    guessed: bool = False
    runtime: Path | None = None

    def __str__(self) -> str:
        """For messages."""
        origin = ", by its command line" if self.guessed else ""
        program = self.program if self.runtime is None else f"boardlab's console server of {self.runtime}"
        return f"pid {self.pid} ({program}, user {self.user}{origin})"

    @property
    def hint(self) -> str:
        """The way to end it."""
        if self.runtime is None:
            return f"end it (`kill {self.pid}`; stop the service that starts it, such as ser2net or a getty)"
        if server_pid(self.runtime) == self.pid:
            folder = shlex.quote(str(self.runtime))
            return f"use it (BOARDLAB_RUNTIME={folder}), or end it (`lab console stop --runtime {folder}`)"
        return (
            f"the folder of pid {self.pid} was removed while it ran, so no program finds it; it ends within two "
            f"seconds after the measurement that still uses it, if one does (`kill {self.pid}` ends both)"
        )


def holders(device: Path, ours: Collection[int] = ()) -> list[PortHolder]:
    """List the other processes that have the device open.

    Not listed: this process, those of `ours` and their children, and the holder of a pty's other end, which
    plays the board.

    Args:
        ours: process ids of console servers.
    """
    others = list(_find_holders(psutil.pids(), device, ours))
    if others:
        # A process that is about to become another program has its parent's files for some microseconds: look again.
        time.sleep(AGAIN_S)
        others = list(_find_holders([holder.pid for holder in others], device, ours))
    return sorted(others, key=lambda holder: holder.pid)


def _find_holders(pids: Iterable[int], device: Path, ours: Collection[int]) -> Iterator[PortHolder]:
    for pid in pids:
        if pid not in {os.getpid(), *ours}:
            with contextlib.suppress(OSError, psutil.Error):  # it ended meanwhile
                holder = _holder(pid, device)
                if holder is not None and not (ours and psutil.Process(pid).ppid() in ours):
                    yield holder


def shared_port_error(device: Path, ours: Collection[int] = ()) -> LabTransientError | None:
    """Return the error that another process reads this port, or None."""
    readers = [holder for holder in holders(device, ours) if holder.reads]
    if not readers:
        return None
    who, hints = ", ".join(map(str, readers)), "; ".join(holder.hint for holder in readers)
    return LabTransientError(
        f"{device}: another program reads this port and takes bytes away: {who}. {hints[:1].upper()}{hints[1:]}. To "
        "read along: `lab console tail`",
        failure="console_shared",
    )


def _holder(pid: int, device: Path) -> PortHolder | None:
    target = device.resolve()
    try:
        descriptors = list(_descriptors(pid))
    except PermissionError:
        names = {os.fspath(device), os.fspath(target), *([target.name] if target.name.startswith("tty") else [])}
        process = psutil.Process(pid)
        return None if names.isdisjoint(process.cmdline()) else _describe(process, reads=True, guessed=True)
    open_files = [fd for fd, name in descriptors if name == os.fspath(target) and _is_same_device(fd, target)]
    is_pty = target.parent.name == "pts"
    if not open_files or any(
        is_pty and name in _MASTERS and _fdinfo(fd, "tty-index") == target.name for fd, name in descriptors
    ):
        return None
    return _describe(psutil.Process(pid), reads=any(_reads(fd) for fd in open_files))


def _descriptors(pid: int) -> Iterator[tuple[Path, str]]:
    """The open files of a process, by hand: psutil's open_files() has regular files only."""
    for fd in (PROC / str(pid) / "fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            yield fd, os.fspath(fd.readlink())


def _is_same_device(descriptor: Path, target: Path) -> bool:
    """Compare an open file with the device by identity.

    A container has terminals of its own, by the same names.
    """
    try:
        return _identity(descriptor) == _identity(target)
    except OSError:  # one of them went away meanwhile
        return True


def _identity(path: Path) -> tuple[int, int]:
    status = path.stat()  # follows a descriptor of another mount namespace, too (proc_pid_fd(5))
    return status.st_rdev, status.st_dev if os.major(status.st_rdev) in _PTYS else 0


def _describe(process: psutil.Process, *, reads: bool, guessed: bool = False) -> PortHolder:
    user = user_name(process.uids().effective)
    return PortHolder(process.pid, process.name(), user, reads, guessed, _runtime(process))


def _runtime(process: psutil.Process) -> Path | None:
    """The runtime folder of a console server, as its command line or its environment has it."""
    try:
        argv = process.cmdline()
        if _SERVER not in argv and ["console", "serve"] not in (argv[1:3], argv[2:4]):  # behind an interpreter
            return None
        folders = [value for name, value in itertools.pairwise(argv) if name == "--runtime"]
        return Path(folders[-1]) if folders else runtime_dir(process.environ())
    except psutil.Error:  # another user's, or it ended meanwhile
        return None


def _reads(descriptor: Path) -> bool:
    flags = _fdinfo(descriptor, "flags")
    return flags is None or int(flags, 8) & os.O_ACCMODE != os.O_WRONLY


def _fdinfo(descriptor: Path, key: str) -> str | None:
    """A field of proc_pid_fdinfo(5)."""
    try:
        text = (descriptor.parent.parent / "fdinfo" / descriptor.name).read_text("ascii", "replace")
    except OSError:
        return None
    return dict(line.split(":", 1) for line in text.splitlines() if ":" in line).get(key, "").strip() or None


class SharedConsole(Protocol):
    """A console that can list its other readers."""

    def blame_sharing(self, error: BoardlabError) -> BoardlabError:
        """Return the failure, explained by another reader if there is one."""
        ...


def blame_sharing(error: BoardlabError, device: Path, ours: Collection[int] = ()) -> BoardlabError:
    """Turn `error` into `console_shared` if another process reads the port.

    Only an error that missing bytes can cause is turned.
    """
    heard = isinstance(error, BoardError | TestTransientError) or error.failure in _CONSOLE_FAULTS
    sharing = shared_port_error(device, ours) if heard else None
    if sharing is None:
        return error
    return LabTransientError(f"{sharing}. Failure meanwhile: [{error.failure}] {error}", failure=sharing.failure)


@contextmanager
def explaining_shared_port(console: SharedConsole) -> Iterator[None]:
    """Attribute failures to another reader of the console, if there is one.

    Raises:
        LabTransientError: another process reads the console, which may be the cause.
    """
    try:
        yield
    except BoardlabError as error:
        explained = console.blame_sharing(error)
        if explained is error:
            raise
        raise explained from error
