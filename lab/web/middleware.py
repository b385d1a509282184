"""Access control of the site, and the security headers of its answers.

It stands before all pages, so that a new page is guarded as the others.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, quote, unquote_to_bytes

from attrs import define
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lab.errors import BoardlabError
from lab.farm import reservations
from lab.http.access import decode_credentials
from lab.http.server import REQUEST_S
from lab.web.auth import NOBODY, Access, Person, TokenScope
from lab.web.rendering import IS_HEAD

COOKIE: Final = "boardlab"
SECURE_COOKIE: Final = "__Host-boardlab"  # browsers take it over TLS only, and from this host only (RFC 6265bis)
LOGIN: Final = "/login"
OPEN_TO_ALL: Final = ("/static/", LOGIN)
LOGGED_IN: Final = "login"  # its name in the audit log
WRONG_LOGIN: Final = "wrong name or password"
TOO_MANY: Final = "too many wrong passwords"
# The audit log's names of actions, by the last word of their paths.
ACTIONS: Final[Mapping[str, str]] = {
    **{
        word: word
        for word in ("reserve", "release", "cancel", "power-cycle", "run", "comment", "review", "mute", "logout")
    },
    "maintain": reservations.MAINTAIN,
    "maintained": reservations.MAINTAINED,
    "type": "write",
    "hold": "hold console",
    "again": "measure again",
    "login": LOGGED_IN,
}
NEEDS: Final[Mapping[str, TokenScope]] = {
    "reserve": "reserve",
    "release": "reserve",
    "run": "run",
    "cancel": "run",
}  # scope of a token for an action
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_MOST_BYTES: Final = 64 * 1024  # of a form
_NUL: Final = "no text has a NUL in it: nothing was done\n"
WITHOUT_NUL: Final = r"^[^\x00]*$"  # what the JSON interface's document says of a text
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src "
    "'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_HEADERS: Final = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
_TLS_HEADERS: Final = {"Strict-Transport-Security": "max-age=31536000"}  # a year; RFC 6797
_UNKNOWN_PROGRAM: Final = "no program has this token (any more): `lab web user add NAME --scope SCOPE` makes one\n"
_REALM: Final = {"WWW-Authenticate": 'Basic realm="boardlab", charset="UTF-8"'}


def cookie_name(scope: Scope) -> str:
    """The name of the session's cookie.

    Over TLS it is one that is sent over TLS only. Each port has its own, since they share the host's cookies.
    """
    _, port = scope.get("server") or ("", None)
    return f"{SECURE_COOKIE if scope['scheme'] == 'https' else COOKIE}-{port or 0}"


@define
class AccessMiddleware:
    """ASGI middleware.

    Attributes:
        show_to: called with the person, before a page is made.
        refused: called with a refused action: its name, the person, the reason, the board.
    """

    app: ASGIApp
    access: Access
    show_to: Callable[[Person], None]
    refused: Callable[[Request, str, str, str, str], Awaitable[None]]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in (_HEADERS | _TLS_HEADERS if scope["scheme"] == "https" else _HEADERS).items():
                    headers.setdefault(name, value)
            await send(message)

        request = Request(scope, receive)
        answer: Response | None
        try:
            answer = await self._refusal(request)
        except BoardlabError as error:  # the file of users cannot be read
            answer = PlainTextResponse(f"{error}\n", 503)
        if answer is None and "\0" in unquote_to_bytes(scope["query_string"]).decode("latin-1"):
            answer = PlainTextResponse(_NUL, 400)  # PostgreSQL has no text with it
        if scope["method"] not in _SAFE:
            if answer is None:
                try:
                    body = await _body(request)
                except ClientDisconnect:  # the client is gone
                    return
                if isinstance(body, Response):
                    answer = body
                else:
                    answer = _form_refusal(request, body)
                    receive = _replay(body, receive)
            if answer is not None:
                await self._record(request, answer)
        if scope["method"] == "HEAD":
            scope = {**scope, "method": "GET", IS_HEAD: True}  # uvicorn, which has the old scope, sends no body
        await (answer or self.app)(scope, receive, with_headers)

    async def _record(self, request: Request, answer: Response) -> None:
        """Record a refused action."""
        before, _, last = request.scope["path"].removeprefix("/api/v1").rpartition("/")
        if last in ACTIONS:
            board = before.removeprefix("/boards/") if before.startswith("/boards/") else ""
            person: Person = getattr(request.state, "person", NOBODY)
            await self.refused(request, ACTIONS[last], person.name, bytes(answer.body).decode().strip(), board)

    async def _refusal(self, request: Request) -> Response | None:
        """The refusal of a person who may not look; None: go on."""
        headers, address = request.headers, request.client.host if request.client else ""
        cookie = request.cookies.get(cookie_name(request.scope), "")
        person = self.access.person(headers, cookie, address)
        authorization = headers.get("authorization")
        if (
            person is None and authorization and not _is_bearer(authorization)
        ):  # a token is no password, and locks nobody out
            person = self.access.recall(authorization)
            if person is None:
                name, _, password = decode_credentials(authorization).partition(":")
                if self.access.attempts.begin(name[:100], address):
                    await self.refused(request, LOGGED_IN, name, TOO_MANY, "")
                    return PlainTextResponse(f"{TOO_MANY}; try again in some minutes\n", 429)
                person = await self.access.tried(self.access.by_password, authorization, name, password)
                if person is not None:
                    self.access.attempts.succeeded(name[:100], address)
                else:
                    await self.refused(request, LOGGED_IN, name, WRONG_LOGIN, "")
        if answer := _entry_refusal(request, person, logs_in=self.access.users is not None):
            return answer
        request.state.person = person or Person("")
        request.state.still = lambda: self.access.still(request.state.person, headers, cookie, address)
        self.show_to(request.state.person)
        return None


def _is_bearer(authorization: str) -> bool:
    return authorization.lower().startswith("bearer ")


def _entry_refusal(request: Request, person: Person | None, *, logs_in: bool) -> Response | None:
    """The refusal of a request for its sender alone; None: go on."""
    path, headers = request.url.path, request.headers
    if person is not None:
        looks = request.method in _SAFE and person.scope is not None and "read" not in person.scope
        return PlainTextResponse(_beyond(person, "read"), 403) if looks else None
    if _is_bearer(headers.get("authorization", "")):
        return PlainTextResponse(_UNKNOWN_PROGRAM, 401, _REALM)
    if path.startswith(OPEN_TO_ALL):
        return None
    if not logs_in or path.startswith(API) or "text/html" not in headers.get("accept", ""):
        return PlainTextResponse("a name and a password are needed\n", 401, _REALM)
    if request.method not in _SAFE:
        return PlainTextResponse(f"log in first, at {LOGIN}\n", 401)
    target = path + (f"?{request.url.query}" if request.url.query else "")
    return RedirectResponse(f"{LOGIN}?next={quote(target, safe='')}", 303)


def _forbidden(request: Request, person: Person, form: Mapping[str, str]) -> Response | None:
    """The refusal of a viewer's or foreign form; None: go on."""
    headers = request.headers
    scheme = headers.get("x-forwarded-proto") or request.scope["scheme"]  # no page of another site sets that header
    if headers.get("origin") != f"{scheme}://{headers.get('host', '')}":
        return PlainTextResponse("this did not come from a page of this site: nothing was done\n", 403)
    path = request.url.path
    if path == LOGIN:
        return None
    if not person.name:
        return PlainTextResponse(f"log in first, at {LOGIN}\n", 401)
    csrf = headers.get("x-csrf-token", "") or form.get("csrf", "")
    if not person.csrf or not hmac.compare_digest(csrf.encode(), person.csrf.encode()):
        return PlainTextResponse("this page is too old: load it again, then repeat; nothing was done\n", 403)
    if not person.acts and path != "/logout":
        return PlainTextResponse(f"{person.name} may only look: an operator may do that\n", 403)
    return None


