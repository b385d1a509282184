"""The rails server: this host's sensors for other hosts (`lab rails serve`).

It listens on a socket in the runtime folder, for its user alone. A client sends one line of JSON, and gets one back;
the sampler of `lab.rails.process` samples for it, with stamps of this host's clock, and the trace follows as it grows.
A client may end the sampling, or resume it after its connection was cut.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import json
import logging
import os
import queue
import secrets
import select
import socket
import socketserver
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import cattrs
from attrs import define, field

from lab.errors import BoardlabError, ConfigurationError, LabTransientError
from lab.host.clock import MonotonicRaw, time_line
from lab.host.runtime import prepare
from lab.rails import live
from lab.rails.config import RailsConfig
from lab.rails.model import AdcRange
from lab.rails.process import STOP_S, Sampler, sampling
from lab.rails.trace import NAP_S

REQUEST_BYTES: Final = 1 << 20
_log = logging.getLogger(__name__)


def rails_socket(runtime: Path) -> Path:
    """The server's socket."""
    return runtime / "rails.sock"


def serve(runtime: Path) -> None:
    """Serve until SIGTERM or Ctrl-C.

    Raises:
        ConfigurationError: the folder is unusable, or another server uses it.
    """
    address = rails_socket(prepare(runtime))
    with (runtime / "rails.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise ConfigurationError(
                f"{runtime}: a rails server runs there already; `--runtime` chooses another folder"
            ) from error
        address.unlink(missing_ok=True)  # of one that was killed
        os.environ["BOARDLAB_RUNTIME"] = str(runtime)  # where samplers tell how they do
        mask = os.umask(0o177)
        try:
            server = SamplingServer(str(address), Client)
        finally:
            os.umask(mask)
        with server:
            try:
                server.serve_forever()
            finally:
                address.unlink(missing_ok=True)


class SamplingServer(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True  # its samplers watch a pipe that the kernel closes with this process

    def __init__(self, address: str, handler: type[socketserver.BaseRequestHandler]) -> None:
        super().__init__(address, handler)
        self.kept = KeptSamplings()


class Client(socketserver.StreamRequestHandler):
    server: SamplingServer
    _begun = False  # a trace: nothing else may be said then

    def handle(self) -> None:
        try:
            try:
                self._answer(json.loads(self.rfile.readline(REQUEST_BYTES)))
            except (ValueError, TypeError, KeyError, AttributeError, cattrs.BaseValidationError) as error:
                raise ConfigurationError(
                    "the rails server of this host does not understand what it is asked "
                    f"({error}): it is of another boardlab; update both"
                ) from error
        except BoardlabError as error:
            _log.warning("%s", error)
            if self._begun:  # the client sees a trace without its end
                return
            document = {"error": str(error), "configuration": isinstance(error, ConfigurationError)}
            with contextlib.suppress(OSError):
                self._say({**document, "failure": error.failure})
        except OSError as error:  # the client is gone
            _log.info("a client is gone: %s", error)

    def _answer(self, asked: Any) -> None:
        if "resume" in asked:
            self.server.kept.resume(
                str(asked["resume"]), self.connection, int(asked["offset"]), lambda: self._begin({"line": time_line()})
            )
            return
        config, adc_range = cattrs.structure(asked["config"], RailsConfig), AdcRange(asked["range"])
        if "seconds" in asked:
            views = live.watch(config, adc_range, MonotonicRaw(), float(asked["seconds"]))
            try:
                volts = {now.rail: now.volts for now in next(views) if now.volts is not None}
            finally:
                views.close()
            self._say({"line": time_line(), "volts": volts})
            return

        def begin(name: str) -> None:
            self._begin({"line": time_line(), "trace": name, "now_ns": MonotonicRaw().now_ns()})

        self.server.kept.sample(config, adc_range, self.connection, begin)

    def _begin(self, document: dict[str, object]) -> None:
        self._say(document)
        self._begun = True

    def _say(self, document: dict[str, object]) -> None:
        self.connection.sendall(json.dumps(document).encode() + b"\n")


# --- Samplings that outlive their client's connection ---
# After its line of JSON a client says single bytes: `.` that it lives, `e` that the sampler shall end, `d` that it has
# the whole trace. A connection that ends without `d`, or on which nothing was said for KEEP_S, was cut. The sampler
# goes on for KEEP_S then, and another connection takes it over by its name.


KEEP_S: Final = 60.0  # as long as a console's reader may be away
BEAT_S: Final = 5.0  # interval of a client's signs of life
LIVES: Final = b"."
END: Final = b"e"
DONE: Final = b"d"
_SILENT_S: Final = 3 * BEAT_S  # a client that said nothing for so long makes room for another one of its board


@define(eq=False)
class _Line:
    """A client's connection and its first byte. over: unused now."""

    connection: socket.socket
    offset: int
    over: threading.Event = field(factory=threading.Event, init=False)

    def cut(self) -> None:
        """Wake the thread that waits for it."""
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)


