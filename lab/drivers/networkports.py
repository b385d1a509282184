"""Serial ports of other hosts.

They are behind a console server there, or bare TCP ports of labgrid's stock exporter. The bytes of a bare port are
stamped at their arrival on this host: every stamp includes the exporter's ser2net, the network and its
retransmissions. A bound cannot be proved; `HOLD_NS` is the assumed one, and every number from it has the flag
`remote_stamp`.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import serial
from attrs import define, evolve, field, frozen
from labgrid.resource import SerialPort
from labgrid.util.proxy import proxymanager

from lab.console.client import ConsoleClient
from lab.console.model import Chunk, Event
from lab.console.published import BARE_ADAPTER, PublishedPort
from lab.console.reader import ELSEWHERE_S, ReconnectingReader
from lab.console.recording import RecordingMeta
from lab.console.serial_line import PortRequest
from lab.console.status import PortInfo, ServerStatus
from lab.console.transport import ForwardedTransport
from lab.drivers.consoleport import ConsolePort, ConsoleReader, LocalPort
from lab.errors import BoardlabError, ConfigurationError, LabTransientError
from lab.host.clock import Clock, MonotonicRaw, utc_now
from lab.host.clockrelation import ClockRelation
from lab.host.runtime import prepare, runtime_dir
from lab.host.ssh import SshLink
from lab.host.tcp import is_own, keep_alive
from lab.rails.remote import RailsServer

AUTO: Final = "auto"
SSH: Final = "ssh"
TRANSPORTS: Final = (AUTO, SSH)
# ser2net without `nodelay` holds bytes back for up to 48 ms (measured); a lost segment comes again after 200 ms at the
# earliest (Linux's TCP_RTO_MIN).
HOLD_NS: Final = 250_000_000
RAW, RFC2217 = "raw", "rfc2217"
_CONNECT_S: Final = 15.0
_RECEIVE_BYTES: Final = 65536


def port_of(port: Any, runtime: str, transport: str = AUTO) -> ConsolePort:
    """A SerialPort or a NetworkSerialPort of labgrid's as a console reads it.

    Raises:
        ConfigurationError: an exporter of ours says too little of it.
    """
    if isinstance(port, SerialPort):
        return LocalPort(port, runtime)
    published = PublishedPort.of(getattr(port, "extra", None) or {})
    if published is None:
        return BareNetworkPort(port)
    return RemotePort(published, runtime, transport)


@define
class RemotePort:
    """A port behind a console server, here or on another host.

    Attributes:
        transport: "auto": directly where the server is on this host, else through ssh. "ssh": so, also on this host.
    """

    published: PublishedPort
    runtime: str
    transport: str = AUTO
    _relation: ClockRelation | None = field(default=None, init=False)

    @property
    def label(self) -> str:
        return f"{self.published.host}:{self.published.device}"

    @property
    def pty(self) -> bool:
        return self.published.pty

    @property
    def elsewhere(self) -> str:
        return "" if self.published.is_here else self.published.host

    def connect(self, request: PortRequest) -> tuple[ConsoleReader, PortInfo]:
        published = self.published
        theirs = evolve(request, device=Path(published.device))
        connect: Callable[[], ConsoleClient]
        if self.transport == AUTO and self._is_here:
            transport = ForwardedTransport(Path(published.socket), published.host, published.socket)
            connect, reset = partial(ConsoleClient, transport), _nothing
        else:
            ssh = _SshSocket(self._link(), published.socket)
            connect, reset = ssh.connect, ssh.reset
        try:
            client = ReconnectingReader(connect, reset, theirs, published.host, write=True)
        except LabTransientError as error:
            if error.failure != "port_missing":
                raise
            raise LabTransientError(f"on {published.host}: {error}", failure=error.failure) from error
        self._relation = client.relation
        return client, client.info

    def relation(self) -> ClockRelation | None:
        return None if self._relation is None or self._relation.same else self._relation

    def rails_server(self) -> RailsServer:
        """The rails server of the port's host, reached as the port is.

        Raises:
            LabTransientError: none runs there.
        """
        published = self.published
        if not published.rails:
            raise LabTransientError(
                f"no rails server runs on {published.host}, where the console is: `lab rails serve` there, beside the "
                "console server (systemctl start boardlab-rails)",
                failure="power_sampler",
            )
        runtime = self._runtime
        if self.transport != SSH and self._is_here:
            return RailsServer(lambda: Path(published.rails), published.host, runtime)
        link = self._link()
        return RailsServer(partial(link.forward, published.rails), published.host, runtime)

    @property
    def _is_here(self) -> bool:
        """Return whether the sockets are on this host."""
        return self.published.is_here and os.access(self.published.socket, os.W_OK)

    def _link(self) -> SshLink:
        return SshLink.to(self.published.host, self._runtime)

    @property
    def _runtime(self) -> Path:
        return prepare(Path(self.runtime) if self.runtime else runtime_dir())

    def device(self) -> str:
        return self.label

    def blame_sharing(self, error: BoardlabError) -> BoardlabError:
        """Return the error; other readers are not visible from here."""
        return error


@define
class BareNetworkPort:
    """A NetworkSerialPort without stamps.

    It is of labgrid's stock exporter, or of another server of RFC 2217 or raw TCP.
    """

    port: Any
    pty: bool = False

    @property
    def label(self) -> str:
        return f"{self.port.host}:{self.port.port}"

    @property
    def elsewhere(self) -> str:
        return "" if is_own(str(self.port.host)) else str(self.port.host)

    def connect(self, request: PortRequest) -> tuple[ConsoleReader, PortInfo]:
        host, tcp = proxymanager.get_host_and_port(self.port)
        client = RawTcpClient(RawTcpPort(host, int(tcp), self.port.protocol, request.speed_bd or self.port.speed))
        return client, client.info

    def relation(self) -> ClockRelation | None:
        """None: the stamps are this host's."""
        return None

    def device(self) -> str:
        return self.label

    def blame_sharing(self, error: BoardlabError) -> BoardlabError:
        """Return the error; other readers are not visible from here."""
        return error