def _beyond_scope(request: Request, person: Person, scope: Collection[TokenScope]) -> Response | None:
    """The refusal of an action that a token is not for; None: go on."""
    path = request.url.path
    needed = NEEDS.get(path.rpartition("/")[2], "") if path.startswith(API) else ""
    if needed in scope:
        return None
    if needed:
        return PlainTextResponse(_beyond(person, needed), 403)
    ways = ", ".join(f"{API}v1/boards/BOARD/{action}" for action in NEEDS)
    return PlainTextResponse(f"a token acts by {ways} only: nothing was done\n", 403)


def _beyond(person: Person, needed: str) -> str:
    has = ", ".join(sorted(person.scope or ())) or "nothing"
    return f"the token of {person.name} is for {has}; this needs the scope {needed}\n"


def _form_refusal(request: Request, body: bytes) -> Response | None:
    """The refusal of a form; None: go on.

    The form's fields are in the request's state afterwards.
    """
    form = dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))
    request.state.form = form
    person: Person = request.state.person
    answer = (
        _forbidden(request, person, form) if person.scope is None else _beyond_scope(request, person, person.scope)
    )
    if answer is None and any("\0" in text for text in (*form, *form.values())):
        return PlainTextResponse(_NUL, 400)
    return answer


async def _body(request: Request) -> bytes | Response:
    """The form, or the refusal of a long or slow one."""
    body = b""
    try:
        async with asyncio.timeout(REQUEST_S):
            async for part in request.stream():
                body += part
                if len(body) > _MOST_BYTES:
                    return PlainTextResponse("a form has at most 64 KiB\n", 413)
    except TimeoutError:
        late = f"expected the whole form within {REQUEST_S:g} s; send it again\n"
        return PlainTextResponse(late, 408, {"Connection": "close"})
    return body


