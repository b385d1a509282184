"""The HTTP server of the exporter: /metrics, and /-/healthy for who supervises it."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import ipaddress
import logging
import socket
import ssl
import threading
from collections.abc import Iterable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final, Protocol

import bcrypt

from exporters.page import CONTENT_TYPE
from exporters.webconfig import WebConfig
from lab.errors import LabStableError

TIMEOUT_S: Final = 10.0  # of a client that says or takes nothing
_NOBODY: Final = "$2b$10$" + "." * 53  # no password has this hash; it costs as much to try as anybody's
_INDEX: Final = b'<!doctype html><title>boardlab</title><h1>boardlab exporter</h1><p><a href="/metrics">metrics</a>\n'
_log = logging.getLogger(__name__)


class Exposition(Protocol):
    """What is served."""

    def gzipped(self) -> bytes:
        """All metrics, compressed."""
        ...

    def plain(self) -> tuple[int, Iterable[bytes]]:
        """All metrics: length in bytes, and pieces of it."""
        ...


class Guard:
    """Who may ask. A password that was right once is known by a hash that is quick to try, as bcrypt is slow."""

    def __init__(self, config: WebConfig | None) -> None:
        self._users = config.basic_auth_users if config else {}
        self._known: set[bytes] = set()
        self._lock = threading.Lock()

    def admits(self, header: str | None) -> bool:
        """Whether this Authorization header, or none, opens the door."""
        if not self._users:
            return True
        user, _, password = _decoded(header).partition(":")
        secret = self._users.get(user, _NOBODY)
        digest = hashlib.sha256(f"{user}\0{secret}\0{password}".encode()).digest()
        with self._lock:  # one bcrypt at a time: guessing must not take the host's cores
            if any(hmac.compare_digest(digest, known) for known in self._known):
                return True
            right = bcrypt.checkpw(password.encode()[:72], secret.encode()) and user in self._users
            if right:
                self._known.add(digest)
            return right


class Server(ThreadingHTTPServer):
    """Serves an exposition. TLS is negotiated in the client's own thread: one that stalls holds up nobody."""

    daemon_threads = True

    def __init__(self, host: str, port: int, exposition: Exposition, config: WebConfig | None) -> None:
        """Listen.

        Raises:
            LabStableError: the address cannot be listened on.
            ConfigurationError: the web-config's certificates cannot be used.
        """
        if ipaddress.ip_address(host).version == 6:
            self.address_family = socket.AF_INET6
        self.exposition = exposition
        self.guard = Guard(config)
        self._context = config.context() if config else None
        try:
            super().__init__((host, port), _Handler)
        except OSError as error:
            raise LabStableError(
                f"cannot listen on {host}:{port}: {error.strerror}; does another exporter run? Choose another --listen"
            ) from error

    @property
    def url(self) -> str:
        """Where the metrics are."""
        host, port = self.server_address[:2]
        name = f"[{host!s}]" if self.address_family == socket.AF_INET6 else str(host)
        return f"{'https' if self._context else 'http'}://{name}:{port}/metrics"

    def finish_request(self, request: socket.socket | tuple[bytes, socket.socket], client_address: object) -> None:
        """Answer one client, in its own thread."""
        if not isinstance(request, socket.socket):
            return
        request.settimeout(TIMEOUT_S)
        try:
            if self._context is not None:
                request = self._context.wrap_socket(request, server_side=True)
            _Handler(request, client_address, self)
        except (ssl.SSLError, OSError) as error:
            _log.info("a client was lost: %s", error)


class _Handler(BaseHTTPRequestHandler):
    server: Server
    server_version = "boardlab"
    sys_version = ""
    timeout = TIMEOUT_S

    def do_GET(self) -> None:
        if not self.server.guard.admits(self.headers.get("Authorization")):
            self._answer(HTTPStatus.UNAUTHORIZED, b"a password is needed\n", {"WWW-Authenticate": "Basic"})
            return
        match self.path.partition("?")[0]:
            case "/metrics":
                self._metrics()
            case "/-/healthy":
                self._answer(HTTPStatus.OK, b"ok\n", {"Content-Type": "text/plain"})
            case "/":
                self._answer(HTTPStatus.OK, _INDEX, {"Content-Type": "text/html"})
            case _:
                self._answer(HTTPStatus.NOT_FOUND, b"there is /metrics\n", {"Content-Type": "text/plain"})

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class calls it so
        """Scrapes are not news; what goes wrong is logged where it does."""

    def _metrics(self) -> None:
        if "gzip" in self.headers.get("Accept-Encoding", ""):
            headers = {"Content-Type": CONTENT_TYPE, "Content-Encoding": "gzip"}
            self._answer(HTTPStatus.OK, self.server.exposition.gzipped(), headers)
            return
        length, pieces = self.server.exposition.plain()
        self._head(HTTPStatus.OK, length, {"Content-Type": CONTENT_TYPE})
        for piece in pieces:
            self.wfile.write(piece)

    def _answer(self, status: HTTPStatus, body: bytes, headers: dict[str, str]) -> None:
        self._head(status, len(body), headers)
        self.wfile.write(body)

    def _head(self, status: HTTPStatus, length: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(length))
        self.end_headers()


def _decoded(header: str | None) -> str:
    kind, _, text = (header or "").partition(" ")
    if kind.lower() != "basic":
        return ""
    try:
        return base64.b64decode(text, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""
