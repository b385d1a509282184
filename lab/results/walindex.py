"""Room on the disk for the index of SQLite's write-ahead log, before SQLite writes to it.

The index (the file DATABASE-shm) is written through a memory map. SQLite makes it by one byte in each 4 KiB
(os_unix.c, unixShmMap); where a file system has smaller blocks, e.g. a small ext4 with 1 KiB, the rest of a page is a hole,
and the first write to a hole on a full disk is no error but SIGBUS, which ends the program without a word. So there must be
room before SQLite makes it, and the holes are filled as soon as it is made.
"""

from __future__ import annotations

import ctypes
import errno
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from lab.errors import LabStableError

REGION_BYTES: Final = 32 * 1024  # what SQLite makes at a time (wal.c, WALINDEX_PGSZ); enough for 4062 pages of the log
AHEAD_BYTES: Final = 4 * REGION_BYTES  # filled at once, where there is room: a log that cannot be checkpointed grows
LEAST_FREE_BYTES: Final = 2 * REGION_BYTES  # the index, and what the file system needs to describe it
_DESCRIPTORS: Final = Path("/proc/self/fd")
_UNSUPPORTED: Final = {errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL}


def require_room(database: Path) -> None:
    """Make sure that SQLite can make its index, if it is not there.

    Raises:
        LabStableError: the disk is full.
    """
    with suppress(OSError):  # what else is wrong there, SQLite says
        if _index(database).exists() and _index(database).stat().st_size >= REGION_BYTES:
            return
        # statvfs(3) counts blocks that ext4 keeps to itself: only having them tells.
        nameless = os.open(database.parent, os.O_TMPFILE | os.O_RDWR, 0o600)
        try:
            if not _allocated(nameless, LEAST_FREE_BYTES):
                raise _full(database)
        finally:
            os.close(nameless)


def fill_holes(database: Path) -> None:
    """Give every block of the index its place on the disk; to be called while a connection is open.

    It works on SQLite's own descriptor: to open and close the file would end SQLite's locks on it (fcntl(2)).

    Raises:
        LabStableError: the disk is full.
    """
    descriptor = _descriptor(_index(database))
    if descriptor is None:
        return
    size = os.fstat(descriptor).st_size
    if not _allocated(descriptor, max(size, AHEAD_BYTES)) and not _allocated(descriptor, size):
        raise _full(database)


def _index(database: Path) -> Path:
    return database.with_name(f"{database.name}-shm")


def _descriptor(path: Path) -> int | None:
    """This process's descriptor of an open file."""
    wanted = str(path.parent.resolve() / path.name)
    for entry in _DESCRIPTORS.iterdir():
        with suppress(OSError):  # closed meanwhile
            if str(entry.readlink()) == wanted:
                return int(entry.name)
    return None


def _allocated(descriptor: int, size: int) -> bool:
    """Whether the file's first bytes have their blocks now.

    fallocate(2) itself: posix_fallocate(3) falls back to writing bytes that another process may be changing.
    """
    if not size:
        return True
    libc = ctypes.CDLL(None, use_errno=True)
    libc.fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    while libc.fallocate(descriptor, 0, 0, size) != 0:
        code = ctypes.get_errno()
        if code != errno.EINTR:
            return code in _UNSUPPORTED
    return True


def _full(database: Path) -> LabStableError:
    return LabStableError(
        f"results in {database}: the disk is full: there is no room for SQLite's index of its log ({_index(database)}); free "
        f"space under {database.parent}: what was recorded before is intact; mend this and resume the run",
        failure="results",
    )