def _replay(body: bytes, receive: Receive) -> Receive:
    """Give a body that was read once more, then the next messages."""
    is_replayed = False

    async def replay() -> Message:
        nonlocal is_replayed
        if is_replayed:
            return await receive()
        is_replayed = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


API: Final = "/api/"
_DETAIL: Final = {"type": "object", "properties": {"detail": {"type": "string"}}, "required": ["detail"]}
_ERRORS: Final = {
    400: "The address has a NUL, or the site was asked for by a name that it has not.",
    401: "A name and a password, or a token, are needed, or these are wrong.",
    403: "The token's scope has not this; `detail` says which has.",
    404: "Nothing is called so; `detail` says what there is.",
    429: "Too many wrong passwords.",
    500: "boardlab itself failed; its log has the reason.",
    503: "The results cannot be read; `detail` says why, and what to do.",
}
ANSWERS: Final[dict[int | str, dict[str, Any]]] = {
    304: {"description": "As the client's If-None-Match has it."},
    **{
        status: {"description": about, "content": {"application/json": {"schema": _DETAIL}}}
        for status, about in _ERRORS.items()
    },
}  # of every address, beside 200 and 422


@define
class JsonErrors:
    """ASGI middleware: an error under /api that is text becomes `{"detail": text}`."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http" or not scope["path"].startswith(API):
            await self.app(scope, receive, send)
            return
        start: Message | None = None
        text = b""

        async def send_json(message: Message) -> None:
            nonlocal start, text
            if message["type"] == "http.response.start" and (
                message["status"] >= 400 and _content_type(message).startswith("text/plain")
            ):
                start = message
                return
            if start is None:
                await send(message)
                return
            text += message.get("body", b"")
            if not message.get("more_body", False):
                headers = {
                    name: value for name, value in Headers(raw=start["headers"]).items() if "content-" not in name
                }
                detail = {"detail": text.decode("utf-8", "replace").strip()}
                await JSONResponse(detail, start["status"], headers)(scope, receive, send)

        await self.app(scope, receive, send_json)


def _content_type(start: Message) -> str:
    return Headers(raw=start["headers"]).get("content-type", "")


_KINDS: Final = (
    "application/json",
    "text/html",
    "text/csv",
    "text/plain",
    "text/markdown",
)  # no stream: those have no end


@define
class TaggedAnswers:
    """ASGI middleware: pages and documents carry an ETag of their bytes."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http" or scope["method"] not in {"GET", "HEAD"}:
            await self.app(scope, receive, send)
            return
        header = Headers(scope=scope).get("if-none-match", "")
        client_tags = {
            tag.strip().removeprefix("W/") for tag in header.split(",")
        }  # a proxy's weak tag counts as strong
        start: Message | None = None
        body = b""

        async def send_tagged(message: Message) -> None:
            nonlocal start, body
            if message["type"] == "http.response.start" and (
                message["status"] == 200 and _content_type(message).startswith(_KINDS)
            ):
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
                if tag in client_tags:
                    start["status"], body = 304, b""
                    for name in ("content-length", "content-type"):
                        if name in headers:
                            del headers[name]
                await send(start)
                await send({"type": "http.response.body", "body": body})

        await self.app(scope, receive, send_tagged)
