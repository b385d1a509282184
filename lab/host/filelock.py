"""Locks of files with a limit: the kernel takes a lock back from a process that is dead, and leaves it to one that is stopped."""

from __future__ import annotations

import fcntl
import time
from typing import IO, Final

_LOOK_S: Final = 0.05


def taken(file: int | IO[str], limit_s: float) -> bool:
    """Take a file's lock (flock(2)), which ends with its file descriptor; False: others have had it all the time."""
    deadline = time.monotonic() + limit_s
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(_LOOK_S)
        else:
            return True
