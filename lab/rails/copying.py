"""A trace of another host's sampler, written down here as it comes; after a cut of the connection at the byte that is missing."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable
from typing import Any, Final, Protocol

from attrs import define, field

from lab.errors import BoardlabError, LabStableError, LabTransientError
from lab.rails.kept import BEAT_S, DONE, END, KEEP_S, LIVES
from lab.rails.process import STOP_S
from lab.rails.trace import END as LAST
from lab.rails.trace import RECORD

PATIENCE_S: Final = KEEP_S  # the server keeps the sampler no longer
SILENT_S: Final = 3 * BEAT_S  # a sampler has a sample each second, at the least: what leads there hangs
_TRY_AGAIN_S: Final = 0.2
_AWAY: Final = "console_link"  # what the way there fails with


class Connection(Protocol):
    """A connection with a rails server: a socket, or what is used like one. One thread may read it while another one writes."""

    def recv(self, size: int, /) -> bytes: ...
    def sendall(self, data: bytes, /) -> None: ...
    def settimeout(self, timeout_s: float | None, /) -> None: ...
    def shutdown(self, how: int, /) -> None: ...
    def close(self) -> None: ...


class SilentServerError(LabTransientError):
    """Nobody answers, now."""


@define(eq=False)
class Copier:
    """A thread that writes down what comes.

    Attributes:
        name: of the sampling at its server; empty: that one is of an earlier boardlab, and a cut ends it.
        again: a new connection to a sampling, by its name and the byte from which on it is wanted.
        ended: the trace has its end. begun: it has its first line, or never will. cuts: how often it was cut.
        why: why it did not come to its end; None: nobody knows.
        silent_s: a connection that brings nothing for so long is cut: it may hang, and another one may not.
    """

    stream: Connection
    file: Any
    name: str
    again: Callable[[str, int], Connection]
    patience_s: float = PATIENCE_S
    silent_s: float = SILENT_S
    ended: bool = field(default=False, init=False)
    begun: threading.Event = field(factory=threading.Event, init=False)
    cuts: int = field(default=0, init=False)
    why: BoardlabError | None = field(default=None, init=False)
    _written: int = field(default=0, init=False)
    _first: int = field(default=0, init=False)  # where the records begin
    _last: bytes = field(default=b"", init=False)
    _cut_at: float | None = field(default=None, init=False)  # nothing came since then
    _finishing: threading.Event = field(factory=threading.Event, init=False)
    _changing: threading.Lock = field(factory=threading.Lock, init=False)
    _thread: threading.Thread = field(init=False)

    def start(self) -> None:
        """Begin."""
        self._thread = threading.Thread(target=self._copy, name="boardlab rails", daemon=True)
        self._thread.start()

    @property
    def pid(self) -> int:
        """See `SamplingProcess`."""
        return 0

    def poll(self) -> int | None:
        """See `SamplingProcess`."""
        return None if self._thread.is_alive() else 0

    def finish(self) -> None:
        """Have the sampler end, and take the rest, also after a cut."""
        with self._changing:
            self._finishing.set()
            self._say_end()
        self._thread.join(STOP_S + self.patience_s)
        if self._thread.is_alive():
            with self._changing, contextlib.suppress(OSError):
                self.name = ""
                self.stream.shutdown(socket.SHUT_RDWR)  # wakes the thread
            self._thread.join()
        self.stream.close()

    def _copy(self) -> None:
        try:
            while not self._came_to_its_end():
                self.begun.set()
                if not self.name or not self._resumed():
                    return
        except LabStableError as error:
            self.why = error
        finally:
            self.begun.set()

    def _came_to_its_end(self) -> bool:
        """Take what comes until there is no more; whether the end of the trace is there."""
        beat_s = heard_s = time.monotonic()
        self.stream.settimeout(min(BEAT_S, self.silent_s) if self.name else None)
        with contextlib.suppress(OSError):
            while not self.ended:
                try:
                    data = self.stream.recv(1 << 16)
                    if not data:
                        break
                    self._take(data)
                    heard_s = time.monotonic()
                except TimeoutError:
                    if time.monotonic() - heard_s >= self.silent_s:
                        break
                if self.name and time.monotonic() - beat_s >= BEAT_S:
                    beat_s = time.monotonic()
                    self.stream.sendall(LIVES)
            if self.ended and self.name:
                self.stream.sendall(DONE)
        return self.ended

    def _take(self, data: bytes) -> None:
        self._keep(data)
        self._cut_at = None
        if not self._first and (line := data.find(b"\n")) >= 0:
            self._first = self._written + line + 1
            self.begun.set()
        self._written += len(data)
        self._last = (self._last + data)[-RECORD.size :]
        count, part = divmod(self._written - self._first, RECORD.size)
        self.ended = bool(self._first and count and not part) and RECORD.unpack(self._last)[3] == LAST

    def _keep(self, data: bytes) -> None:
        try:
            whole = self.file.write(data) == len(data)
            why = "the disk is full"
        except OSError as error:
            whole, why = False, f"cannot be written: {error.strerror}"
        if not whole:
            raise LabStableError(f"{self.file.name}: {why}", failure="disk")

    def _resumed(self) -> bool:
        """Whether there is a connection again, before nothing has come for `patience_s`."""
        self.cuts += 1
        if self._cut_at is None:
            self._cut_at = time.monotonic()
        else:
            time.sleep(_TRY_AGAIN_S)  # the last connection brought nothing
        while self.name and time.monotonic() < self._cut_at + self.patience_s:
            try:
                stream = self.again(self.name, self._written)
            except BoardlabError as error:
                self.why = error
                if not isinstance(error, SilentServerError) and error.failure != _AWAY:
                    return False
                time.sleep(_TRY_AGAIN_S)
                continue
            with self._changing:
                self.stream.close()
                self.stream, self.why = stream, None
                if self._finishing.is_set():
                    self._say_end()
            return True
        if self.why is not None:
            self.why = LabTransientError(
                f"the connection to the sampler of the rails was cut, and did not come back within {self.patience_s:g} s: {self.why}",
                failure="power_sampler",
            )
        return False

    def _say_end(self) -> None:
        with contextlib.suppress(OSError):
            if self.name:
                self.stream.sendall(END)
            else:
                self.stream.shutdown(socket.SHUT_WR)
