"""What a browser or a program has already is not sent again (RFC 9110, 8.8.3 and 13.1.2)."""

from __future__ import annotations

import hashlib
from typing import Final

from attrs import define
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_KINDS: Final = (
    "application/json",
    "text/html",
    "text/csv",
    "text/plain",
    "text/markdown",
)  # no stream: those have no end


@define
class TaggedAnswers:
    """ASGI middleware: pages and documents carry an ETag of what is in them."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http" or scope["method"] not in {"GET", "HEAD"}:
            await self.app(scope, receive, send)
            return
        known = _known(Headers(scope=scope).get("if-none-match", ""))
        start: Message | None = None
        body = b""

        async def tagged(message: Message) -> None:
            nonlocal start, body
            if message["type"] == "http.response.start" and _tagged(message):
                start = message
                return
            if start is None:
                await send(message)
                return
            body += message.get("body", b"")
            if not message.get("more_body", False):
                headers = MutableHeaders(scope=start)
                tag = headers.get("etag") or f'"{hashlib.sha256(body).hexdigest()[:32]}"'
                headers["ETag"] = tag
                headers.setdefault("Cache-Control", "private, no-cache")
                if tag in known:
                    start["status"], body = 304, b""
                    for name in ("content-length", "content-type"):
                        if name in headers:
                            del headers[name]
                await send(start)
                await send({"type": "http.response.body", "body": body})

        await self.app(scope, receive, tagged)


def _tagged(start: Message) -> bool:
    kind = Headers(raw=start["headers"]).get("content-type", "")
    return start["status"] == 200 and kind.startswith(_KINDS)


def _known(given: str) -> frozenset[str]:
    """The tags that the asker has; what a proxy has made weak is the same."""
    return frozenset(each.strip().removeprefix("W/") for each in given.split(","))
