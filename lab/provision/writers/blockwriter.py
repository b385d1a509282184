"""Block writer process: `python -m lab.provision.writers.blockwriter DEVICE` writes and reads back.

A write that hangs in the kernel hangs its process with it; this one can be left behind, and the caller goes on.
Standard input has orders of 20 bytes (verb, offset, length), with the data behind a write; standard output has one
line for each, for a read with the SHA-256 of the data. The page cache is passed by (open(2), O_DIRECT), so that
progress and read-back are the medium's. It ends with its parent process, also when that is killed, so that its late
writes never reach the next try's. One that another host started (`--idle`) ends with its standard input.
"""

from __future__ import annotations

import argparse
import ctypes
import errno
import fcntl
import hashlib
import mmap
import os
import queue
import select
import signal
import stat
import struct
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

ORDER: Final = struct.Struct(">4sQQ")
WRITE, READ, SYNC = b"writ", b"read", b"sync"
BUFFER_BYTES: Final = 4 * 1024 * 1024
_BUFFERS: Final = 3
_DEVICES: Final = Path("/sys/dev/block")
_PR_SET_PDEATHSIG: Final = 1  # linux/prctl.h
_ALIGN: Final = 4096  # of offsets, lengths and memory for O_DIRECT: a block of every file system and card reader


class _Device:
    def __init__(self, path: str, *, writable: bool) -> None:
        flags = (os.O_RDWR if writable else os.O_RDONLY) | os.O_CLOEXEC
        self._path = path
        is_block = Path(path).is_block_device()
        # On a block device O_EXCL fails where it is mounted or otherwise in use; a file that is no device is not made.
        self._fd = os.open(path, flags | (os.O_EXCL if is_block and writable else 0))
        self._buffer = mmap.mmap(-1, BUFFER_BYTES)
        self._view = memoryview(self._buffer)
        self._is_direct = False
        self._can_direct = True

    def write(self, offset: int, view: memoryview) -> None:
        """Take what is in the buffer to the device."""
        self._direct(offset, len(view))
        done = 0
        with self._presence():
            while done < len(view):
                done += os.pwrite(self._fd, view[done:], offset + done)

    def read(self, offset: int, count: int) -> str:
        """The SHA-256 of what is there."""
        digest = hashlib.sha256()
        while count:
            length = min(count, BUFFER_BYTES)
            self._direct(offset, length)
            with self._presence():
                got = os.preadv(self._fd, [self._view[:length]], offset)
            if got <= 0:
                self._check_presence()
                break  # the medium ends here: the digest is another one
            digest.update(self._view[:got])
            offset, count = offset + got, count - got
        return digest.hexdigest()

    def sync(self) -> None:
        """Until the medium has it; what is read afterwards comes from there."""
        with self._presence():
            os.fsync(self._fd)
        os.posix_fadvise(self._fd, 0, 0, os.POSIX_FADV_DONTNEED)

    @contextmanager
    def _presence(self) -> Iterator[None]:
        """Say of a failed transfer that the medium has gone, if it has.

        The kernel sets the size of such a device to 0, so that writing fails as on a full one, and reading ends.
        """
        try:
            yield
        except OSError:
            self._check_presence()
            raise

    def _check_presence(self) -> None:
        status = os.fstat(self._fd)
        if not stat.S_ISBLK(status.st_mode):
            return
        number = f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"
        if not os.lseek(self._fd, 0, os.SEEK_END) or not (_DEVICES / number).exists():
            raise OSError(errno.ENODEV, "it vanished while it was written or read")
        try:  # the kernel looks for the medium when it is opened
            os.close(os.open(self._path, os.O_RDONLY | os.O_CLOEXEC))
        except OSError as error:
            if error.errno == errno.ENOMEDIUM:
                raise

    def _direct(self, offset: int, length: int) -> None:
        is_aligned = self._can_direct and not (offset | length) & (_ALIGN - 1)
        if is_aligned == self._is_direct:
            return
        flags = fcntl.fcntl(self._fd, fcntl.F_GETFL)
        try:
            fcntl.fcntl(self._fd, fcntl.F_SETFL, flags | os.O_DIRECT if is_aligned else flags & ~os.O_DIRECT)
            self._is_direct = is_aligned
        except OSError:
            self._can_direct = False  # a file system without it


class _Orders(threading.Thread):
    """Reads orders into buffers while the device works on earlier ones."""

    def __init__(self, source: IO[bytes], idle_s: float) -> None:
        super().__init__(daemon=True)
        self._source, self._idle_s = source, idle_s
        self._free: queue.SimpleQueue[memoryview] = queue.SimpleQueue()
        self.taken: queue.SimpleQueue[tuple[bytes, int, int, memoryview | None]] = queue.SimpleQueue()
        for _ in range(_BUFFERS):
            self._free.put(memoryview(mmap.mmap(-1, BUFFER_BYTES)))

    def run(self) -> None:
        """Until the stream ends."""
        head = bytearray(ORDER.size)
        while self._fill(memoryview(head)):
            verb, offset, count = ORDER.unpack(head)
            if verb != WRITE:
                self.taken.put((verb, offset, count, None))
                continue
            while count:
                view = self._free.get()
                length = min(count, BUFFER_BYTES)
                if not self._fill(view[:length]):
                    break
                self.taken.put((verb, offset, length, view))
                offset, count = offset + length, count - length
            if count:
                break
        if self._idle_s:
            os._exit(1)  # who gave orders is away: what was not done is not done any more
        self.taken.put((b"", 0, 0, None))

    def give_back(self, view: memoryview) -> None:
        """A buffer that may be used again."""
        self._free.put(view)

    def _fill(self, view: memoryview) -> bool:
        done = 0
        while done < len(view):
            if self._idle_s and not select.select([self._source], [], [], self._idle_s)[0]:
                return False
            got = self._source.readinto(view[done:])  # type: ignore[attr-defined]
            if not got:
                return False
            done += got
        return True


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry out orders until standard input is closed; returns the exit code."""
    parser = argparse.ArgumentParser(prog=f"python -m {__name__}")
    parser.add_argument("device")
    parser.add_argument("--read-only", action="store_true")
    parser.add_argument("--parent", type=int, default=0)
    parser.add_argument("--idle", type=float, default=0.0)
    options = parser.parse_args(arguments)
    if options.parent and not _ends_with(options.parent):
        return 1
    try:
        device = _Device(options.device, writable=not options.read_only)
        _say("open")
        with open(0, "rb", buffering=0, closefd=False) as stream:
            orders = _Orders(stream, options.idle)
            orders.start()
            while (order := orders.taken.get())[0]:
                _carry_out(device, orders, *order)
    except OSError as error:
        _say("failed", str(error.errno), error.strerror or "")
        return 1
    return 0


def _ends_with(parent: int) -> bool:
    """Have the kernel end this process with its parent (prctl(2)).

    Returns whether the parent is still there.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    return os.getppid() == parent


def _carry_out(
    device: _Device, orders: _Orders, verb: bytes, offset: int, count: int, view: memoryview | None
) -> None:
    if view is not None:
        device.write(offset, view[:count])
        orders.give_back(view)
        _say("written", str(count))
    elif verb == READ:
        _say("read", str(count), device.read(offset, count))
    else:
        device.sync()
        _say("synced")


def _say(*fields: str) -> None:
    os.write(1, " ".join(fields).encode() + b"\n")


if __name__ == "__main__":
    sys.exit(main())
