"""Locks among this user's programs: locked files in the runtime folder.

The kernel gives a lock back when its program ends, however that ends, and queues those that wait. filelock would look
again and again instead, names no holder, and cannot lock a tty that is open.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from lab.errors import ConfigurationError
from lab.host import runtime
from lab.host.clock import NS_PER_S

GAP_VARIABLE: Final = "BOARDLAB_POWER_ON_GAP"  # seconds; of farm.yaml's limits
LONGEST_GAP_S: Final = 60.0
_FOLDER: Final = "turns"
_LOOK_S: Final = 1.0
_RETRY_S: Final = 0.05
_STOPPED_S: Final = 10.0  # beyond a gap, on a host under load


@contextmanager
def turn(what: str, who: str, say: Callable[[str], None], waiting: Callable[[], None] | None = None) -> Iterator[None]:
    """Hold a named lock of this user's programs for this block.

    Args:
        what: the lock's name, e.g. "hub pci-0000:00:14.0-usb-0:3".
        who: our name for waiting programs.
        say: gets the holder's name.
        waiting: called each second meanwhile, may end the wait by an error; None: not called.
    """
    with _open_lock(what) as file:
        if not take(file, 0):
            say(file.read().strip() or "another program")
            while waiting is not None:
                waiting()
                if take(file, _LOOK_S):
                    break
            else:
                fcntl.flock(file, fcntl.LOCK_EX)
        _rewrite(file, who)
        try:
            yield
        finally:
            _rewrite(file, "")


def take(file: int | IO[str], limit_s: float) -> bool:
    """Take a file's lock (flock(2)) within a limit; False: it is held.

    The lock ends with the file descriptor.
    """
    deadline = time.monotonic() + limit_s
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(_RETRY_S)
        else:
            return True


def keep_gap(
    group: str,
    gap_s: float,
    *,
    now_ns: Callable[[], int] = time.monotonic_ns,
    sleep: Callable[[float], None] = time.sleep,
) -> float:
    """Wait for a gap after the group's last return; return seconds waited.

    The group is common to all programs of this user.

    Args:
        now_ns: of a clock that all programs of the host have in common.
    """
    began_ns = now_ns()
    with _open_lock(f"gap {group}") as file:
        _wait_for_a_gap(file, gap_s)
        file.seek(0)
        last = file.read().strip()
        due_ns = int(last) + round(gap_s * NS_PER_S) if last.isdecimal() else 0
        left_ns = due_ns - now_ns()
        if 0 < left_ns <= gap_s * NS_PER_S:  # else the host was booted since
            sleep(left_ns / NS_PER_S)
        _rewrite(file, str(now_ns()))
    return (now_ns() - began_ns) / NS_PER_S


def _wait_for_a_gap(file: IO[str], gap_s: float) -> None:
    """Wait for the file's lock, or until its holder seems stopped.

    A stopped holder has noted nothing for longer than it sleeps, and the last return is as long ago.
    """
    noted = file.read()
    while not take(file, gap_s + _STOPPED_S):
        file.seek(0)
        before, noted = noted, file.read()
        if noted == before:
            return


def power_on_gap_s(environ: Mapping[str, str] = os.environ) -> float:
    """Minimum time between two outlets' power-on; 0: none.

    Raises:
        ConfigurationError: the variable is no valid time.
    """
    text = environ.get(GAP_VARIABLE, "") or "0"
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= LONGEST_GAP_S:
        raise ConfigurationError(f"${GAP_VARIABLE}: {text!r:.40}: expected seconds, from 0 to {LONGEST_GAP_S:g}")
    return seconds


@contextmanager
def _open_lock(what: str) -> Iterator[IO[str]]:
    folder: Path = runtime.prepare(runtime.runtime_dir()) / _FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    name = hashlib.sha256(what.encode()).hexdigest()[:24]
    with os.fdopen(os.open(folder / name, os.O_RDWR | os.O_CREAT, 0o600), "r+", encoding="utf-8") as file:
        yield file


def _rewrite(file: IO[str], text: str) -> None:
    file.seek(0)
    file.truncate()
    file.write(text)
    file.flush()
