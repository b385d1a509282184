"""Console through the console server: a SerialDriver whose bytes carry stamps."""

from __future__ import annotations

from pathlib import Path

import attr
from labgrid.driver import Driver
from labgrid.driver.consoleexpectmixin import ConsoleExpectMixin
from labgrid.factory import target_factory
from labgrid.protocol import ConsoleProtocol
from labgrid.resource import SerialPort
from pexpect import TIMEOUT

from lab.console.model import Chunk, Event, Gap, RecordKind
from lab.console.reader import ReconnectingReader
from lab.console.serial_line import PortRequest
from lab.console.status import PortInfo, PortStatus
from lab.drivers.consoleport import RETURN_S, ConsolePort, ConsoleReader, check_plugged
from lab.drivers.networkports import AUTO, TRANSPORTS, BareNetworkPort, port_of
from lab.drivers.typedline import TypedLine
from lab.errors import BoardlabError, LabTransientError
from lab.host.clock import MonotonicRaw
from lab.host.clockrelation import ClockRelation


@target_factory.reg_driver
@attr.s(eq=False)
class StampedConsoleDriver(ConsoleExpectMixin, Driver, ConsoleProtocol):
    """StampedConsoleDriver - a console that the console server owns, stamps and records.

    Put it in SerialDriver's place under UBootDriver and ShellDriver. The server is started when none runs, and goes on
    reading the port when this driver is deactivated. A NetworkSerialPort of `lab farm export` is read from the console
    server of its host; one of labgrid's own exporter has no stamps of its own, see docs/farm/remote-boards.md.

    Args:
        adapter_latency_ms (float): the USB adapter's latency timer, where sysfs does not tell it
        txdelay (float), txchunk (int): as of SerialDriver
        runtime (str): the console server's runtime directory; default as `lab console` has it
        transport (str): how another host's console server is reached, and its rails server and pdudaemon: "auto":
            directly where it is this host's, else through ssh; "ssh": so, and the console never directly

    Attributes:
        capture: what came since `start_capture`: a chunk per read(2) of the server, and what disturbed the reading.
        info: the port as the server opened it.
        board: name of the board that hangs on it, if its strategy has said it; `lab console` finds the port by it.
        away: its adapter went away, and was not back in time.
        lost: how a login's name was damaged on its way to the board since `start_capture`; empty: it was not.
    """

    bindings = {"port": {"SerialPort", "NetworkSerialPort"}}
    adapter_latency_ms: float | None = attr.ib(
        default=None, validator=attr.validators.optional(attr.validators.instance_of(float))
    )
    txdelay: float = attr.ib(default=0.0, validator=attr.validators.instance_of(float))
    txchunk: int = attr.ib(default=1, validator=attr.validators.instance_of(int))
    timeout: float = attr.ib(default=3.0, validator=attr.validators.instance_of(float))
    runtime: str = attr.ib(default="", validator=attr.validators.instance_of(str))
    transport: str = attr.ib(default=AUTO, validator=attr.validators.in_(TRANSPORTS))

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self._expect.delayafterread = None  # 100 µs a read that only terminals of its own children need
        self._client: ConsoleReader | None = None
        self._port: ConsolePort | None = None
        self._unread = b""
        self._device = ""
        self._overruns_before: int = 0
        self.capture: list[Event] = []
        self.info: PortInfo | None = None
        self.board: str | None = None
        self.away = False
        self.lost = ""

    def on_activate(self) -> None:
        self._port = port_of(self.port, self.runtime, self.transport)
        self._connect()
        self._unread = b""

    def on_deactivate(self) -> None:
        self._disconnect()
        self.forget_input()

    @property
    def local_device(self) -> str | None:
        """Port's device on this host; None: another host's, or away."""
        return self.port.port if isinstance(self.port, SerialPort) else None

    @property
    def simulated(self) -> bool:
        """Return whether the port's exporter reports a pseudo terminal."""
        return not isinstance(self.port, SerialPort) and port_of(self.port, self.runtime).pty

    @property
    def elsewhere(self) -> str:
        """Host of the port and board; empty: this one."""
        return port_of(self.port, self.runtime, self.transport).elsewhere

    @property
    def board_host(self) -> str:
        """Known other host of the board's USB and network.

        Empty: this one, or a terminal server, which knows nothing of them.
        """
        port = port_of(self.port, self.runtime, self.transport)
        return "" if isinstance(port, BareNetworkPort) and self.port.parent is None else port.elsewhere

    @property
    def relation(self) -> ClockRelation | None:
        """Relation of the stamps' clock to this host's; None: the same."""
        return self._port.relation() if self._port is not None else None

    def _connect(self) -> ConsoleReader:
        if self._client is not None:
            return self._client
        check_plugged(self.port, self._device)
        port = self._port or port_of(self.port, self.runtime, self.transport)
        latency_ns = None if self.adapter_latency_ms is None else round(self.adapter_latency_ms * 1e6)
        self._client, self.info = port.connect(
            PortRequest(Path(str(self.port.port)), self.port.speed, latency_ns, board=self.board or "")
        )
        self._port = port
        self._device = port.device()
        self.away = False
        return self._client

    def _disconnect(self) -> None:
        if self._client is not None:
            self._client.close()
        self._client = None

    def start_capture(self) -> None:
        """Forget what was read before; `capture` grows from here."""
        self.capture = []
        self.lost = ""
        self.forget_input()
        try:
            if self.relation is not None:
                self.relation.at(MonotonicRaw().now_ns())
        except LabTransientError:  # a clock has jumped: a new connection relates them anew
            self._disconnect()
        self._overruns_before = self._overruns()

    def overruns(self) -> int:
        """Characters that the port's driver lost since `start_capture`.

        0: the driver does not count.
        """
        return max(0, self._overruns() - self._overruns_before)

    def check_clock(self, since_ns: int) -> None:
        """Make sure that the stamps' clock is related to this host's.

        It must be from the given instant of it until now.

        Raises:
            LabTransientError: it is not (`clock_unrelated`), or its host does not answer; the measurement has to be
                discarded.
        """
        if self.relation is None or not isinstance(self._client, ReconnectingReader):
            return
        client, clock = self._client, MonotonicRaw()
        try:
            client.read_clock()
            client.relation.at(since_ns - client.relation.at(clock.now_ns()).ns)
        except LabTransientError:
            self._disconnect()  # the next use relates the clocks anew
            raise

    @Driver.check_active
    def sync(self) -> bool:
        """Wait until the server has delivered all bytes into `capture`.

        Returns: True: bytes came.

        Raises:
            LabTransientError: the server does not answer.
        """
        self._port_status()  # its answer comes behind what it had read before
        return bool(self.poll(0))

    def forget_input(self) -> None:
        """Drop the unread input; `capture` keeps it."""
        self._unread = b""
        # pexpect keeps what it read before a timeout twice, and fills its buffer from the second copy.
        self._expect.buffer = b""
        self._expect._before = self._expect.buffer_type()

    def blame_sharing(self, error: BoardlabError) -> BoardlabError:
        """Explain a failure by other readers: `console_shared`, or unchanged."""
        return self._port.blame_sharing(error) if self._port is not None else error

    def captured(self) -> bytes:
        """The bytes of `capture`."""
        return b"".join(event.data for event in self.capture if isinstance(event, Chunk))

    @Driver.check_active
    def poll(self, timeout: float) -> bool:
        """Wait for bytes; True: they are in `capture` and labgrid's log."""
        data = self._fetch(timeout)
        if data:
            self._unread += data
            self.read()
        return bool(data)

    @Driver.check_active
    def catch_up(self) -> bool:
        """Read what came while nobody waited for it; True: bytes came.

        An adapter that went away meanwhile and is back has done no harm.

        Raises:
            LabTransientError: it is away (`adapter_lost`), or the server does not answer.
        """
        first = count = len(self.capture)
        while True:
            try:
                self.poll(0)
                return any(isinstance(event, Chunk) for event in self.capture[first:])
            except LabTransientError as error:
                is_over = len(self.capture) > count and not self.away
                if not is_over or error.failure not in {"adapter_lost", "adapter_renumbered"}:
                    raise
            count = len(self.capture)

    @Driver.check_active
    def answers(self, timeout: float) -> bool:
        """Send a carriage return; whether anything came back within `timeout` seconds."""
        self._write(b"\r")
        return bool(self.poll(timeout)) or bool(self.sync())

    @Driver.check_active
    def sendline(self, line: str | bytes) -> None:
        """Type a line at the board's prompt; it is entered once its echo proves it.

        Raises:
            LabTransientError: characters of each try were lost (`characters_lost`).
            TIMEOUT: the board does not answer.
        """
        text = line.encode() if isinstance(line, str) else line
        if not text:
            self.write(b"\n")
            return
        self.poll(0)
        matched = self._expect.after
        self.forget_input()
        prompt = self._last_line() or (matched if isinstance(matched, bytes) else b"")
        typed = TypedLine(self, text, prompt)
        try:
            typed.enter()
        finally:
            self.lost = self.lost or typed.lost

    def _last_line(self) -> bytes:
        """The console's text since its last line end."""
        text = b""
        for event in reversed(self.capture):
            if isinstance(event, Chunk):
                text = event.data + text
                if b"\n" in event.data:
                    break
        return text.rpartition(b"\n")[2]

    @Driver.check_active
    def receive(self, timeout: float) -> bytes:
        """Return the bytes that come within `timeout` seconds.

        Bytes of another reader are left out. It is no step of labgrid's.
        """
        try:
            return self._read(timeout=timeout)
        except TIMEOUT:
            return b""

    @Driver.check_active
    def send(self, data: bytes) -> None:
        """Send binary data without a step of labgrid's.

        The log of such a step would hold a whole file.
        """
        self._write(data)

    def unread(self, data: bytes) -> None:
        """Return bytes to the next read, e.g. a prompt.

        Another driver wants to see it.
        """
        self._unread = data + self._unread

    def _read(self, size: int = 1, timeout: float = 0.0, max_size: int | None = None) -> bytes:
        if not self._unread:
            self._unread = self._fetch(timeout)
            if not self._unread:
                raise TIMEOUT(f"nothing on {self._device} within {timeout:.2f} s")
        count = max_size or len(self._unread)
        data, self._unread = self._unread[:count], self._unread[count:]
        return data

    def _fetch(self, timeout: float) -> bytes:
        """Wait for an event and return all bytes; empty: none in time."""
        data = []
        event = self._next_event(timeout)
        while event is not None:
            self.capture.append(event)
            if isinstance(event, Chunk):
                data.append(event.data)
            elif isinstance(event, Gap) and event.kind is RecordKind.LOST:
                raise self._lost_error()
            event = self._next_event(0)
        return b"".join(data)

    def _overruns(self) -> int:
        status = self._port_status()
        errors = status.line_errors if status is not None else None
        return sum((errors or {}).get(name, 0) for name in ("overrun", "buf_overrun"))

    def _port_status(self) -> PortStatus | None:
        try:
            client = self._connect()
            name = None if self.info is None else self.info.name
            ports = client.status(name).ports
        except LabTransientError:
            self._disconnect()
            raise
        return next((port for port in ports if port.info.name == name), None)

    def _lost_error(self) -> LabTransientError:
        """Wait for a lost adapter and describe its return."""
        was, back = self._device, False
        while not back and (event := self._next_event(RETURN_S)) is not None:
            self.capture.append(event)
            back = isinstance(event, Gap) and event.kind is RecordKind.BACK
        self.away = not back
        self._device = self._port.device() if self._port is not None else was
        look = "look at the adapter, its cable and its hub (dmesg)"
        if back and self._device != was:
            return LabTransientError(
                f"{was} went away while it was read, and is back as {self._device}: {look}. An env that names the "
                "adapter by what udev knows of it (USBSerialPort) finds it under any number",
                failure="adapter_renumbered",
            )
        ending = "and is back as the same device" if back else f"and is not back after {RETURN_S:g} s"
        return LabTransientError(f"{was} went away while it was read, {ending}: {look}", failure="adapter_lost")

    def _next_event(self, timeout: float) -> Event | None:
        try:
            return self._connect().read_event(timeout)
        except LabTransientError:
            self._disconnect()  # the next use finds or starts a server again
            raise

    def _write(self, data: bytes) -> int:
        try:
            self._connect().write(data)
        except LabTransientError:
            self._disconnect()
            raise
        return len(data)
