"""One process at a time makes or ends an ssh connection; who waits for it does not do so for ever."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from lab.errors import LabTransientError
from lab.host import filelock

_PID_BYTES: Final = 20


@contextmanager
def locked(path: Path, host: str, limit_s: float) -> Iterator[None]:
    """Have the lock of a host's connection for this block.

    Args:
        path: of the lock, which says whose it is. limit_s: how long another process may have it.

    Raises:
        LabTransientError: it has it longer.
    """
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        noted_ns = os.fstat(fd).st_mtime_ns
        if not filelock.taken(fd, limit_s):
            raise LabTransientError(f"ssh to {host}: {_others(fd, noted_ns, limit_s)}", failure="console_link")
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(fd)


def _others(fd: int, noted_ns: int, limit_s: float) -> str:
    """Why we had no turn, and what to do about it.

    Args:
        noted_ns: when somebody last wrote that he has the lock, as we began to wait.
    """
    if os.fstat(fd).st_mtime_ns != noted_ns:
        return f"others have taken turns at making the connection for more than {limit_s:g} s, and none has it: is the host up, and the network?"
    holder = os.pread(fd, _PID_BYTES, 0).decode(errors="replace").strip()
    return (
        f"process {holder} has been making or ending the connection for more than {limit_s:g} s. Is it stopped? Let it "
        f"go on (kill -CONT {holder}), or end it"
    )
