"""The server's client connections: accept, serve and end them."""

from __future__ import annotations

import logging
import resource
import select
import socket
from collections.abc import Callable
from pathlib import Path

from lab.console.connection import Connection
from lab.console.port import ServedPort
from lab.console.protocol import Frame, FrameType, Message, encode_message, refusal
from lab.errors import LabStableError, LabTransientError

PATIENCE_BEATS = 100  # five seconds for a client to say who it is, and to read why it is sent away
MAX_CLIENTS = 1024
_LOGGED_BYTES = 200  # of a frame that we fail at
_log = logging.getLogger(__name__)


class Clients:
    """The clients of the server, and the ports they are attached to.

    No client can end the server: forbidden requests are refused, unexpected failures are logged and
    refused, and half of the file descriptors are reserved for ports.
    """

    def __init__(self, address: Path, epoll: select.epoll, answer: Callable[[Connection, Frame], Message]) -> None:
        """Listen at `address`, replacing a stale socket.

        Args:
            answer: returns the answer to a frame.
        """
        self._address = address
        self._epoll = epoll
        self._answer = answer
        self._connections: dict[int, Connection] = {}
        self._attached: dict[int, ServedPort] = {}  # by the connection's file descriptor
        self._beats_left: dict[int, int] = {}  # beats that are left to connections that are new or closing
        self._most = min(MAX_CLIENTS, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)
        self._full = False
        address.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.setblocking(False)
        self._listener.bind(str(address))
        self._inode = _inode(address)
        self._listener.listen()
        epoll.register(self._listener.fileno(), select.EPOLLIN)

    def attach(self, connection: Connection, port: ServedPort, write: bool, since: int | None = None) -> None:
        """Attach a client to a port; end its session's older connection.

        Raises:
            BoardlabError: another client is the writer, or the connection is attached to another port.
        """
        if self._attached.get(connection.fd, port) is not port:
            raise LabStableError(
                f"this connection is attached to another port than {port.meta.name}; use one for each"
            )
        for fd in [fd for fd, at in self._attached.items() if at is port and fd != connection.fd]:
            if connection.session and self._connections[fd].session == connection.session:
                self._hang_up(self._connections[fd])
        port.attach(connection, write, since)
        self._attached[connection.fd] = port

    def port_of(self, connection: Connection) -> ServedPort | None:
        """The port that a client is attached to."""
        return self._attached.get(connection.fd)

    def disconnect(self, port: ServedPort) -> None:
        """End the connections that are attached to a port."""
        for fd in [fd for fd, attached in self._attached.items() if attached is port]:
            self._connections[fd].end()

    def serve(self, fd: int, mask: int) -> None:
        """Handle an event; ignore stale events of closed descriptors."""
        if fd == self._listener.fileno():
            self._accept()
        elif (connection := self._connections.get(fd)) is not None:
            if mask & select.EPOLLOUT:
                connection.flush()
            if connection.closing:
                if connection.done or mask & (select.EPOLLHUP | select.EPOLLERR):
                    self._hang_up(connection)
            elif mask & ~select.EPOLLOUT:
                self._hear(connection)

    def beat(self) -> None:
        """At a heartbeat: accept again, and end silent or lingering connections."""
        self._epoll.modify(self._listener.fileno(), select.EPOLLIN)
        temporary = [client for client in self._connections.values() if client.closing or not client.greeted]
        self._beats_left = {client.fd: self._beats_left.get(client.fd, PATIENCE_BEATS) - 1 for client in temporary}
        for client in temporary:
            if client.done or self._beats_left[client.fd] < 0:
                self._hang_up(client)

    @property
    def reachable(self) -> bool:
        """False: new clients find no socket at the address, or another server's."""
        return _inode(self._address) == self._inode

    def close(self) -> None:
        """Flush and end all connections; stop listening."""
        for connection in list(self._connections.values()):
            connection.flush()
            self._hang_up(connection)
        self._listener.close()
        if self.reachable:  # else it is the socket of a later server
            self._address.unlink(missing_ok=True)

    def _accept(self) -> None:
        try:
            sock, _ = self._listener.accept()
        except OSError as error:
            self._note_full(f"cannot accept a client: {error}")
            self._epoll.modify(self._listener.fileno(), 0)  # until the next beat, lest the loop spins
            return
        try:
            if len(self._connections) >= self._most:
                self._note_full(f"{self._most} clients are connected; no more are accepted")
                refused = LabTransientError(
                    f"the console server has {self._most} clients, and takes no more; end some of them",
                    failure="console_full",
                )
                with sock:
                    sock.setblocking(False)
                    sock.send(encode_message(FrameType.ANSWER, refusal(refused)))
                return
            connection = Connection(sock, self._epoll)
        except OSError as error:
            sock.close()
            self._note_full(f"cannot serve a client: {error}")
            return
        self._full = False
        self._connections[connection.fd] = connection

    def _note_full(self, what: str) -> None:
        """Log the limit once, until a client is accepted again."""
        if not self._full:
            _log.error("%s", what)
        self._full = True

    def _hear(self, connection: Connection) -> None:
        try:
            frames = connection.receive()
        except ValueError as error:
            _log.warning("pid %d does not speak the protocol: %s", connection.pid, error)
            frames = None
        if frames is None:
            self._hang_up(connection)
            return
        for frame in frames:
            connection.answer(self._answer_or_refuse(connection, frame))

    def _answer_or_refuse(self, connection: Connection, frame: Frame) -> Message:
        """Answer a frame; turn any failure into a refusal."""
        try:
            return self._answer(connection, frame)
        except Exception:  # noqa: BLE001 - whatever it is, it is logged, and concerns this client only
            start = frame.payload[:_LOGGED_BYTES]
            _log.exception("pid %d: a %s frame that we fail at: %r", connection.pid, frame.type.name, start)
            error = LabStableError(
                "the console server failed at this request, and goes on; its log says where: report it as a bug",
                failure="console_server_fault",
            )
            return refusal(error)

    def _hang_up(self, connection: Connection) -> None:
        port = self._attached.pop(connection.fd, None)
        if port is not None:
            port.detach(connection)
        del self._connections[connection.fd]
        self._beats_left.pop(connection.fd, None)  # its number may be the next one's
        connection.close()


def _inode(path: Path) -> tuple[int, int] | None:
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
