"""Who comes in to the exporter: one thread, a deadline for everything, and a cap on how many there are at once.

A client that drips its request, or takes no answer, costs a socket and no thread, and not for long. When the house is full
the one that has been there longest is shown out: a scrape takes milliseconds, so it is never that one.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from http import HTTPStatus
from typing import Any, Final

from attrs import Factory, field, frozen

REQUEST_S: Final = 10.0  # for the whole request: TLS, however slowly its bytes come, and the password
ANSWER_S: Final = 30.0  # for the whole answer
MOST_ASKING: Final = 512  # half of the files that a process may have open
MOST_ANSWERED: Final = 8  # each may hold a page
BACKLOG: Final = 128  # clients that the system keeps until we take them
_HEAD_BYTES: Final = 1 << 14
_PIECE_BYTES: Final = 1 << 18
_PAUSE_S: Final = 0.1  # when the system cannot give another socket
_log = logging.getLogger(__name__)

_Task = asyncio.Task[Any]


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


class Crowd:
    """Tasks of clients, in the order in which they came; when there are too many the first one is cancelled."""

    def __init__(self, limit: int, doing: str) -> None:
        self._limit, self._doing = limit, doing
        self._tasks: dict[_Task, None] = {}
        self._full = False

    def enter(self, task: _Task) -> None:
        """One more."""
        if len(self._tasks) >= self._limit:
            if not self._full:  # once, until it is quiet again: a log must not be filled from outside
                _log.warning("%d clients at once %s; the longest there are sent away", self._limit, self._doing)
            self._full = True
            first = next(iter(self._tasks))
            del self._tasks[first]
            first.cancel()
        self._tasks[task] = None

    def leave(self, task: _Task) -> None:
        """One less; nothing happens when it was sent away."""
        self._tasks.pop(task, None)
        self._full = self._full and len(self._tasks) > self._limit // 2

    async def disperse(self) -> None:
        """Send all away."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


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
        listening.setblocking(False)
        self._listening, self._context, self._admit, self._answer = listening, context, admit, answer
        self._asking = Crowd(MOST_ASKING, "ask and do not come to the point")
        self._answered = Crowd(MOST_ANSWERED, "take their answers")

    async def accept(self) -> None:
        """Let clients in until this is cancelled."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                try:
                    connection, _ = await loop.sock_accept(self._listening)
                except OSError as error:  # it left before it was in, or there are no more files
                    _log.debug("no client came in: %s", error)
                    await asyncio.sleep(_PAUSE_S)
                    continue
                task = loop.create_task(self._serve(connection))
                task.add_done_callback(partial(_leave, connection))
                self._asking.enter(task)
        finally:
            await self._asking.disperse()
            await self._answered.disperse()

    async def _serve(self, connection: socket.socket) -> None:
        task, writer = asyncio.current_task(), None
        if task is None:
            return
        try:
            async with asyncio.timeout(REQUEST_S):
                reader, writer = await self._open(connection)
                heard = await self._hear(reader)
            self._asking.leave(task)
            self._answered.enter(task)
            async with asyncio.timeout(ANSWER_S):
                await _write(heard if isinstance(heard, HttpResponse) else await self._answer(heard), writer)
                writer.close()
                await writer.wait_closed()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            _log.debug("a client was lost: %r", error)  # ssl.SSLError is an OSError
        finally:
            self._asking.leave(task)
            self._answered.leave(task)
            if writer is not None:
                writer.transport.abort()

    async def _hear(self, reader: asyncio.StreamReader) -> Asked | HttpResponse:
        """A request that shall be answered, or what is said instead."""
        asked = parse(await reader.readuntil(b"\r\n\r\n"))
        return asked if isinstance(asked, HttpResponse) else await self._admit(asked) or asked

    async def _open(self, connection: socket.socket) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=_HEAD_BYTES)
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


def _leave(connection: socket.socket, _task: _Task) -> None:
    connection.close()  # one who was sent away before anything began has no transport that would do it
