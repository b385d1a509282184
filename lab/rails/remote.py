"""Rails on another host, sampled by its rails server (`lab.rails.server`).

The trace is copied as it grows.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from attrs import asdict, define, field, frozen

from lab.errors import BoardlabError, ConfigurationError, LabStableError, LabTransientError
from lab.host import process, status_files
from lab.host.clock import MonotonicRaw
from lab.host.status_files import SamplerStatus
from lab.host.tcp import connect_unix, first_line
from lab.rails.config import RailsConfig
from lab.rails.model import AdcRange
from lab.rails.process import LAG_S, START_S, STOP_S, Sampler
from lab.rails.server import BEAT_S, DONE, END, KEEP_S, LIVES
from lab.rails.trace import END as LAST
from lab.rails.trace import RECORD

PATIENCE_S: Final = KEEP_S  # the server keeps the sampler no longer
SILENT_S: Final = 3 * BEAT_S  # a sampler has a sample each second, at the least: the connection hangs
_TRY_AGAIN_S: Final = 0.2
_AWAY: Final = "console_link"  # failure classes of the connection


class SilentServerError(LabTransientError):
    """The server does not answer now."""


@define(eq=False)
class Copier:
    """A thread that writes the received trace.

    Attributes:
        name: of the sampling at its server.
        again: returns a new connection to a sampling, by its name and the next byte.
        ended: the trace has its end.
        begun: it has its first line, or never will.
        cuts: number of cuts.
        why: reason of an incomplete trace; None: unknown.
        silent_s: a connection without data for so long is cut: it may hang.
    """

    stream: socket.socket
    file: Any
    name: str
    again: Callable[[str, int], socket.socket]
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
    _given_up: bool = field(default=False, init=False)
    _finishing: threading.Event = field(factory=threading.Event, init=False)
    _changing: threading.Lock = field(factory=threading.Lock, init=False)
    _thread: threading.Thread = field(init=False)

    def start(self) -> None:
        """Begin."""
        self._thread = threading.Thread(target=self._copy, name="boardlab rails", daemon=True)
        self._thread.start()

    @property
    def pid(self) -> int:
        """Return 0: the process is on another host."""
        return 0

    def poll(self) -> int | None:
        """Return None while the thread runs, else 0."""
        return None if self._thread.is_alive() else 0

    def finish(self) -> None:
        """End the sampler, and receive the rest, also after a cut."""
        with self._changing:
            self._finishing.set()
            self._say_end()
        self._thread.join(STOP_S + self.patience_s)
        if self._thread.is_alive():
            with self._changing, contextlib.suppress(OSError):
                self._given_up = True
                self.stream.shutdown(socket.SHUT_RDWR)  # wakes the thread
            self._thread.join()
        self.stream.close()

    def _copy(self) -> None:
        try:
            while not self._receive():
                self.begun.set()
                if not self._resume():
                    return
        except LabStableError as error:
            self.why = error
        finally:
            self.begun.set()

    def _receive(self) -> bool:
        """Receive the rest; True at the trace's end."""
        beat_s = heard_s = time.monotonic()
        self.stream.settimeout(min(BEAT_S, self.silent_s))
        with contextlib.suppress(OSError):
            while not self.ended:
                try:
                    data = self.stream.recv(1 << 16)
                    if not data:
                        break
                    try:
                        whole = self.file.write(data) == len(data)
                        why = "the disk is full"
                    except OSError as error:
                        whole, why = False, f"cannot be written: {error.strerror}"
                    if not whole:
                        raise LabStableError(f"{self.file.name}: {why}", failure="disk")
                    self._cut_at = None
                    if not self._first and (line := data.find(b"\n")) >= 0:
                        self._first = self._written + line + 1
                        self.begun.set()
                    self._written += len(data)
                    self._last = (self._last + data)[-RECORD.size :]
                    count, part = divmod(self._written - self._first, RECORD.size)
                    self.ended = bool(self._first and count and not part) and RECORD.unpack(self._last)[3] == LAST
                    heard_s = time.monotonic()
                except TimeoutError:
                    if time.monotonic() - heard_s >= self.silent_s:
                        break
                if time.monotonic() - beat_s >= BEAT_S:
                    beat_s = time.monotonic()
                    self.stream.sendall(LIVES)
            if self.ended:
                self.stream.sendall(DONE)
        return self.ended

    def _resume(self) -> bool:
        """Reconnect within `patience_s`; True if connected."""
        self.cuts += 1
        if self._cut_at is None:
            self._cut_at = time.monotonic()
        else:
            time.sleep(_TRY_AGAIN_S)  # the last connection brought nothing
        while not self._given_up and time.monotonic() < self._cut_at + self.patience_s:
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
                "the connection to the sampler of the rails was cut, and did not come back within "
                f"{self.patience_s:g} s: {self.why}",
                failure="power_sampler",
            )
        return False

    def _say_end(self) -> None:
        with contextlib.suppress(OSError):
            self.stream.sendall(END)


CONNECT_S: Final = 15.0
_LINE_BYTES: Final = 1 << 20
_ANSWER_S: Final = 10.0  # beyond what the sampler itself may take