@define(eq=False)
class _Sampling:
    """One sampler with its trace and reader.

    Attributes:
        error: the sampler's failure.
        gone: it has ended.
    """

    board: str
    line: _Line
    keep_s: float
    error: BoardlabError | None = field(default=None, init=False)
    gone: threading.Event = field(factory=threading.Event, init=False)
    _heard_s: float = field(factory=time.monotonic, init=False)
    _away: bool = field(default=False, init=False)
    _over: bool = field(default=False, init=False)
    _back: queue.SimpleQueue[_Line | None] = field(factory=queue.SimpleQueue, init=False)

    @property
    def is_left(self) -> bool:
        """True if its client is away, or silent for long."""
        return self._away or time.monotonic() - self._heard_s > _SILENT_S

    def take_over(self, line: _Line) -> None:
        """Serve this connection from now on."""
        self._back.put(line)
        self.line.cut()

    def make_room(self) -> None:
        """End it."""
        self._back.put(None)
        self.line.cut()

    def run(self, sampler: Sampler, file: io.FileIO, end: Callable[[], None]) -> None:
        """Send the trace until its client has all of it.

        Args:
            end: ends the sampler; then the file has the rest of its trace.

        Raises:
            LabTransientError: the client was away for too long, or another client needed the sensors meanwhile.
        """
        line: _Line | None = self.line
        while line is not None:
            self.line, self._away, self._heard_s = line, False, time.monotonic()
            try:
                line.connection.settimeout(self.keep_s)  # one that takes nothing, as where ssh hangs, is cut then
                file.seek(line.offset)
                if self._serve(line.connection, file, sampler, end):
                    return
            except OSError as error:
                _log.info("%s: a client is gone: %s", self.board, error)
            finally:
                line.cut()
                line.over.set()
            self._away = True
            try:
                line = self._back.get(timeout=self.keep_s)  # None: another client needs the sensors
            except queue.Empty:
                line = None
        raise LabTransientError(
            f"{self.board}: the client of its sampling did not come back within "
            f"{self.keep_s:g} s, or another one needed its sensors",
            failure="power_sampler",
        )

    def _serve(self, connection: socket.socket, file: io.FileIO, sampler: Sampler, end: Callable[[], None]) -> bool:
        """Send the growing trace; True if complete, False if cut."""
        while self._back.empty():
            if not self._over and not sampler.alive:
                self._end(end)
            while data := file.read(1 << 16):
                connection.sendall(data)
            if self.error is not None or time.monotonic() - self._heard_s > self.keep_s:
                return False  # the client comes back and is told of the error
            if not select.select([connection], [], [], NAP_S)[0]:
                continue
            message = connection.recv(1)
            if not message or message == DONE:
                return message == DONE
            self._heard_s = time.monotonic()
            if message != LIVES and not self._over:
                self._end(end)
        return False

    def _end(self, end: Callable[[], None]) -> None:
        self._over = True
        try:
            end()
        except BoardlabError as error:
            self.error = error


@define(eq=False)
class KeptSamplings:
    """All samplings of a server. keep_s: maximum absence of a client."""

    keep_s: float = KEEP_S
    _by_name: dict[str, _Sampling] = field(factory=dict, init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    @property
    def samplings(self) -> list[_Sampling]:
        """The running samplings."""
        with self._lock:
            return list(self._by_name.values())

    def sample(
        self, config: RailsConfig, wanted: AdcRange, connection: socket.socket, begin: Callable[[str], None]
    ) -> None:
        """Sample for a client until it has the whole trace.

        Args:
            begin: tells the client that it begins, and by which name it comes back to it.

        Raises:
            BoardlabError: as of `lab.rails.process.sampling`; or the client did not come back.
            OSError: the client was gone before it began.
        """
        for earlier in self.samplings:
            if earlier.board == config.board and earlier.is_left:
                earlier.make_room()
                earlier.gone.wait(STOP_S)
        name, resumable = secrets.token_hex(16), _Sampling(config.board, _Line(connection, 0), self.keep_s)
        with tempfile.TemporaryDirectory(prefix="boardlab-rails-") as folder, contextlib.ExitStack() as files:
            path = Path(folder, "power.trace")
            running = contextlib.ExitStack()
            sampler = running.enter_context(sampling(config, path, wanted))
            try:
                trace = files.enter_context(path.open("rb", buffering=0))
                with self._lock:
                    self._by_name[name] = resumable
                begin(name)
                resumable.run(sampler, trace, running.close)
            finally:
                with self._lock:
                    self._by_name.pop(name, None)
                try:
                    running.close()
                finally:
                    resumable.gone.set()
        if resumable.error is not None:
            raise resumable.error

    def resume(self, name: str, connection: socket.socket, offset: int, begin: Callable[[], None]) -> None:
        """Continue a sampling at this byte of its trace.

        Raises:
            LabTransientError: the sampling has ended, or its sampler failed.
        """
        with self._lock:
            sampling = self._by_name.get(name)
        if sampling is None:
            raise LabTransientError(
                f"the sampling that the client comes back to has ended: it was away for more than {self.keep_s:g} s, "
                "or the rails server was started anew",
                failure="power_sampler",
            )
        if sampling.error is not None:
            sampling.make_room()
            raise sampling.error
        begin()
        line = _Line(connection, offset)
        sampling.take_over(line)
        while not line.over.wait(1.0) and not sampling.gone.is_set():
            pass
