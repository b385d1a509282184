"""The process beside the sampler that has to do with the disk, so that the sampler never waits for it.

write(2) returns at once most of the time, since it goes to the page cache; but now and then it waits for the file
system's journal, on a busy disk for tens of milliseconds, in which the sensors overwrite what nobody has read. So the
sampler writes into a pipe, and a fork of it empties the pipe. It ends when the pipe is closed, by the kernel if need be:
what a killed sampler had handed on is kept. A thread would not do: it holds Python's lock while it works.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from lab.errors import BoardlabError, LabStableError

NAP_S: Final = 0.01  # between two batches: so far behind may a reader of the file be
PIPE_BYTES: Final = 1 << 20  # what the kernel allows everybody; ten seconds of samples while the disk does not answer


class TraceWriter:
    """Hands bytes on to another process; closed at the end of a `with` block, when everything is kept."""

    def __init__(self, store: Callable[[bytes], None]) -> None:
        """Fork. `store` takes what was put, in order and one or more at once; it runs in the other process only."""
        source, self._pipe = os.pipe()
        self._complaint, complaint = os.pipe()
        with contextlib.suppress(OSError):  # all pipes of this user together may take only so much
            fcntl.fcntl(self._pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        self._pid = os.fork()
        if self._pid == 0:
            os.close(self._pipe)
            _work(source, complaint, store)
        os.close(source)
        os.close(complaint)

    def put(self, data: bytes) -> None:
        """Hand bytes on; waits only when they are some ten seconds behind.

        Raises:
            LabStableError: earlier ones could not be kept.
        """
        try:
            os.write(self._pipe, data)
        except BrokenPipeError:
            raise self._broken() from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Wait until everything is kept.

        Raises:
            LabStableError: something could not be kept, and nobody was told.
        """
        os.close(self._pipe)
        status = os.waitpid(self._pid, 0)[1]
        broken = self._broken() if status else None
        os.close(self._complaint)
        if broken is not None and kind is None:
            raise broken

    def _broken(self) -> LabStableError:
        said = os.read(self._complaint, 1 << 16).decode()
        return LabStableError(said or f"pid {self._pid}, which keeps the samples, ended too early", failure="disk")


def _work(source: int, complaint: int, store: Callable[[bytes], None]) -> None:
    """The other process; never returns."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the sampler's end is its end
    status = 1
    try:
        # A write of less than PIPE_BUF is there as a whole or not at all, and a read takes all that is there: pipe(7).
        while data := os.read(source, PIPE_BYTES):
            store(data)
            time.sleep(NAP_S)
        status = 0
    except BoardlabError as error:
        os.write(complaint, str(error).encode())
    finally:
        os._exit(status)
