"""Other processes that hold a port, from /proc.

Each byte of a tty goes to only one of its readers. /proc shows the open files of the user's own processes; those of other
users are hidden from all but root, so such a process is found only if its command line names the port.
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

from attrs import frozen

from lab.errors import BoardError, BoardlabError, LabTransientError, TestTransientError
from lab.host.process import user_name
from lab.host.runtime import runtime_dir, server_pid

PROC = Path("/proc")
AGAIN_S = 0.02  # until the second look
_MASTER = "/dev/ptmx"  # of a pty; the kernel gives it the same name in every mount of devpts
_SERVER: Final = "lab.console.server"  # the module, in the command line of a server that a client started
_MASTERS = (_MASTER, "/dev/pts/ptmx")
_PTYS = range(
    136, 144
)  # major numbers of Unix98 slaves, of which each mount of devpts has its own (admin-guide/devices.txt)


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
        seen = ", by its command line" if self.guessed else ""
        program = self.program if self.runtime is None else f"boardlab's console server of {self.runtime}"
        return f"pid {self.pid} ({program}, user {self.user}{seen})"

    @property
    def hint(self) -> str:
        """The way to end it."""
        if self.runtime is None:
            return f"end it (`kill {self.pid}`; stop the service that starts it, such as ser2net or a getty)"
        if server_pid(self.runtime) == self.pid:
            folder = shlex.quote(str(self.runtime))
            return f"use it (BOARDLAB_RUNTIME={folder}), or end it (`lab console stop --runtime {folder}`)"
        return (
            f"the folder of pid {self.pid} was removed while it ran, so no program finds it; it ends within two seconds after the "
            f"measurement that still uses it, if one does (`kill {self.pid}` ends both)"
        )


def holders(device: Path, ours: Collection[int] = (), proc: Path = PROC) -> list[PortHolder]:
    """List the other processes that have the device open.

    Not listed: this process, those of `ours` and their children, and the holder of a pty's other end, which
    plays the board.

    Args:
        ours: process ids of console servers.
    """
    target = device.resolve()
    names = {os.fspath(device), os.fspath(target), *([target.name] if target.name.startswith("tty") else [])}
    found = _found(list(proc.iterdir()), target, names, ours)
    if not found:
        return []
    # A process that is about to become another program has its parent's files for some microseconds: look again.
    time.sleep(AGAIN_S)
    found = _found([proc / str(holder.pid) for holder in found], target, names, ours)
    return sorted(found, key=lambda holder: holder.pid)


def _found(entries: Iterable[Path], target: Path, names: set[str], ours: Collection[int]) -> list[PortHolder]:
    found = []
    for entry in entries:
        if not entry.name.isdigit() or int(entry.name) in {os.getpid(), *ours}:
            continue
        try:
            holder = _holder(entry, target, names)
            if holder is not None and not (ours and _parent(entry) in ours):
                found.append(holder)
        except OSError:  # it ended meanwhile
            continue
    return found


def shared(device: Path, ours: Collection[int] = (), proc: Path = PROC) -> LabTransientError | None:
    """Return the error that another process reads this port, or None."""
    readers = [holder for holder in holders(device, ours, proc) if holder.reads]
    if not readers:
        return None
    who, hints = ", ".join(map(str, readers)), "; ".join(holder.hint for holder in readers)
    return LabTransientError(
        f"{device}: another program reads this port and takes bytes away: {who}. {hints[:1].upper()}{hints[1:]}. To read along: `lab console tail`",
        failure="console_shared",
    )


def _holder(entry: Path, target: Path, names: set[str]) -> PortHolder | None:
    try:
        descriptors = list(_descriptors(entry))
    except PermissionError:
        argv = (entry / "cmdline").read_text("utf-8", "replace").split("\0")
        return _described(entry, reads=True, guessed=True) if not names.isdisjoint(argv) else None
    held = [fd for fd, name in descriptors if name == os.fspath(target) and _is_it(fd, target)]
    if not held or any(name in _MASTERS and _is_other_end(fd, target) for fd, name in descriptors):
        return None
    return _described(entry, reads=any(_reads(fd) for fd in held))


def _descriptors(entry: Path) -> Iterator[tuple[Path, str]]:
    for fd in (entry / "fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            yield fd, os.fspath(fd.readlink())


def _is_it(descriptor: Path, target: Path) -> bool:
    """Compare an open file with the device by identity.

    A container has terminals of its own, by the same names.
    """
    try:
        return _identity(descriptor) == _identity(target)
    except OSError:  # one of them went away meanwhile
        return True


def _identity(path: Path) -> tuple[int, int]:
    found = path.stat()  # follows a descriptor of another mount namespace, too (proc_pid_fd(5))
    return found.st_rdev, found.st_dev if os.major(found.st_rdev) in _PTYS else 0


def _described(entry: Path, *, reads: bool, guessed: bool = False) -> PortHolder:
    user = user_name(entry.stat().st_uid)
    program = (entry / "comm").read_text("utf-8", "replace").strip()
    return PortHolder(int(entry.name), program, user, reads, guessed, _runtime(entry))


def _runtime(entry: Path) -> Path | None:
    """The runtime folder of a console server, as its command line or its environment has it."""
    try:
        argv = (entry / "cmdline").read_text("utf-8", "replace").split("\0")
        if _SERVER not in argv and ["console", "serve"] not in (argv[1:3], argv[2:4]):  # behind an interpreter
            return None
        given = [value for name, value in itertools.pairwise(argv) if name == "--runtime"]
        if given:
            return Path(given[-1])
        environ = (entry / "environ").read_text("utf-8", "replace").split("\0")
        return runtime_dir(dict(line.split("=", 1) for line in environ if "=" in line))
    except OSError:  # another user's, or it ended meanwhile
        return None


def _reads(descriptor: Path) -> bool:
    flags = _fdinfo(descriptor, "flags")
    return flags is None or int(flags, 8) & os.O_ACCMODE != os.O_WRONLY


def _is_other_end(descriptor: Path, target: Path) -> bool:
    return target.parent.name == "pts" and _fdinfo(descriptor, "tty-index") == target.name


def _fdinfo(descriptor: Path, key: str) -> str | None:
    """A field of proc_pid_fdinfo(5)."""
    try:
        text = (descriptor.parent.parent / "fdinfo" / descriptor.name).read_text("ascii", "replace")
    except OSError:
        return None
    return next(
        (value.strip() for name, _, value in (line.partition(":") for line in text.splitlines()) if name == key), None
    )


def _parent(entry: Path) -> int:
    """Return the parent's pid: the fourth field of proc_pid_stat(5).

    The second field is a name in brackets, which may hold anything.
    """
    return int((entry / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()[1])


# --- Failures caused by another reader ---


# Faults of the lab that are read from what the console says.
_READ_FROM_THE_CONSOLE: Final = frozenset({"garbled", "wrong_medium", "mixed_boot"})


class SharedConsole(Protocol):
    """A console that can list its other readers."""

    def blamed(self, error: BoardlabError) -> BoardlabError:
        """Return the failure, explained by another reader if there is one."""
        ...


def blamed(error: BoardlabError, device: Path, ours: Collection[int] = (), proc: Path = PROC) -> BoardlabError:
    """Turn `error` into `console_shared` if another process reads the port.

    Only an error that missing bytes can cause is turned.
    """
    heard = isinstance(error, BoardError | TestTransientError) or error.failure in _READ_FROM_THE_CONSOLE
    found = shared(device, ours, proc) if heard else None
    if found is None:
        return error
    return LabTransientError(f"{found}. Failure meanwhile: [{error.failure}] {error}", failure=found.failure)


@contextmanager
def explaining_shared_port(console: SharedConsole) -> Iterator[None]:
    """Attribute failures to another reader of the console, if there is one.

    Raises:
        LabTransientError: another process reads the console, which may be the cause.
    """
    try:
        yield
    except BoardlabError as error:
        found = console.blamed(error)
        if found is error:
            raise
        raise found from error