@define
class _SshSocket:
    """One reader's connection to a socket of another host.

    Attributes:
        generation: the connection of ssh that its client uses.
    """

    link: SshLink
    remote: str
    generation: str = ""

    def connect(self) -> ConsoleClient:
        local = self.link.forward(self.remote)
        self.generation = self.link.generation()
        return ConsoleClient(ForwardedTransport(local, self.link.host, self.remote), ELSEWHERE_S)

    def reset(self) -> None:
        self.link.reset(self.generation)


def _nothing() -> None:
    """There is no connection that others share."""


@frozen
class RawTcpPort:
    """Address and protocol of a serial port served over TCP."""

    host: str
    tcp: int
    protocol: str
    speed_bd: int

    def __str__(self) -> str:
        """For messages."""
        return f"{self.protocol}://{self.host}:{self.tcp}"


class RawTcpClient:
    """Reads a `RawTcpPort` with the methods of `ConsoleClient`.

    Attributes:
        info: the port's description.
    """

    def __init__(self, port: RawTcpPort, clock: Clock | None = None) -> None:
        """Connect.

        Raises:
            ConfigurationError: an unknown protocol.
            LabTransientError: no server answers.
        """
        self._port, self._clock, self._position = port, clock or MonotonicRaw(), 0
        if port.protocol not in {RAW, RFC2217}:
            raise ConfigurationError(f"{port}: the protocol of a NetworkSerialPort is {RAW} or {RFC2217}")
        try:
            self._line: Any = _Raw(port) if port.protocol == RAW else _telnet(port)
        except (OSError, serial.SerialException) as error:
            raise self._lost_error(f"does not answer: {error}") from error
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        meta = RecordingMeta(
            name=f"{port.host}-{port.tcp}",
            device=str(port),
            speed_bd=port.speed_bd,
            adapter_latency_ns=HOLD_NS,
            adapter=BARE_ADAPTER,
            boot_id=boot,
            started=utc_now().isoformat(),
        )
        self.info = PortInfo(meta, "", 0)

    def read_event(self, timeout_s: float) -> Event | None:
        """Return the bytes of the next read with their stamp, or None.

        Raises:
            LabTransientError: the server has hung up.
        """
        try:
            data = self._line.receive(timeout_s)
        except (OSError, serial.SerialException) as error:
            raise self._lost_error(str(error)) from error
        t_ns = self._clock.now_ns()
        if not data:
            return None
        chunk = Chunk(t_ns, self._position, data)
        self._position = chunk.end
        return chunk

    def write(self, data: bytes) -> None:
        """Send bytes.

        Raises:
            LabTransientError: the server has hung up.
        """
        try:
            self._line.write(data)
        except (OSError, serial.SerialException) as error:
            raise self._lost_error(str(error)) from error

    def status(self, name: str | None = None) -> ServerStatus:
        """An empty status: there is no console server."""
        return ServerStatus(os.getpid(), "", "", "", [])

    def close(self) -> None:
        """Hang up."""
        self._line.close()

    def _lost_error(self, why: str) -> LabTransientError:
        return LabTransientError(
            f"{self._port}: {why}. Is the place acquired, and does the exporter's ser2net run? Bytes that came "
            "meanwhile are lost",
            failure="port_lost",
        )


class _Raw:
    """Raw TCP, in blocks as they come."""

    def __init__(self, port: RawTcpPort) -> None:
        self._socket = socket.create_connection((port.host, port.tcp), _CONNECT_S)
        keep_alive(self._socket)  # a host that is gone without a word is no silent board

    def receive(self, timeout_s: float) -> bytes:
        self._socket.settimeout(timeout_s)
        try:
            data = self._socket.recv(_RECEIVE_BYTES)
        except (TimeoutError, BlockingIOError):
            return b""
        if not data:
            raise ConnectionResetError("the other end has hung up")
        return data

    def write(self, data: bytes) -> None:
        self._socket.settimeout(_CONNECT_S)
        self._socket.sendall(data)

    def close(self) -> None:
        self._socket.close()


class _Telnet:
    """RFC 2217, as pyserial speaks it."""

    def __init__(self, line: Any) -> None:
        self._line = line

    def receive(self, timeout_s: float) -> bytes:
        waiting = self._line.in_waiting
        if not waiting:
            self._line.timeout = timeout_s
        data: bytes = self._line.read(max(1, waiting))
        return data + self._line.read(self._line.in_waiting) if data else data

    def write(self, data: bytes) -> None:
        self._line.write(data)

    def close(self) -> None:
        self._line.close()


def _telnet(port: RawTcpPort) -> _Telnet:
    url = f"rfc2217://{port.host}:{port.tcp}?ign_set_control&timeout={_CONNECT_S:g}"
    line = serial.serial_for_url(url, baudrate=port.speed_bd, timeout=0)
    keep_alive(line._socket)  # as of _Raw; pyserial has no option for it
    return _Telnet(line)
