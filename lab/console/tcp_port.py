"""A serial port that another program serves over TCP.

Its bytes are stamped at their arrival on this host.

Every stamp includes the exporter's ser2net, the network and its retransmissions. A bound cannot be proved; `HOLD_NS` is
the assumed one, and every number from it has the flag `remote_stamp`.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any, Final

import serial
from attrs import frozen

from lab.console.lookup import BARE_ADAPTER
from lab.console.model import Chunk, Event
from lab.console.recording import RecordingMeta
from lab.console.status import PortInfo, ServerStatus
from lab.errors import ConfigurationError, LabTransientError
from lab.host.clock import Clock, MonotonicRaw, utc_now
from lab.host.tcp import keep_alive

# ser2net without `nodelay` holds bytes back for up to 48 ms (measured); a lost segment comes again after 200 ms at the
# earliest (Linux's TCP_RTO_MIN).
HOLD_NS: Final = 250_000_000
RAW, RFC2217 = "raw", "rfc2217"
_CONNECT_S: Final = 15.0
_RECEIVE_BYTES: Final = 65536


@frozen
class RawTcpPort:
    """Address and protocol of the port."""

    host: str
    tcp: int
    protocol: str
    speed_bd: int

    def __str__(self) -> str:
        """For messages."""
        return f"{self.protocol}://{self.host}:{self.tcp}"


class RawTcpClient:
    """Reads such a port, as `ConsoleClient` does.

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
            raise self._lost(f"does not answer: {error}") from error
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
            raise self._lost(str(error)) from error
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
            raise self._lost(str(error)) from error

    def status(self, name: str | None = None) -> ServerStatus:  # noqa: ARG002 - as ConsoleClient has it
        """Return None: without a console server there is no status."""
        return ServerStatus(os.getpid(), "", "", "", [])

    def close(self) -> None:
        """Hang up."""
        self._line.close()

    def _lost(self, why: str) -> LabTransientError:
        return LabTransientError(
            f"{self._port}: {why}. Is the place acquired, and does the exporter's ser2net run? Bytes that came meanwhile are lost",
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
