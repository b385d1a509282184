"""RFC 2217 server (telnet with serial settings) for a console port.

Its clients share the port with all other readers: each gets every byte. The first client that types becomes the writer
until it hangs up; if another client is the writer, typed bytes are dropped, and the terminal shows that once. The
server sets the speed. On loopback only root, the server's user and the members of its group are let in; ssh's forwards
are of the user who logged in.
"""

from __future__ import annotations

import contextlib
import logging
import select
import socket
import struct
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import serial
from serial import rfc2217

from lab.console.client import ConsoleClient
from lab.console.model import Chunk, Gap, RecordKind
from lab.errors import BoardlabError
from lab.host.clock import MonotonicRaw
from lab.host.tcp import family_of, is_loopback, keep_alive, may_use, own_group, peer_user

_RECEIVE_BYTES: Final = 4096
_IAC: Final = b"\xff"  # of telnet (RFC 854), doubled where it is data
_SUBOPTION_BYTES: Final = 8192  # bytes of a negotiation that does not end
_AGAIN_S: Final = 0.2  # after a client that could not be accepted
_log = logging.getLogger(__name__)


class _TelnetError(Exception):
    """A client's bytes are no telnet."""


class Bridge:
    """Serves one port to TCP clients, each in its own thread.

    Attributes:
        port: the TCP port that it listens on.
    """

    def __init__(
        self,
        socket_path: Path,
        device: Callable[[], str],
        speed_bd: int,
        listen: str = "127.0.0.1",
        user_of: Callable[[socket.socket], int | None] = peer_user,
    ) -> None:
        """Listen at this address.

        Args:
            socket_path: the console server's.
            device: path of the serial port; asked for at each connection.
            user_of: gives the user id of a client of this host; None: unknown.

        Raises:
            OSError: the address is not this host's.
        """
        self._path, self._device, self._speed_bd = socket_path, device, speed_bd
        self._guests: set[socket.socket] = set()
        self._user_of = user_of
        self._listener = socket.create_server((listen, 0), family=family_of(listen))
        self.port: int = self._listener.getsockname()[1]
        self._closing = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Stop listening, and hang up."""
        self._closing.set()
        with contextlib.suppress(OSError):  # which ends accept(2) in its thread, as close alone does not
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for guest in list(self._guests):
            with contextlib.suppress(OSError):
                guest.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while not self._closing.is_set():
            try:
                guest, _ = self._listener.accept()
            except OSError as error:
                if not self._closing.wait(_AGAIN_S):  # e.g. no file descriptor is free; the next one may find one
                    _log.warning("port %d: a client was not accepted: %s", self.port, error)
                continue
            self._guests.add(guest)
            threading.Thread(target=self._serve, args=(guest,), daemon=True).start()

    def _serve(self, guest: socket.socket) -> None:
        """Serve one client until it or the console server hangs up."""
        try:
            with guest:
                keep_alive(guest)  # a vanished client loses the port within a minute
                if not self._admits(guest):
                    return
                try:
                    with ConsoleClient(self._path) as console:
                        info = console.open(self._device(), self._speed_bd)
                        console.attach(info.name, since=info.position)
                        _Guest(guest, console, info.name, info.meta.speed_bd).follow()
                except BoardlabError as error:
                    _log.warning("%s", error)
                    guest.sendall(_notice(str(error)))
        except OSError:
            pass  # it hung up
        except _TelnetError as error:
            _log.warning("port %d: a client is hung up on: %s", self.port, error)
        finally:
            self._guests.discard(guest)

    def _admits(self, guest: socket.socket) -> bool:
        """True if a client may use the port; else it is told."""
        if not is_loopback(guest.getsockname()[0]):
            return True
        uid = self._user_of(guest)
        if uid is not None and may_use(uid):
            return True
        _log.warning("port %d: a client of user %s is refused", self.port, uid)
        guest.sendall(_notice(f"only members of the group {own_group()} may use this console"))
        return False


class _Line:
    """The serial settings for pyserial's RFC 2217 server; clients cannot change them."""

    bytesize, parity, stopbits = serial.EIGHTBITS, serial.PARITY_NONE, serial.STOPBITS_ONE
    dtr = rts = cts = dsr = cd = True
    ri = xonxoff = rtscts = break_condition = False

    def __init__(self, speed_bd: int) -> None:
        self._speed_bd = speed_bd

    @property
    def baudrate(self) -> int:
        return self._speed_bd

    @baudrate.setter
    def baudrate(self, speed_bd: int) -> None:
        if speed_bd != self._speed_bd:
            raise ValueError("the speed is the console server's to set")

    def reset_input_buffer(self) -> None:
        """Nothing is thrown away."""

    def reset_output_buffer(self) -> None:
        """Nothing is thrown away."""


class _Guest:
    """A TCP client and its reader of the port."""

    def __init__(self, guest: socket.socket, console: ConsoleClient, name: str, speed_bd: int) -> None:
        self._guest, self._console, self._name = guest, console, name
        self._began_ns = MonotonicRaw().now_ns()  # earlier losses are reported at the first byte
        self._writes = False
        self._notified = False
        self._telnet: Any = rfc2217.PortManager(_Line(speed_bd), SimpleNamespace(write=guest.sendall))

    def follow(self) -> None:
        """Hand bytes on in both directions."""
        poll = select.poll()
        for fd in (self._guest.fileno(), self._console.fileno()):
            poll.register(fd, select.POLLIN)
        while True:
            while (event := self._console.read_event(0)) is not None:
                if isinstance(event, Chunk):
                    self._guest.sendall(event.data.replace(_IAC, _IAC + _IAC))
                elif isinstance(event, Gap) and event.kind is RecordKind.LOST and event.t_ns >= self._began_ns:
                    self._guest.sendall(_notice("the serial adapter went away"))
            if any(fd == self._guest.fileno() for fd, _ in poll.poll()):
                data = self._guest.recv(_RECEIVE_BYTES)
                if not data:
                    return
                self._type(self._without_commands(data))

    def _without_commands(self, data: bytes) -> bytes:
        """Return the typed bytes without telnet's commands."""
        try:
            typed = b"".join(self._telnet.filter(data))
        except (TypeError, ValueError, struct.error) as error:
            raise _TelnetError(f"bad telnet: {error}") from error
        if len(self._telnet.suboption or b"") > _SUBOPTION_BYTES:
            raise _TelnetError(f"a negotiation of more than {_SUBOPTION_BYTES} bytes")
        return typed

    def _type(self, data: bytes) -> None:
        if not data:
            return
        try:
            if not self._writes:
                self._console.attach(self._name, write=True)
                self._writes = True
            self._console.write(data)
        except BoardlabError as error:
            if error.failure != "console_busy":
                raise
            if not self._notified:
                self._notified = True
                self._guest.sendall(_notice(f"read only: {error}"))


def _notice(text: str) -> bytes:
    """Format our own message for a terminal."""
    return f"\r\n[boardlab: {text}]\r\n".encode("ascii", "replace")
