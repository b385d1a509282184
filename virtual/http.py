"""As much of HTTP/1.1 as a PDU and its relays speak: one GET or PUT, one JSON answer, connection closed (RFC 9112)."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from urllib.parse import parse_qs, urlsplit

from attrs import evolve, frozen

_REQUEST_S = 5.0
_REQUEST_BYTES = 8192
_log = logging.getLogger(__name__)


@frozen
class Request:
    """A request: path, the first value of each query parameter, and what a PUT brought (None: it is a GET)."""

    path: str
    query: Mapping[str, str]
    body: bytes | None = None


@frozen
class Answer:
    """What is sent back, as JSON."""

    status: HTTPStatus
    body: Mapping[str, object]


Handler = Callable[[Request], Awaitable[Answer]]


def parse(head: bytes) -> Request | Answer:
    """The request in the bytes up to the empty line, or the answer to one that is wrong."""
    try:
        method, target, version = head.split(b"\r\n", 1)[0].decode("ascii").split(" ")
        parts = urlsplit(target)
        query = parse_qs(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError:
        return Answer(HTTPStatus.BAD_REQUEST, {"error": "expected an HTTP request line"})
    if not version.startswith("HTTP/1."):
        return Answer(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, {"error": f"expected HTTP/1.1, got {version}"})
    if method not in {"GET", "PUT"}:
        return Answer(HTTPStatus.METHOD_NOT_ALLOWED, {"error": f"expected GET or PUT, got {method}"})
    body = None if method == "GET" else b""
    return Request(parts.path, {name: values[0] for name, values in query.items()}, body)


def body_bytes(head: bytes) -> int:
    """How many bytes follow the empty line; no more than a request may have."""
    found = re.search(rb"\r\ncontent-length: *(\d{1,9})\r\n", head, re.IGNORECASE)
    return min(int(found[1]), _REQUEST_BYTES) if found else 0


async def serve(host: str, port: int, handler: Handler) -> asyncio.Server:
    """Listen on `host`, an address, and answer with `handler`; port 0 takes a free one.

    Raises:
        OSError: the port is in use.
    """

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_REQUEST_S):
                head = await reader.readuntil(b"\r\n\r\n")
                body = await reader.readexactly(body_bytes(head))
            request = parse(head)
            if isinstance(request, Request) and request.body is not None:
                request = evolve(request, body=body)
            writer.write(_encoded(request if isinstance(request, Answer) else await handler(request)))
            await writer.drain()
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError) as error:
            _log.info("a client left without a whole request: %r", error)
        finally:
            writer.close()

    return await asyncio.start_server(connected, host, port, limit=_REQUEST_BYTES)


def _encoded(answer: Answer) -> bytes:
    body = json.dumps(answer.body).encode()
    head = (
        f"HTTP/1.1 {answer.status.value} {answer.status.phrase}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
