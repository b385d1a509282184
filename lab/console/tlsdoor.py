"""A server of another host that is no console, reached through the TLS front of that host; see `lab.console.tlswords`."""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Callable
from functools import partial
from select import POLLIN, POLLOUT, poll
from socket import socket
from typing import TypeVar

from attrs import frozen

from lab.console.stream import left_s
from lab.console.tlsway import TlsWay
from lab.console.tlswords import LINE_BYTES, check_admitted
from lab.errors import ConfigurationError
from lab.host.tcp import first_line

Result = TypeVar("Result")


@frozen
class TlsDoor:
    """One of the servers behind a front.

    Attributes:
        wanted: its name, see `lab.console.tlswords`.
    """

    way: TlsWay
    wanted: str

    def connect(self, timeout_s: float) -> ssl.SSLSocket:
        """A new connection with that server, for one thread.

        Raises:
            LabTransientError: the front does not answer (`console_link`).
            ConfigurationError: one end refuses the other, or the front does not serve this, or is of an earlier boardlab.
            ConnectionRefusedError: the server behind the front does not answer.
        """
        deadline = time.monotonic() + timeout_s
        opened = self.way.opened((self.wanted, self.wanted.partition(":")[0]), timeout_s)
        try:
            opened.settimeout(max(left_s(deadline), 0.001))
            self._pass(opened)
            opened.settimeout(timeout_s)
        except BaseException:
            opened.close()
            raise
        return opened

    def _pass(self, opened: ssl.SSLSocket) -> None:
        shown = self.way.shown
        if opened.selected_alpn_protocol() is None:
            raise ConfigurationError(
                f"{shown}: `lab console tls` there is of an earlier boardlab, which serves only consoles: update it and start it again, or "
                "have the console's driver go by `transport: ssh`"
            )
        try:
            line = first_line(opened.recv, LINE_BYTES)
        except OSError as error:
            raise self.way.hung_up(error) from error
        if not line:
            raise self.way.hung_up(ConnectionResetError())
        check_admitted(line, shown)


class SharedTls:
    """A connection that one thread reads while another one writes, with the methods of a socket.

    OpenSSL lets only one thread at a time use a connection (openssl-threads(7)), so none waits within it.
    """

    def __init__(self, opened: ssl.SSLSocket) -> None:
        """Take `opened` over."""
        self._timeout_s = opened.gettimeout()
        opened.setblocking(False)
        self._opened = opened
        self._using, self._sending = threading.Lock(), threading.Lock()

    def settimeout(self, timeout_s: float | None) -> None:
        """As of a socket."""
        self._timeout_s = timeout_s

    def recv(self, size: int, /) -> bytes:
        """As of a socket."""
        return self._done(partial(self._opened.recv, size))

    def sendall(self, data: bytes, /) -> None:
        """As of a socket; of two that send at the same time, one after the other."""
        rest = memoryview(data)
        with self._sending:
            while rest:
                rest = rest[self._done(partial(self._opened.send, rest)) :]

    def shutdown(self, how: int, /) -> None:
        """As of a socket, without a word of TLS: it wakes who waits here."""
        socket.shutdown(self._opened, how)

    def close(self) -> None:
        """As of a socket."""
        self._opened.close()

    def _done(self, step: Callable[[], Result]) -> Result:
        """Do it as soon as that is possible without waiting."""
        deadline = None if self._timeout_s is None else time.monotonic() + self._timeout_s
        while True:
            try:
                with self._using:
                    return step()
            except ssl.SSLWantReadError:
                events = POLLIN
            except ssl.SSLWantWriteError:
                events = POLLOUT
            waiting = poll()
            waiting.register(self._opened, events)
            if not waiting.poll(None if deadline is None else left_s(deadline) * 1000):
                raise TimeoutError("nothing came, or was taken, in time")
