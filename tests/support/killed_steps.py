"""A piece of work that ends at a step of its own: killed, or on a full disk.

A step is what CPython's audit hooks tell (docs.python.org, audit events table): a file that is opened, renamed, removed.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
import traceback
from collections.abc import Callable
from typing import Any, Final

from lab.errors import BoardlabError

_STEPS: Final = ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "sqlite3.connect", "shutil.")
_WRITES: Final = os.O_WRONLY | os.O_RDWR


def ends_at(step: int, work: Callable[[], object], *, full: bool = False) -> int:
    """Run the work in a child that ends at a step, from 1.

    Args:
        full: from that step on, no file can be made or written; else the child is killed.

    Returns: its exit status: -SIGKILL; 0: it had fewer steps; 1: the work raised an error of ours; 2: another.
    """
    if child := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    count = 0

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal count
        if not event.startswith(_STEPS) or "__pycache__" in str(arguments) or _only_read(event, arguments):
            return
        count += 1
        if count >= step and not full:
            os.kill(os.getpid(), signal.SIGKILL)
        elif count >= step and event in {"open", "os.mkdir", "os.link"}:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    status = 2
    try:
        sys.addaudithook(hook)
        work()
        status = 0
    except BoardlabError:
        status = 1
    finally:
        if status == 2:
            traceback.print_exc()
        os._exit(status)


def _only_read(event: str, arguments: tuple[Any, ...]) -> bool:
    return event == "open" and not (isinstance(arguments[2], int) and arguments[2] & _WRITES)
