"""Limits of client connections, and the exporter's requests.

The exporter and `lab web` take their clients here. A silent or slow client costs a socket, no thread, and not for long. At a
limit, the connection that has waited longest without a request is closed: a request of a browser or a scrape takes milliseconds.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from functools import partial
from http import HTTPStatus
from typing import Any, Final, TypeAlias

from attrs import Factory, define, field, frozen

REQUEST_S: Final = 10.0  # for the whole request: TLS, however slowly its bytes come, and the password
ANSWER_S: Final = 30.0  # for the whole answer
MOST_OPEN: Final = 512  # connections in all: half of the 1,024 files that a process may usually have open
MOST_OF_ADDRESS: Final = 256  # of them, from one address
MOST_ANSWERED: Final = 8  # scrapes at once; each may hold a page
BACKLOG: Final = 128  # clients that the system keeps until we take them
HEAD_BYTES: Final = 1 << 14
_PIECE_BYTES: Final = 1 << 18
_PAUSE_S: Final = 0.1  # when the system cannot give another socket
_WARNED_S: Final = 60.0  # between two warnings, so that clients cannot fill a log
_IPV6_PREFIX: Final = 64  # bits; one host chooses the others by itself (RFC 4291, 2.5.1)
_log = logging.getLogger(__name__)

Task: TypeAlias = asyncio.Task[None]


@frozen
class Limits:
    """The limits of a server's connections.

    Attributes:
        total, of_address: connections that are open, in all and from one address. unlimited: addresses, as `origin` gives them,
            that have only the limit in all.
        answering: connections whose requests are being answered.
        request_s: from the connection to the end of the request. answer_s: from there to the end of the answer; None: no deadline.
    """

    total: int
    of_address: int
    answering: int
    request_s: float
    answer_s: float | None
    unlimited: frozenset[str] = frozenset()


@define(eq=False)
class _Client:
    origin: str
    answering: bool = False
    deadline: asyncio.TimerHandle | None = None


class Connections:
    """The open connections of a server, each with a task.

    A task is cancelled at a deadline or a limit.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._clients: dict[Task, _Client] = {}  # in the order of their last step
        self._origins: Counter[str] = Counter()
        self._warned_s: float | None = None

    async def accept(
        self, listening: socket.socket, serve: Callable[[socket.socket], Coroutine[Any, Any, None]]
    ) -> None:
        """Take clients until this is cancelled.

        Args:
            listening: a socket that is bound and listens. serve: serves one connection, which is closed afterwards.
        """
        loop = asyncio.get_running_loop()
        listening.setblocking(False)
        while True:
            try:
                connection, peer = await loop.sock_accept(listening)
            except OSError as error:  # the client left already, or there are no more files
                _log.debug("a client was not accepted: %s", error)
                await asyncio.sleep(_PAUSE_S)
                continue
            task = loop.create_task(serve(connection))
            task.add_done_callback(partial(self._ended, connection))
            self._enter(task, origin(peer[0]))

    def asked(self, task: Task) -> None:
        """The request of this connection is complete; it is being answered."""
        client = self._clients.get(task)
        if client is None:
            return
        answering = [each for each, its in self._clients.items() if its.answering]
        if len(answering) >= self._limits.answering:
            self._close(answering[0], f"{len(answering)} requests are being answered")
        self._step(task, client, self._limits.answer_s, answering=True)

    def answered(self, task: Task) -> None:
        """Note that a connection has its answer.

        Its client takes the rest of it, and may ask again until the next deadline.
        """
        client = self._clients.get(task)
        if client is not None:
            self._step(task, client, ANSWER_S, answering=False)

    async def close(self) -> None:
        """Close all connections."""
        tasks = list(self._clients)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _enter(self, task: Task, of: str) -> None:
        limits = self._limits
        if self._origins[of] >= limits.of_address and of not in limits.unlimited:
            self._close(self._oldest(of), f"{limits.of_address} connections from {of} are open")
        elif len(self._clients) >= limits.total:
            self._close(self._oldest(), f"{limits.total} connections are open")
        self._origins[of] += 1
        self._step(task, _Client(of), limits.request_s, answering=False)

    def _step(self, task: Task, client: _Client, seconds: float | None, *, answering: bool) -> None:
        if client.deadline is not None:
            client.deadline.cancel()
        client.deadline = None
        if seconds is not None:
            client.deadline = asyncio.get_running_loop().call_later(seconds, self._late, task, seconds)
        client.answering = answering
        self._clients.pop(task, None)
        self._clients[task] = client

    def _oldest(self, of: str | None = None) -> Task:
        """The connection to close first: the oldest without a request, else the oldest."""
        found = [(task, its) for task, its in self._clients.items() if of in {None, its.origin}]
        return next((task for task, its in found if not its.answering), found[0][0])

    def _late(self, task: Task, seconds: float) -> None:
        _log.debug("a client was slower than %g s: closed", seconds)
        task.cancel()

    def _close(self, task: Task, why: str) -> None:
        now_s = asyncio.get_running_loop().time()
        if self._warned_s is None or now_s - self._warned_s >= _WARNED_S:
            self._warned_s = now_s
            _log.warning("%s: the oldest are closed for new ones; said once a minute at most", why)
        self._forget(task)
        task.cancel()

    def _ended(self, connection: socket.socket, task: Task) -> None:
        self._forget(task)
        connection.close()  # a task that was cancelled before it began has no transport that would do it

    def _forget(self, task: Task) -> None:
        client = self._clients.pop(task, None)
        if client is None:
            return
        if client.deadline is not None:
            client.deadline.cancel()
        self._origins[client.origin] -= 1
        if not self._origins[client.origin]:
            del self._origins[client.origin]


