"""The way to a console server of another host over TCP with TLS, and to what else is behind it; `lab console tls` answers there."""

from __future__ import annotations

import select
import socket
import ssl
import time
from collections.abc import Sequence
from typing import Final

from attrs import frozen

from lab.console.stream import RECEIVE_BYTES, left_s, ready, start_there
from lab.console.tlswords import CONSOLE
from lab.errors import BoardlabError, ConfigurationError, LabTransientError
from lab.host.tcp import keep_alive
from lab.host.tls import Identity, is_refusal, said

_AGAIN: Final = (ssl.SSLWantReadError, ssl.SSLWantWriteError)


@frozen
class TlsWay:
    """A console server behind TLS.

    Attributes:
        host: name or address that its certificate has to name. port: of TCP there.
        identity: who this end is; read anew for each connection.
    """

    host: str
    port: int
    identity: Identity

    @property
    def shown(self) -> str:
        """See `lab.console.stream.Way`."""
        return f"{f'[{self.host}]' if ':' in self.host else self.host}:{self.port} (TLS)"

    @property
    def log(self) -> str:
        """See `lab.console.stream.Way`."""
        return f"the log of `lab console tls` on {self.host}"

    @property
    def mend(self) -> str:
        """See `lab.console.stream.Way`."""
        return start_there(self.host)

    def connect(self, timeout_s: float) -> TlsStream:
        """See `lab.console.stream.Way`."""
        return TlsStream(self.opened((CONSOLE,), timeout_s), self.shown)

    def opened(self, wanted: Sequence[str], timeout_s: float) -> ssl.SSLSocket:
        """A connection with TLS, with what is left of the time as its limit.

        Args:
            wanted: what is asked for, as ALPN has it.

        Raises:
            LabTransientError: nobody answers. ConfigurationError: who answers is not who was meant.
        """
        context = self.identity.client()
        context.set_alpn_protocols(list(wanted))
        deadline = time.monotonic() + timeout_s
        try:
            opened = socket.create_connection((self.host, self.port), timeout_s)
        except (OSError, UnicodeError) as error:
            raise LabTransientError(
                f"nobody answers at {self.shown}: {getattr(error, 'strerror', None) or error}; does `lab console tls` run there?",
                failure="console_link",
            ) from error
        try:
            keep_alive(opened)
            opened.settimeout(max(left_s(deadline), 0.001))
            return context.wrap_socket(opened, server_hostname=self.host)
        except OSError as error:
            opened.close()
            raise self.hung_up(error) from error

    def hung_up(self, error: OSError) -> BoardlabError:
        """What became of a connection on which nothing was said yet: the server does not accept us, or we were cut off."""
        if isinstance(error, ssl.SSLError) and is_refusal(error):
            return _refused(self.shown, error)
        why = "no answer in time" if isinstance(error, TimeoutError) else "it hung up"
        return LabTransientError(f"{self.shown}: TLS is not agreed on: {why}", failure="console_link")


class TlsStream:
    """A connection with TLS; see `lab.console.stream.Stream`."""

    pid = 0

    def __init__(self, opened: ssl.SSLSocket, shown: str) -> None:
        """Take `opened` over."""
        opened.setblocking(False)
        self._socket = opened
        self._shown = shown

    def send(self, data: bytes, timeout_s: float) -> None:
        """See `Stream`.

        Raises:
            ConfigurationError: the server refuses our certificate.
        """
        deadline = time.monotonic() + timeout_s
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[self._socket.send(rest) :]
            except _AGAIN as error:
                if not self._ready(error, left_s(deadline)):
                    raise TimeoutError(f"{self._shown} takes nothing") from error
            except ssl.SSLError as error:
                raise _failed(self._shown, error) from error

    def receive(self, timeout_s: float) -> bytes | None:
        """See `Stream`: nothing is left that select(2) would not tell of when this returns None.

        Raises:
            ConfigurationError: the server refuses our certificate. (With TLS 1.3 it says so after the handshake.)
        """
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                return self._socket.recv(RECEIVE_BYTES)
            except _AGAIN as error:
                if not self._ready(error, left_s(deadline)):
                    return None
            except ssl.SSLError as error:
                raise _failed(self._shown, error) from error

    def fileno(self) -> int:
        """See `Stream`."""
        return self._socket.fileno()

    def close(self) -> None:
        """See `Stream`."""
        self._socket.close()

    def _ready(self, wanted: ssl.SSLError, timeout_s: float) -> bool:
        events = select.POLLOUT if isinstance(wanted, ssl.SSLWantWriteError) else select.POLLIN
        return ready(self._socket, events, timeout_s)


def _failed(shown: str, error: ssl.SSLError) -> ConfigurationError | ConnectionError:
    """What became of a connection: the server does not accept us, or we were cut off."""
    return _refused(shown, error) if is_refusal(error) else ConnectionResetError(f"{shown}: {said(error)}")


def _refused(shown: str, error: ssl.SSLError) -> ConfigurationError:
    """The two ends do not trust each other."""
    return ConfigurationError(
        f"{shown}: {said(error)} (certificates: `openssl x509 -noout -subject -dates -ext subjectAltName -in host.crt`)"
    )
