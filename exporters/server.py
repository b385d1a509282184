"""The HTTP server of the exporter: /metrics, and /-/healthy for who supervises it."""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import hashlib
import hmac
import ipaddress
import re
import socket
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from typing import Final, Protocol

import bcrypt

from exporters.door import BACKLOG, Asked, Door, HttpResponse, text
from exporters.page import CONTENT_TYPE
from exporters.webconfig import WebConfig
from lab.errors import LabStableError

_PAGES_AT_ONCE: Final = 2
_NOBODY: Final = "$2b$10$" + "." * 53  # no password has this hash; it costs as much to try as anybody's
_INDEX: Final = b'<!doctype html><title>boardlab</title><h1>boardlab exporter</h1><p><a href="/metrics">metrics</a>\n'


class ExpositionProtocol(Protocol):
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
        self._known: frozenset[bytes] = frozenset()

    @property
    def asks(self) -> bool:
        """Whether there are users."""
        return bool(self._users)

    def knows(self, header: str | None) -> bool:
        """Whether this Authorization header, or none, has opened the door before."""
        digest = self._digest(header)
        return not self._users or any(hmac.compare_digest(digest, known) for known in self._known)

    def admits(self, header: str | None) -> bool:
        """Whether it opens the door; that takes its time."""
        user, secret, password = self._read(header)
        right = bcrypt.checkpw(password.encode()[:72], secret.encode()) and user in self._users
        if right:
            self._known |= {self._digest(header)}
        return right

    def _digest(self, header: str | None) -> bytes:
        return hashlib.sha256("\0".join(self._read(header)).encode()).digest()

    def _read(self, header: str | None) -> tuple[str, str, str]:
        user, _, password = decoded(header).partition(":")
        return user, self._users.get(user, _NOBODY), password


class Server:
    """Serves an exposition, in the thread that calls `serve_forever`; see `exporters.door` for who comes in."""

    def __init__(self, host: str, port: int, exposition: ExpositionProtocol, config: WebConfig | None) -> None:
        """Listen.

        Raises:
            LabStableError: the address cannot be listened on.
            ConfigurationError: the web-config's certificates cannot be used.
        """
        version_6 = ipaddress.ip_address(host).version == 6
        self._exposition = exposition
        self._guard = Guard(config)
        self._by_name = config is not None and (config.authenticates or config.tls_server_config is not None)
        self._context = config.context() if config else None
        self._asked_to_stop = threading.Event()
        self._wake: Callable[[], None] = lambda: None
        self._pages = ThreadPoolExecutor(_PAGES_AT_ONCE, "page")
        self._passwords = ThreadPoolExecutor(
            1, "password"
        )  # one bcrypt at a time: guessing must not take the host's cores
        try:
            self._listening = socket.create_server(
                (host, port),
                family=socket.AF_INET6 if version_6 else socket.AF_INET,
                backlog=BACKLOG,
                dualstack_ipv6=version_6,
            )
        except OSError as error:
            raise LabStableError(
                f"cannot listen on {host}:{port}: {error.strerror}; does another exporter run? Choose another --listen"
            ) from error
        name, number = self._listening.getsockname()[:2]
        shown = f"[{name}]" if version_6 else name
        self.url = f"{'https' if self._context else 'http'}://{shown}:{number}/metrics"

    def serve_forever(self) -> None:
        """Answer until `shutdown`."""
        asyncio.run(self._serve())

    def shutdown(self) -> None:
        """End `serve_forever`; may be called from another thread and from a signal's handler, and before it began."""
        self._asked_to_stop.set()
        self._wake()

    def close(self) -> None:
        """Listen no more."""
        self._listening.close()
        for pool in (self._pages, self._passwords):
            pool.shutdown(wait=False, cancel_futures=True)

    async def _serve(self) -> None:
        door = Door(self._listening, self._context, self._admit, self._answer)
        keeping = asyncio.create_task(door.accept())
        loop = asyncio.get_running_loop()
        self._wake = lambda: _quietly(loop, keeping)
        if self._asked_to_stop.is_set():
            keeping.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await keeping

    async def _admit(self, asked: Asked) -> HttpResponse | None:
        if not self._by_name and not is_address(asked.headers.get("host", "")):
            return text(HTTPStatus.FORBIDDEN, "ask by address, e.g. 127.0.0.1, not by name\n")
        header = asked.headers.get("authorization")
        if self._guard.knows(header):
            return None
        loop = asyncio.get_running_loop()
        if await loop.run_in_executor(self._passwords, self._guard.admits, header):
            return None
        return text(HTTPStatus.UNAUTHORIZED, "a password is needed\n", {"WWW-Authenticate": "Basic"})

    async def _answer(self, asked: Asked) -> HttpResponse:
        match asked.path:
            case "/metrics":
                gzip = "gzip" in asked.headers.get("accept-encoding", "")
                return await asyncio.get_running_loop().run_in_executor(self._pages, self._metrics, gzip)
            case "/-/healthy":
                return text(HTTPStatus.OK, "ok\n")
            case "/":
                return HttpResponse(HTTPStatus.OK, (_INDEX,), len(_INDEX), {"Content-Type": "text/html"})
            case _:
                return text(HTTPStatus.NOT_FOUND, "there is /metrics\n")

    def _metrics(self, gzip: bool) -> HttpResponse:
        headers = {"Content-Type": CONTENT_TYPE}
        if gzip:
            page = self._exposition.gzipped()
            return HttpResponse(HTTPStatus.OK, (page,), len(page), {**headers, "Content-Encoding": "gzip"})
        length, pieces = self._exposition.plain()
        return HttpResponse(HTTPStatus.OK, pieces, length, headers)


def is_address(host: str) -> bool:
    """Whether a Host header, or none, names us by an address or as localhost.

    By any other name a web page may be asking, in the browser of somebody on this host, whose name server says that the
    page's own name is 127.0.0.1 (DNS rebinding).
    """
    name = re.sub(r":\d*$", "", host).strip("[]")
    if not name or name.lower() == "localhost":
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _quietly(loop: asyncio.AbstractEventLoop, keeping: asyncio.Task[None]) -> None:
    with contextlib.suppress(RuntimeError):  # it has ended already
        loop.call_soon_threadsafe(keeping.cancel)


def decoded(header: str | None) -> str:
    """`name:password` of an Authorization header (RFC 7617); empty: it has none."""
    kind, _, text = (header or "").partition(" ")
    if kind.lower() != "basic":
        return ""
    try:
        return base64.b64decode(text, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""