def origin(address: str) -> str:
    """The key of a client's limit.

    It is the address for IPv4, the network of 64 bits for IPv6, and one key for loopback.
    """
    try:
        its = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    its = getattr(its, "ipv4_mapped", None) or its
    if its.is_loopback:
        return "127.0.0.1"  # a user of this host has all of 127.0.0.0/8
    if its.version == 4 or its.is_link_local:
        return str(its)
    return str(ipaddress.ip_network((int(its), _IPV6_PREFIX), strict=False))


@frozen
class Asked:
    """A GET. headers: by their names in small letters. A body is not read."""

    path: str
    headers: Mapping[str, str]


@frozen
class HttpResponse:
    """An answer: pieces of its body, and their length in all."""

    status: HTTPStatus
    pieces: Iterable[bytes]
    length: int
    headers: Mapping[str, str] = field(default=Factory(dict))


class Door:
    """Reads requests of HTTP/1 and writes what `admit` and `answer` say; one request a connection.

    Args:
        listening: a socket that is bound and listens. context: for TLS.
        admit: whether the client is answered; other clients get what it gives instead of None.
        answer: answers one that is admitted.
    """

    def __init__(
        self,
        listening: socket.socket,
        context: ssl.SSLContext | None,
        admit: Callable[[Asked], Awaitable[HttpResponse | None]],
        answer: Callable[[Asked], Awaitable[HttpResponse]],
    ) -> None:
        self._listening, self._context, self._admit, self._answer = listening, context, admit, answer
        self._connections = Connections(Limits(MOST_OPEN, MOST_OF_ADDRESS, MOST_ANSWERED, REQUEST_S, ANSWER_S))

    async def accept(self) -> None:
        """Let clients in until this is cancelled."""
        try:
            await self._connections.accept(self._listening, self._serve)
        finally:
            await self._connections.close()

    async def _serve(self, connection: socket.socket) -> None:
        task, writer = asyncio.current_task(), None
        if task is None:
            return
        try:
            reader, writer = await self._open(connection)
            heard = await self._hear(reader)
            self._connections.asked(task)
            await _write(heard if isinstance(heard, HttpResponse) else await self._answer(heard), writer)
            writer.close()
            await writer.wait_closed()
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            _log.debug("a client was lost: %r", error)  # ssl.SSLError is an OSError
        finally:
            if writer is not None:
                writer.transport.abort()

    async def _hear(self, reader: asyncio.StreamReader) -> Asked | HttpResponse:
        """A request that shall be answered, or what is said instead."""
        asked = parse(await reader.readuntil(b"\r\n\r\n"))
        return asked if isinstance(asked, HttpResponse) else await self._admit(asked) or asked

    async def _open(self, connection: socket.socket) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=HEAD_BYTES)
        protocol = asyncio.StreamReaderProtocol(reader)
        handshake_s = REQUEST_S if self._context else None
        transport, _ = await loop.connect_accepted_socket(
            lambda: protocol, connection, ssl=self._context, ssl_handshake_timeout=handshake_s
        )
        transport.set_write_buffer_limits(0)  # so that `drain` waits until all is taken
        return reader, asyncio.StreamWriter(transport, protocol, reader, loop)


def parse(head: bytes) -> Asked | HttpResponse:
    """The request in the bytes up to the empty line, or the answer to one that is wrong."""
    first, *lines = head.decode("latin-1").split("\r\n")
    match first.split(" "):
        case ["GET", target, version] if version.startswith("HTTP/1."):
            pairs = (line.partition(":") for line in lines)
            return Asked(target.partition("?")[0], {name.strip().lower(): value.strip() for name, _, value in pairs})
        case [_, _, version] if version.startswith("HTTP/1."):
            return text(HTTPStatus.METHOD_NOT_ALLOWED, "there is only GET\n", {"Allow": "GET"})
        case _:
            return text(HTTPStatus.BAD_REQUEST, "expected a request of HTTP/1.1\n")


def text(status: HTTPStatus, body: str, headers: Mapping[str, str] | None = None) -> HttpResponse:
    """An answer in words."""
    data = body.encode()
    return HttpResponse(status, (data,), len(data), {"Content-Type": "text/plain", **(headers or {})})


async def _write(answer: HttpResponse, writer: asyncio.StreamWriter) -> None:
    lines = [f"HTTP/1.1 {answer.status.value} {answer.status.phrase}", f"Content-Length: {answer.length}"]
    lines += [f"{name}: {value}" for name, value in answer.headers.items()]
    writer.write("\r\n".join((*lines, "Connection: close", "", "")).encode("latin-1"))
    for piece in answer.pieces:
        for start in range(0, len(piece), _PIECE_BYTES):
            writer.write(memoryview(piece)[start : start + _PIECE_BYTES])
            await writer.drain()
    await writer.drain()
