"""Minimal HTTP/1.1 of a PDU and its relays (RFC 9112).

One GET or PUT, one JSON answer, connection closed.

Pages in the user's own browser are refused: their requests have the user's rights, yet are not the user's.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from urllib.parse import parse_qs, urlsplit

from attrs import evolve, frozen

from lab.virtual import ports

REQUEST_S = 5.0
REQUEST_BYTES = 8192
_NAMES = re.compile(r"(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d+)?", re.IGNORECASE)  # our name; a rebound name differs
_PAGES = {"same-origin", "same-site", "cross-site"}  # https://www.w3.org/TR/fetch-metadata/#sec-fetch-site-header
_log = logging.getLogger(__name__)


@frozen
class Request:
    """A request: path, query parameters, body.

    Each query parameter has its first value. A GET has no body (None).
    """

    path: str
    query: Mapping[str, str]
    body: bytes | None = None


@frozen
class JsonResponse:
    """An answer as JSON."""

    status: HTTPStatus
    body: Mapping[str, object]


Handler = Callable[[Request], Awaitable[JsonResponse]]


def parse(head: bytes) -> Request | JsonResponse:
    """Parse a request's head; a wrong one gives its answer."""
    try:
        method, target, version = head.split(b"\r\n", 1)[0].decode("ascii").split(" ")
        parts = urlsplit(target)
        query = parse_qs(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError:
        return JsonResponse(HTTPStatus.BAD_REQUEST, {"error": "expected an HTTP request line"})
    if _from_a_page(head):
        return JsonResponse(
            HTTPStatus.FORBIDDEN, {"error": "pages in a browser may not switch boards; expected 127.0.0.1 as Host"}
        )
    if not version.startswith("HTTP/1."):
        return JsonResponse(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, {"error": f"expected HTTP/1.1, got {version}"})
    if method not in {"GET", "PUT"}:
        return JsonResponse(HTTPStatus.METHOD_NOT_ALLOWED, {"error": f"expected GET or PUT, got {method}"})
    body = None if method == "GET" else b""
    return Request(parts.path, {name: values[0] for name, values in query.items()}, body)


def body_bytes(head: bytes) -> int:
    """Length of a request's body, up to the limit."""
    found = re.search(rb"\r\ncontent-length: *(\d{1,9})\r\n", head, re.IGNORECASE)
    return min(int(found[1]), REQUEST_BYTES) if found else 0


async def serve(port: int, handler: Handler) -> asyncio.Server:
    """Serve `handler` on a port of loopback; 0: a free one.

    Other users are refused.

    Raises:
        OSError: the port is in use.
    """

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(REQUEST_S):
                head = await reader.readuntil(b"\r\n\r\n")
                body = await reader.readexactly(body_bytes(head))
            request = parse(head)
            if isinstance(request, Request) and request.body is not None:
                request = evolve(request, body=body)
            writer.write(encoded(request if isinstance(request, JsonResponse) else await handler(request)))
            await writer.drain()
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError) as error:
            _log.info("a client left without a whole request: %r", error)
        finally:
            writer.close()

    return await ports.listen(connected, (ports.LOOPBACK, port), refusal=refusal(), limit=REQUEST_BYTES)


def refusal() -> bytes:
    """Answer to another user."""
    reason = "this virtual bench is another user's: only its user and root may use it"
    return encoded(JsonResponse(HTTPStatus.FORBIDDEN, {"error": reason}))


def _from_a_page(head: bytes) -> bool:
    headers = {
        name.strip().lower(): value.strip()
        for name, _, value in (line.partition(":") for line in head.decode("latin-1").split("\r\n")[1:])
    }
    host = headers.get("host", "")
    return "origin" in headers or headers.get("sec-fetch-site") in _PAGES or bool(host and not _NAMES.fullmatch(host))


def encoded(answer: JsonResponse) -> bytes:
    """The answer as bytes."""
    body = json.dumps(answer.body).encode()
    head = (
        f"HTTP/1.1 {answer.status.value} {answer.status.phrase}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