@frozen
class RailsServer:
    """The rails server of another host.

    Attributes:
        reach: the path of its socket on this host.
        host: for messages.
        runtime: this host's runtime folder, for the status of the growing trace; None: no status.
        patience_s: maximum length of a cut of the connection.
    """

    reach: Callable[[], Path]
    host: str
    runtime: Path | None = None
    patience_s: float = PATIENCE_S

    @contextlib.contextmanager
    def sampling(
        self, config: RailsConfig, trace_path: Path, wanted: AdcRange = AdcRange.ACTIVE, line: str = ""
    ) -> Iterator[Sampler]:
        """Sample as `lab.rails.sampling`, with that host's clock.

        A cut of the connection of up to `patience_s` costs no sample.

        Args:
            line: the time line of the stamps, see `lab.host.clock.time_line`.

        Raises:
            ConfigurationError: the configuration or the place of the trace is wrong.
            LabTransientError: the server does not answer, its sampler failed, its clock is another one
                (`clock_unrelated`), or the connection was cut for too long; the trace has the samples until then.
        """
        try:
            file = trace_path.open("wb", buffering=0)
        except OSError as error:
            raise ConfigurationError(
                f"{trace_path}: cannot be written: {error.strerror}; choose another place"
            ) from error
        question = {"config": asdict(config), "range": wanted.value}
        with file, self._ask(question, START_S) as (stream, answer):
            here_ns = MonotonicRaw().now_ns()
            if line and answer.get("line") != line:
                raise LabTransientError(
                    f"the rails server of {self.host} stamps by another clock than the console server there: one of "
                    "them is in a container, or ran before the host was restored. Start both anew, side by side",
                    failure="clock_unrelated",
                )
            copier = Copier(stream, file, str(answer["trace"]), self._reconnect, self.patience_s)
            copier.start()
            try:
                copier.begun.wait(_ANSWER_S)  # a trace without its first line is none
                ahead_ns = int(answer.get("now_ns", here_ns)) - here_ns
                with self._publish(
                    SamplerStatus(config.board, str(trace_path.absolute()), process.identity(), ahead_ns)
                ):
                    yield Sampler(trace_path, copier, LAG_S + self.patience_s)
                was_over = copier.poll() is not None
            finally:
                copier.finish()
            if was_over or not copier.ended:
                raise copier.why or LabTransientError(
                    f"the power sampler on {self.host} ended on the way, or the connection to it did; the received "
                    "samples are in its trace. The log of `lab rails serve` there says more",
                    failure="power_sampler",
                )

    def volts(self, config: RailsConfig, seconds: float) -> dict[str, float]:
        """As `lab.drivers.railsdriver.RailsDriver.volts`.

        Raises:
            ConfigurationError, LabTransientError: as `sampling`.
        """
        asked = {"config": asdict(config), "range": AdcRange.ACTIVE.value, "seconds": seconds}
        with self._ask(asked, seconds) as (_, answer):
            return {str(rail): float(volts) for rail, volts in answer.get("volts", {}).items()}

    @contextlib.contextmanager
    def _ask(self, question: dict[str, Any], takes_s: float) -> Iterator[tuple[socket.socket, dict[str, Any]]]:
        """A connection with the server's answer; it is closed at the end."""
        stream, answer = self._request(question, takes_s)
        with contextlib.closing(stream):
            yield stream, answer

    def _reconnect(self, name: str, offset: int) -> socket.socket:
        """A new connection to a sampling, from this byte on.

        Raises:
            ConfigurationError, LabTransientError: as `sampling`; SilentServerError, or `console_link`: it may come
                back.
        """
        return self._request({"resume": name, "offset": offset}, 0.0)[0]

    def _request(self, question: dict[str, Any], takes_s: float) -> tuple[socket.socket, dict[str, Any]]:
        with contextlib.ExitStack() as unless_good:
            try:
                stream = unless_good.enter_context(connect_unix(self.reach(), CONNECT_S))
                stream.sendall(json.dumps(question).encode() + b"\n")
                stream.settimeout(takes_s + _ANSWER_S)
                answer = json.loads(first_line(stream.recv, _LINE_BYTES) or b"{}")
            except (OSError, ValueError) as error:
                raise self._silent(error) from error
            stream.settimeout(None)
            if not answer:
                raise self._silent("it closed the connection")
            if "error" in answer:
                if answer.get("configuration"):
                    raise ConfigurationError(f"on {self.host}: {answer['error']}")
                raise LabTransientError(
                    f"on {self.host}: {answer['error']}", failure=str(answer.get("failure", "lab"))
                )
            unless_good.pop_all()
        return stream, answer

    def _silent(self, why: object) -> SilentServerError:
        return SilentServerError(
            f"the rails server of {self.host} does not answer ({why}): `lab rails serve` must run there, beside the "
            "console server (systemctl status boardlab-rails)",
            failure="power_sampler",
        )

    @contextlib.contextmanager
    def _publish(self, status: SamplerStatus) -> Iterator[None]:
        if self.runtime is None:
            yield
            return
        folder = self.runtime / status_files.SAMPLERS
        status_files.write(folder, status.board, status)
        try:
            yield
        finally:
            status_files.forget(folder, status.board, status)
