"""Transports from a client to a console server."""

from __future__ import annotations

import os
import select
import socket
import time
from pathlib import Path
from typing import Final, Protocol

from attrs import frozen

from lab.console.protocol import CREDENTIALS
from lab.errors import ConfigurationError, LabTransientError
from lab.host.runtime import check_owner

RECEIVE_BYTES: Final = 65536


class Transport(Protocol):
    """The address of a server."""

    @property
    def label(self) -> str:
        """The address in messages."""

    @property
    def log(self) -> str:
        """Path of the server's log."""

    @property
    def hint(self) -> str:
        """Remedy for a vanished server: a sentence without its full stop."""

    def connect(self, timeout_s: float) -> UnixStream:
        """A new connection.

        Raises:
            LabTransientError: no server answers.
            ConfigurationError: another process answers than the expected one.
        """


@frozen
class UnixTransport:
    """A socket of this host.

    Attributes:
        path: in a folder of this user alone.
    """

    path: Path

    @property
    def label(self) -> str:
        return str(self.path)

    @property
    def log(self) -> str:
        return str(self.path.with_name("console.log"))

    @property
    def hint(self) -> str:
        return "The next run starts a new one"

    def connect(self, timeout_s: float) -> UnixStream:
        if self.path.parent.exists():
            check_owner(self.path.parent)
        opened = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        opened.settimeout(timeout_s)
        try:
            opened.connect(str(self.path))
        except OSError as error:
            opened.close()
            raise LabTransientError(
                f"no console server answers at {self.path}: {error.strerror or error}; "
                "start one with `lab console serve`",
                failure="no_console_server",
            ) from error
        try:
            return UnixStream(opened, self._peer(opened))
        except ConfigurationError:
            opened.close()
            raise

    def _peer(self, opened: socket.socket) -> int:
        """Return the listener's pid after checking its user."""
        credentials = opened.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
        pid, uid, _ = CREDENTIALS.unpack(credentials)
        if uid != os.getuid():
            raise ConfigurationError(
                f"{self.path}: pid {pid} of user {uid} listens there, and you are {os.getuid()}; "
                "set BOARDLAB_RUNTIME to a folder of your own"
            )
        return int(pid)


@frozen
class ForwardedTransport:
    """A forwarded socket of an exporter's server; no run starts it.

    Attributes:
        path: its socket on this host.
        host: the server's host.
        remote: the socket on that host.
    """

    path: Path
    host: str
    remote: str

    @property
    def label(self) -> str:
        return f"{self.remote} on {self.host}"

    @property
    def log(self) -> str:
        return f"{Path(self.remote).with_name('console.log')} there"

    @property
    def hint(self) -> str:
        return start_there(self.host)

    def connect(self, timeout_s: float) -> UnixStream:
        return UnixTransport(self.path).connect(timeout_s)


def start_there(host: str) -> str:
    """Return the remedy for a server of another host."""
    return f"Start one on {host}: systemctl start boardlab-console, or `lab console serve`"


class UnixStream:
    """A connection over a socket of this host.

    Its methods raise OSError when the connection has failed.

    Attributes:
        socket: which it takes over.
        pid: of the server's process; 0: it is on another host.
    """

    def __init__(self, opened: socket.socket, pid: int) -> None:
        self.socket = opened
        self.pid = pid

    def send(self, data: bytes, timeout_s: float) -> None:
        """Send all of it, or raise OSError."""
        self.socket.settimeout(timeout_s)
        self.socket.sendall(data)

    def receive(self, timeout_s: float) -> bytes | None:
        """Return received bytes; None: time-out; b"": the peer has hung up."""
        return self.socket.recv(RECEIVE_BYTES) if ready(self.socket, select.POLLIN, timeout_s) else None

    def fileno(self) -> int:
        """For select(2): readable when something may have come."""
        return self.socket.fileno()

    def close(self) -> None:
        self.socket.close()


def ready(opened: socket.socket, events: int, timeout_s: float) -> bool:
    """Wait until a socket can be read or written."""
    poll = select.poll()
    poll.register(opened, events)
    return bool(poll.poll(max(0.0, timeout_s) * 1000))


def remaining_s(deadline: float) -> float:
    """Until a time of time.monotonic(); 0.0: it is over."""
    return max(0.0, deadline - time.monotonic())
