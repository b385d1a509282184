"""The host's end of a block writer.

Orders go out while answers come in; a stalled write is ended.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import select
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Final, TypeAlias

from lab.errors import BoardlabError
from lab.provision.errors import (
    MediaMissingError,
    MediaVerifyFailedError,
    MediaWriteFailedError,
    MediaWriteProtectedError,
    TargetRefusedError,
)
from lab.provision.writer import Meter
from lab.provision.writers import blockwriter
from lab.provision.writers.blockwriter import ORDER, READ, SYNC, WRITE
from lab.provision.writers.planning import ComparedPiece, WritePiece

STALL_S: Final = 60.0  # a card erases its blocks for seconds; one that is dying, for ever
WAITS: Final = "waits"  # of a block writer that cannot begin yet, before who is waited for
_LOOK_S: Final = 0.5
_PIPE_BYTES: Final = 1024 * 1024


class BlockDevice:
    """An open block writer.

    Args:
        meter: told how many bytes each order has written, as soon as its answer comes, and that there is none; it ends
            what stalls.
        refusal: why a line is no answer but the end; None: it is one.

    Raises (every method):
        WriteStalledError: it made no progress for longer than the meter allows.
        MediaMissingError, MediaWriteProtectedError, MediaWriteFailedError: what the kernel said of the medium.
        TargetRefusedError: it is in use.
    """

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        device: str,
        meter: Meter,
        refusal: Callable[[str], BoardlabError | None] = lambda _line: None,
    ) -> None:
        self._process, self._device, self._meter, self._refusal = process, device, meter, refusal
        if process.stdin is None or process.stdout is None:
            raise ValueError("expected a process with pipes")
        self._in, self._out = process.stdin.fileno(), process.stdout.fileno()
        os.set_blocking(self._in, False)
        self.pid = process.pid
        self._received, self._unwritten_bytes = b"", 0
        self._answers: list[list[str]] = []
        while (answer := self._answer())[0] != "open":
            if answer[0] == WAITS:
                self._meter.begin(" ".join(["waits for the write of", *answer[1:]]))

    def write(self, offset: int, data: bytes) -> None:
        """Send an order; it is done later."""
        self._begin()
        self._unwritten_bytes += len(data)
        self._send(ORDER.pack(WRITE, offset, len(data)))
        self._send(data)

    def finish(self) -> None:
        """Wait until the medium has everything."""
        self._begin()
        self._send(ORDER.pack(SYNC, 0, 0))
        self._answer()

    def digest(self, offset: int, count: int) -> str:
        """The SHA-256 of what the medium has there."""
        self._begin()
        self._send(ORDER.pack(READ, offset, count))
        return self._answer()[2]

    def _begin(self) -> None:
        self._look(0)
        if not self._unwritten_bytes:
            self._meter.waiting()

    def _send(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            _, writable, _ = select.select([], [self._in], [], _LOOK_S)
            if writable:
                try:
                    view = view[os.write(self._in, view) :]
                except BrokenPipeError:
                    while self._answer():
                        pass
            elif not self._look(0):
                self._meter.check()

    def _answer(self) -> list[str]:
        while not self._answers:
            if not self._look(_LOOK_S):
                self._meter.check()
        return self._answers.pop(0)

    def _look(self, wait_s: float) -> bool:
        """Read what was answered; whether there was something."""
        has_answer = False
        while select.select([self._out], [], [], wait_s)[0]:
            got = os.read(self._out, 65536)
            if not got:
                raise MediaWriteFailedError(f"{self._device}: its writer ended; was it killed? Try again")
            self._received += got
            *lines, self._received = self._received.split(b"\n")
            for line in lines:
                if (refused := self._refusal(line.decode())) is not None:
                    raise refused
                fields = line.decode().split()
                if fields[0] == "failed":
                    raise kernel_error(self._device, int(fields[1]), " ".join(fields[2:]))
                if fields[0] == "written":
                    self._unwritten_bytes -= int(fields[1])
                    self._meter.add(int(fields[1]))
                else:
                    self._answers.append(fields)
            has_answer, wait_s = True, 0
        return has_answer


@contextmanager
def open_writer(device: str, meter: Meter, *, writable: bool) -> Iterator[BlockDevice]:
    """Run a block writer for a device within the context.

    It is killed at the end.

    Args:
        meter: counts the written bytes, and ends a stalled write.
    """
    argv = [sys.executable, "-P", "-m", blockwriter.__name__, device, "--parent", str(os.getpid())]
    argv += [] if writable else ["--read-only"]
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with closing(process):
        yield BlockDevice(process, device, meter)


@contextmanager
def closing(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """End a block writer, or its ssh client, with the context."""
    try:
        if process.stdin is not None:
            with suppress(OSError):
                fcntl.fcntl(process.stdin.fileno(), fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        yield
    finally:
        process.kill()
        with suppress(subprocess.TimeoutExpired):  # one that hangs in the kernel is left behind
            process.wait(1.0)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()


Opener: TypeAlias = Callable[..., AbstractContextManager[BlockDevice]]
"""As `open_writer`."""


def write(
    device: str,
    pieces: Iterable[tuple[WritePiece, int]],
    meter: Meter,
    names: Callable[[WritePiece], str],
    opener: Opener | None = None,
) -> None:
    """Write pieces at their offsets, and flush the medium."""
    with (opener or open_writer)(device, meter, writable=True) as block:
        for piece, offset in pieces:
            if piece.first:
                meter.begin(names(piece))
            block.write(offset, piece.data)
        block.finish()


def compare(
    device: str, pieces: Iterable[tuple[WritePiece, int]], meter: Meter, opener: Opener | None = None
) -> ComparedPiece:
    """Read pieces back.

    Raises:
        MediaVerifyFailedError: the medium has other bytes.
    """
    compared = ComparedPiece()
    with (opener or open_writer)(device, meter, writable=False) as block:
        for piece, offset in pieces:
            if block.digest(offset, len(piece.data)) != hashlib.sha256(piece.data).hexdigest():
                raise MediaVerifyFailedError(
                    f"{device}: between {offset:#x} and {offset + len(piece.data):#x} it has not what was written. "
                    "Try again; a card that does so again is worn out, or smaller than it says"
                )
            compared.add(piece.data)
            meter.add(len(piece.data))
    return compared


def kernel_error(device: str, number: int, reason: str) -> BoardlabError:
    """Error for an errno of a medium."""
    match number:
        case errno.EBUSY:
            return TargetRefusedError(f"{device}: {reason}: it is mounted or in use. Nothing was written")
        case errno.EROFS | errno.EPERM:
            return MediaWriteProtectedError(
                f"{device}: {reason}: push the card's lock to its other end, or take another card"
            )
        case errno.ENOENT | errno.ENXIO | errno.ENODEV | errno.ENOMEDIUM:
            return MediaMissingError(f"{device}: {reason}: is the card in, and the multiplexer at the host?")
        case errno.EACCES:
            return TargetRefusedError(
                f"{device}: {reason}: this user may not write it. Add the user to the group disk, or write a udev rule"
            )
    return MediaWriteFailedError(
        f"{device}: {reason}. Try again; if it stays so, change the card, the reader or the cable"
    )
