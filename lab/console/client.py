"""A client of the console server: blocking calls with time-outs, no threads."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from attrs import evolve

from lab.console.holders import holders, shared_port_error
from lab.console.model import Chunk, Event, Gap, RecordKind
from lab.console.protocol import PROTOCOL, Deframer, FrameType, Message, encode_frame, encode_message, raise_refusal
from lab.console.serial_port import is_tty, require_own_pty
from lab.console.status import PortInfo, ServerStatus, port_info, server_status
from lab.console.transport import Transport, UnixTransport, remaining_s
from lab.errors import BoardlabError, LabStableError, LabTransientError
from lab.host.clock import MonotonicRaw
from lab.host.clockrelation import ClockReading
from lab.host.runtime import EXIT_TWICE, log_path, prepare, runtime_dir, socket_path

ANSWER_TIMEOUT_S = 5.0  # opening a USB adapter takes some ten milliseconds; the rest is for a host under load
WRITE_BYTES = 16384  # of one WRITE frame; well below what the server queues for a port


class ConsoleClient:
    """A connection to the console server.

    One connection reads one port; any number of connections may read the same one. Use it as a context manager, or
    call `close`. All methods raise LabTransientError when the server is gone or does not answer in time.

    Attributes:
        server_pid: process id of the server.
    """

    def __init__(self, where: Path | Transport, timeout_s: float = ANSWER_TIMEOUT_S) -> None:
        """Connect to a server.

        Args:
            where: the server's socket (see `ensure_server`), or a transport to it.

        Raises:
            LabTransientError: no server listens.
            LabStableError: the server speaks another protocol.
            ConfigurationError: the socket's folder or the listening process belongs to another user.
        """
        self._transport = UnixTransport(where) if isinstance(where, Path) else where
        self._timeout_s = timeout_s
        self._deframer = Deframer()
        self._events: deque[Event] = deque()
        self._answers: deque[Message] = deque()
        self._questions: deque[ClockQuery] = deque()  # without an answer yet
        self._stream = self._transport.connect(timeout_s)
        self.server_pid = self._stream.pid
        try:
            answer = self._ask("hello", {"protocol": PROTOCOL})
            if answer.get("protocol") != PROTOCOL:
                raise LabStableError(
                    f"the console server (pid {answer.get('pid')}) speaks protocol {answer.get('protocol')}, this "
                    f"boardlab speaks {PROTOCOL}; end it with SIGTERM when nothing measures, and a fitting one will "
                    "be started",
                    failure="console_protocol",
                )
        except BoardlabError:
            self.close()
            raise

    def __enter__(self) -> Self:
        """The client itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connection."""
        self.close()

    def open(
        self,
        device: Path | str,
        speed_bd: int | None = None,
        adapter_latency_ns: int | None = None,
        fifo_bytes: int | None = None,
        name: str | None = None,
        board: str | None = None,
        elsewhere: bool = False,
    ) -> PortInfo:
        """Have the server open a port and read it until `close_port`.

        Args:
            speed_bd: None: the open port's speed; 115200 for a new one.
            adapter_latency_ns, fifo_bytes: override the driver's values.
            name: of the port and its recording; None: made from the device's path. A port that is open has its name.
            board: name of the board on this port.
            elsewhere: the device belongs to the server's host, not to this one.

        Raises:
            LabStableError: the port is missing, in use, or not permitted; or the server is another boardlab's.
            LabTransientError: another process reads it; another client writes with other settings; or the port of
                another host is missing, which was offered a moment ago: its adapter or that host may be starting
                again.
            ConfigurationError: not a serial port, or the name is another port's.
        """
        path = Path(device) if elsewhere else check_other_readers(Path(device), self.server_pid)
        fields = {
            "device": str(path),
            "speed_bd": speed_bd,
            "adapter_latency_ns": adapter_latency_ns,
            "fifo_bytes": fifo_bytes,
            "name": name,
            "board": board,
        }
        try:
            answer = self._ask("open", fields)
        except LabStableError as error:
            if elsewhere and error.failure == "port_missing":
                raise LabTransientError(str(error), failure=error.failure) from error
            if error.failure != "port_in_use" or elsewhere:
                raise
            raise name_holders(error, path, self.server_pid) from error
        return port_info(answer)

    def attach(self, name: str, write: bool = False, since: int | None = None, session: str = "") -> PortInfo:
        """Read the port; with `write`, become its writer.

        Args:
            since: start at this byte of the stream, and never be dropped; None: start now. Events at that
                byte that are no data are sent again.
            session: the server ends an older connection of the same session.

        Raises:
            LabStableError: no such port is open.
            LabTransientError: another client is the writer (named in the message), or that byte is no longer stored.
        """
        more = {} if since is None else {"since": since}
        return port_info(self._ask("attach", {"name": name, "write": write, "session": session or None, **more}))

    def clock(self) -> ClockReading:
        """Read the stamping clock; raises as `ClockQuery.reading`."""
        question = self.ask_clock()
        while (reading := question.reading()) is None:
            self._hear()
        return reading

    def ask_clock(self) -> ClockQuery:
        """Send a clock query without waiting; a later receive takes the answer."""
        question = ClockQuery(self._timeout_s)
        self._send(encode_message(FrameType.REQUEST, {"op": "clock"}))
        self._questions.append(question)
        return question

    def read(self, timeout_s: float) -> Chunk | None:
        """Return the next bytes of the port; None after the time-out.

        Raises:
            LabTransientError: this client read too slowly and was dropped; attach again with a new one.
        """
        deadline = time.monotonic() + timeout_s
        while (event := self.read_event(max(0.0, deadline - time.monotonic()))) is not None:
            if isinstance(event, Chunk):
                return event
        return None

    def read_event(self, timeout_s: float) -> Event | None:
        """Return the next event (bytes, late stamp, gap); None after the time-out.

        Raises:
            LabTransientError: this client read too slowly and was dropped; attach again with a new one.
        """
        deadline = time.monotonic() + timeout_s
        while not self._events:
            if not self._receive(deadline):
                return None
        event = self._events.popleft()
        if isinstance(event, Gap) and event.kind == RecordKind.DROPPED:
            raise LabTransientError(
                f"the console server dropped this reader, which was too slow: {event.amount} bytes of its stream are "
                "lost to it; they are in the recording. Attach again",
                failure="console_overrun",
            )
        return event

    def write(self, data: bytes) -> None:
        """Queue bytes for the port in the server.

        Raises:
            LabStableError: this connection may not write.
            LabTransientError: the port is lost, or takes no bytes.
        """
        for start in range(0, len(data), WRITE_BYTES):
            self._exchange(encode_frame(FrameType.WRITE, data[start : start + WRITE_BYTES]))

    def close_port(self, name: str) -> None:
        """Have the server give a port back.

        Raises:
            LabStableError: no such port is open.
        """
        self._ask("close", {"name": name})

    def status(self, name: str | None = None) -> ServerStatus:
        """Return the state of the server and its ports.

        Args:
            name: only this port; no port in the answer if it is not open.
        """
        if name is not None:
            return server_status(self._ask("status", {"name": name}))
        status = server_status(self._ask("status", {"after": 0}))
        while status.more is not None:
            page = server_status(self._ask("status", {"after": status.more}))
            status = evolve(page, ports=[*status.ports, *page.ports])
        return status

    def stop(self) -> None:
        """End the server."""
        self._ask("stop", {})

    def close(self) -> None:
        """End the connection. The server goes on reading its ports."""
        self._stream.close()

    def silent(self) -> LabTransientError:
        """Return the error of a missing answer."""
        text = f"the console server at {self._transport.label} gave no answer in {self._timeout_s:g} s"
        return LabTransientError(
            f"{text}; is the host overloaded? See {self._transport.log}", failure="console_server_silent"
        )

    def fileno(self) -> int:
        """Return the descriptor for select(2).

        One receipt may bring many events: read until None.
        """
        return self._stream.fileno()

    def _ask(self, operation: str, fields: Mapping[str, object]) -> Message:
        return self._exchange(encode_message(FrameType.REQUEST, {"op": operation, **fields}))

    def _exchange(self, frame: bytes) -> Message:
        self._send(frame)
        while not self._answers:
            self._hear()
        answer = self._answers.popleft()
        raise_refusal(answer)
        return answer

    def _send(self, frame: bytes) -> None:
        try:
            with contextlib.suppress(ConnectionError):  # the server hung up; its reason may be waiting to be read
                self._stream.send(frame, self._timeout_s)
        except OSError as error:
            raise self._gone() from error

    def _hear(self) -> None:
        """Receive something; any data shows that the server is not silent.

        Raises:
            LabTransientError: nothing came in time, or the server is gone.
        """
        if not self._receive(time.monotonic() + self._timeout_s):
            raise self.silent()

    def _receive(self, deadline: float) -> bool:
        """Receive data from the server; False if the deadline passes first."""
        try:
            data = self._stream.receive(remaining_s(deadline))
            if data is None:
                return False
            if not data:
                raise self._gone()
            for question in self._questions:
                question.extend(self._timeout_s)
            for frame in self._deframer.feed(data):
                if frame.type == FrameType.RECORD:
                    self._events.append(frame.event())
                elif self._questions:  # nothing else is asked before its own answer is here, so these come first
                    self._questions.popleft().take_answer(frame.message())
                else:
                    self._answers.append(frame.message())
        except OSError as error:
            raise self._gone() from error
        except ValueError as error:
            raise LabStableError(f"{self._transport.label}: this is no console server of ours: {error}") from error
        return True

    def _gone(self) -> LabTransientError:
        return LabTransientError(
            f"the console server at {self._transport.label} is gone; its last words are in {self._transport.log}. "
            f"{self._transport.hint}",
            failure="console_server_gone",
        )


def check_other_readers(device: Path, server_pid: int) -> Path:
    """Return the port's absolute path after checking for other readers.

    A link is not resolved: it leads to the adapter again after a reconnect.

    Raises:
        LabTransientError: another process reads it, past the server.
        BoardlabError: the pty belongs to another process.
    """
    path = device.absolute()
    path = path.parent.resolve() / path.name
    require_own_pty(path)
    if is_tty(path) and (error := shared_port_error(path, {server_pid})) is not None:
        raise error
    return path


def name_holders(error: LabStableError, path: Path, server_pid: int) -> LabStableError:
    """Add the processes that hold the port to the server's error."""
    other_holders = holders(path, {server_pid})
    who = ", ".join(map(str, other_holders)) or "one that this user cannot see"
    hints = "; ".join(holder.hint for holder in other_holders) or "end it"
    return LabStableError(f"{error}: {who}: {hints}. Then try again", failure=error.failure)


