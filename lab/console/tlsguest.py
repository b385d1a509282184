"""One client of another host at the TLS front: first TLS, then what it asks for is called, then bytes both ways, then time to read the last words."""

from __future__ import annotations

import contextlib
import enum
import select
import socket
import ssl
import time
from typing import Final

from lab.console.stream import ready
from lab.console.tlsservices import Service, Services, check_made
from lab.errors import BoardlabError, ConfigurationError, LabTransientError
from lab.host.tcp import keep_alive
from lab.host.tls import is_refusal, said

HANDSHAKE_S: Final = 10.0
CALL_S: Final = 5.0  # until a server of this host has accepted
LEAVE_S: Final = 2.0  # to read why it has to go; then the connection is reset
PIECE_BYTES: Final = (
    65536  # that wait in each direction; then the server sees a slow reader, and the client a slow server
)
_TURNS: Final = 8  # of one client before the next one's
_IN, _OUT = select.EPOLLIN, select.EPOLLOUT
_GONE: Final = select.EPOLLHUP | select.EPOLLERR


class Stage(enum.Enum):
    """Where a client is."""

    GREETING = enum.auto()
    CALLING = enum.auto()
    OPEN = enum.auto()
    LEAVING = enum.auto()
    GONE = enum.auto()


class TlsGuest:
    """A client.

    Attributes:
        shown: its address and port. name: what its certificate says of it; "" before it has shown one.
        service: what it asks for, once TLS is agreed on.
        why: it was refused by TLS; denied: by what it asks for. Both "" while it was not.
        deadline: of its present stage, by time.monotonic(); None: none.
        again: there is more to be done for it at once.
    """

    def __init__(
        self, opened: socket.socket, shown: str, context: ssl.SSLContext, services: Services, epoll: select.epoll
    ) -> None:
        """Take `opened` over.

        Raises:
            OSError: it is gone already.
        """
        opened.setblocking(False)
        keep_alive(opened)
        self.shown = shown
        self.name = self.why = self.denied = ""
        self.stage = Stage.GREETING
        self.deadline: float | None = time.monotonic() + HANDSHAKE_S
        self.again = False
        self._epoll = epoll
        self._services = services
        self.service: Service = services.of(None)
        self._tls = context.wrap_socket(opened, server_side=True, do_handshake_on_connect=False)
        self._client: socket.socket = self._tls  # until TLS is over
        self._server: socket.socket | None = None
        self._up = self._down = b""  # on its way to the server, to the client
        self._client_ended = self._server_ended = False
        self._wants_out = False  # TLS has something of its own to send
        self._watched: dict[int, int] = {}
        self._watch(self._client, _IN)

    @property
    def fds(self) -> list[int]:
        """Its descriptors that epoll watches, or may watch."""
        return [each.fileno() for each in (self._client, self._server) if each is not None]

    def serve(self, fd: int, mask: int) -> None:
        """Do what can be done without waiting."""
        self.again = False
        if self.stage is Stage.OPEN and mask & _GONE and fd == self._client.fileno():
            self.end()
            return
        try:
            if self.stage is Stage.GREETING:
                self._greet()
            if self.stage is Stage.CALLING:
                self._call()
            if self.stage is Stage.OPEN:
                self._relay()
            if self.stage is Stage.LEAVING:
                self._leave()
        except ssl.SSLError as error:
            if self.stage is Stage.GREETING or is_refusal(error):
                self.dismiss(said(error))
            else:
                self.end()
        except OSError:
            self.end()

    def late(self) -> None:
        """The time of its stage is over."""
        if self.stage is Stage.GREETING:
            self.why = f"no TLS within {HANDSHAKE_S:g} s"
        if self.stage is Stage.CALLING:
            self._deny(LabTransientError(f"nothing answers at {self.service.shown} within {CALL_S:g} s"))
            self.serve(-1, 0)
        else:
            self.end()

    def dismiss(self, why: str) -> None:
        """Refuse it, and let it read what TLS has to say of that."""
        self.why = why
        self._part()

    def end(self) -> None:
        """Hang up on both sides at once."""
        for each in (self._client, self._server):
            if each is not None:
                self._watch(each, 0)
                each.close()
        self._server = None
        self.stage = Stage.GONE
        self.deadline = None

    def _greet(self) -> None:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._watch(self._client, _IN)
            return
        except ssl.SSLWantWriteError:
            self._watch(self._client, _OUT)
            return
        except OSError as error:
            if not isinstance(error, ssl.SSLError) or isinstance(error, ssl.SSLEOFError):
                self.why = "it hung up before TLS was agreed on"
                self.end()
                return
            raise
        self.name = _name(self._tls)
        self.service = self._services.of(self._tls.selected_alpn_protocol())
        self.stage = Stage.CALLING
        self.deadline = time.monotonic() + CALL_S
        self._watch(self._client, 0)  # it may speak already

    def _call(self) -> None:
        """Be connected with the server that it asks for, or tell it that it will not be."""
        try:
            if self._server is None:
                self._server = self.service.called()
            if not ready(self._server, select.POLLOUT, 0):
                self._watch(self._server, _OUT)
                return
            check_made(self._server, self.service.shown)
        except BoardlabError as error:
            self._deny(error)
        else:
            self._open(self.service.greeting)

    def _deny(self, error: BoardlabError) -> None:
        if self._server is not None:
            self._watch(self._server, 0)
            self._server.close()
            self._server = None
        self._server_ended = True
        self.denied = str(error) if isinstance(error, ConfigurationError) else ""
        self._open(self.service.denial(error))

    def _open(self, said: bytes) -> None:
        self._down = said
        self.stage = Stage.OPEN
        self.deadline = None

    def _relay(self) -> None:
        """Hand bytes on in both directions, as long as each side takes them."""
        for _ in range(_TURNS):
            if not (self._hear_client() | self._tell_server() | self._hear_server() | self._tell_client()):
                break
        else:
            self.again = True
        if (self._server_ended and not self._down) or (self._client_ended and not self._up):
            self._part()
            return
        down = _OUT if self._down or self._wants_out else 0
        self._watch(self._client, down | (0 if self._up or self._client_ended else _IN))
        if self._server is not None:
            up = _OUT if self._up else 0
            self._watch(self._server, up | (0 if self._down or self._server_ended else _IN))

    def _hear_client(self) -> bool:
        if self._up or self._client_ended:
            return False
        self._wants_out = False
        try:
            self._up = self._client.recv(PIECE_BYTES)
        except ssl.SSLWantReadError:
            return False
        except ssl.SSLWantWriteError:
            self._wants_out = True
            return False
        self._client_ended = not self._up
        return True

    def _tell_server(self) -> bool:
        if not self._up or self._server is None or self._server_ended:
            return False
        try:
            self._up = self._up[self._server.send(self._up) :]
        except BlockingIOError:
            return False
        except ConnectionError:
            self._up = b""  # it has hung up; what it had to say may still be there
        return True

    def _hear_server(self) -> bool:
        if self._down or self._server is None or self._server_ended:
            return False
        try:
            self._down = self._server.recv(PIECE_BYTES)
        except BlockingIOError:
            return False
        except ConnectionError:
            self._down = b""
        self._server_ended = not self._down
        return True

    def _tell_client(self) -> bool:
        if not self._down:
            return False
        try:
            self._down = self._down[self._client.send(self._down) :]
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return False
        return True

    def _part(self) -> None:
        """Nothing more is said. What the client still sends is thrown away, for a reset would take our last words from it."""
        if self._server is not None:
            self._watch(self._server, 0)
            self._server.close()
            self._server = None
        self._watch(self._client, 0)
        if not self.why:
            with contextlib.suppress(OSError, ValueError):  # it wants to wait for the same of the other end
                self._tls.unwrap()
        self._client = socket.socket(fileno=self._tls.detach())
        self._client.setblocking(False)
        self.stage = Stage.LEAVING
        self.deadline = time.monotonic() + LEAVE_S
        with contextlib.suppress(OSError):
            self._client.shutdown(socket.SHUT_WR)
        self._watch(self._client, _IN)
        self.again = True

    def _leave(self) -> None:
        for _ in range(_TURNS):
            try:
                if not self._client.recv(PIECE_BYTES):
                    break
            except BlockingIOError:
                return
        else:
            self.again = True
            return
        self.end()

    def _watch(self, opened: socket.socket, events: int) -> None:
        """What epoll shall tell of; 0: nothing, not even that the other end is gone."""
        fd = opened.fileno()
        before = self._watched.get(fd, 0)
        if events == before:
            return
        if not events:
            del self._watched[fd]
            self._epoll.unregister(fd)
            return
        self._epoll.modify(fd, events) if before else self._epoll.register(fd, events)
        self._watched[fd] = events


def _name(opened: ssl.SSLSocket) -> str:
    """The common name of a certificate."""
    shown = opened.getpeercert() or {}
    parts = [part for parts in shown.get("subject", ()) for part in parts]
    return next((str(part[1]) for part in parts if part[0] == "commonName"), "no name")