class ClockQuery:
    """A clock query that waits for its answer.

    Attributes:
        deadline: time.monotonic() from which on the server counts as silent.
    """

    def __init__(self, timeout_s: float) -> None:
        self.extend(timeout_s)
        self._asked_ns = MonotonicRaw().now_ns()
        self._told_ns = 0
        self._answer: Message | None = None

    def extend(self, timeout_s: float) -> None:
        """Extend the deadline: data arrived, and the answer is behind it."""
        self.deadline = time.monotonic() + timeout_s

    def take_answer(self, answer: Message) -> None:
        """Take the answer, which has just arrived."""
        self._told_ns = MonotonicRaw().now_ns()
        self._answer = answer

    def reading(self) -> ClockReading | None:
        """Return the server's clock reading, bracketed by ours; None before the answer."""
        if self._answer is None:
            return None
        raise_refusal(self._answer)
        return ClockReading(self._asked_ns, int(self._answer["t_ns"]), self._told_ns, str(self._answer["line"]))


START_TIMEOUT_S = 20.0  # a Python start on a loaded host
RETRY_S = 0.02
LOG_TAIL_LINES = 5


def ensure_server(runtime: Path | None = None) -> Path:
    """Return the socket of a running server; start one if needed.

    The server outlives this process.

    Args:
        runtime: the server's folder; None: `runtime_dir()`.

    Raises:
        LabStableError: the server could not start; the message has the end of its log.
        ConfigurationError: the folder cannot be used.
    """
    folder = prepare(runtime or runtime_dir())
    address = socket_path(folder)
    if _answers(address):
        return address
    log = log_path(folder)
    command = [sys.executable, "-P", "-m", "lab.console.server", "--runtime", str(folder), "--detach"]
    with log.open("ab") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd="/", start_new_session=True
        )
        try:
            status = process.wait(START_TIMEOUT_S)
            reason = f"exit status {status}"
        except subprocess.TimeoutExpired:
            process.kill()
            status = process.wait()
            reason = f"given up after {START_TIMEOUT_S:g} s; is this host very busy?"
    deadline = time.monotonic() + START_TIMEOUT_S
    while status == EXIT_TWICE and not _answers(address) and time.monotonic() < deadline:
        time.sleep(RETRY_S)  # another process was faster; its server is about to listen
    if _answers(address):
        return address
    tail = "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_TAIL_LINES:])
    raise LabStableError(
        f"the console server did not start ({reason}); the end of {log}:\n{tail}",
        failure="no_console_server",
    )


def _answers(address: Path) -> bool:
    try:
        ConsoleClient(address).close()
    except LabTransientError:
        return False
    return True
