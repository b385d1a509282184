"""Logging in and out."""

from __future__ import annotations

import math
from typing import Annotated, Final
from urllib.parse import urlsplit

from fastapi import APIRouter, Query, Request
from fastapi.responses import RedirectResponse, Response
from starlette.concurrency import run_in_threadpool

from lab.results.audit import DONE
from lab.web.audit_log import AuditLog, address, form
from lab.web.auth import SESSION_S, Access
from lab.web.middleware import LOGGED_IN, LOGIN, TOO_MANY, WRONG_LOGIN, cookie_name
from lab.web.rendering import Renderer

_WRONG: Final = "The name or the password is wrong."
_OLD_LINK: Final = "This link is of another start of `lab web`: take the one that it printed last."
Text = Annotated[str, Query(max_length=500)]


def router(renderer: Renderer, access: Access, audit: AuditLog) -> APIRouter:
    """The addresses to log in and out."""
    routes = APIRouter(include_in_schema=False)

    def render_login(target: str, token: str, wrong: str = "", status: int = 200) -> Response:
        ways = {"by_name": access.users is not None, "owner": access.owner if access.token else ""}
        return renderer.page("login.html.j2", status=status, next=inside(target), token=token, wrong=wrong, **ways)

    @routes.get(LOGIN)
    def login_page(wanted: Annotated[str, Query(max_length=500, alias="next")] = "/", token: Text = "") -> Response:
        return render_login(wanted, token)

    @routes.post(LOGIN)
    async def log_in(request: Request) -> Response:
        fields = form(request)
        name, token, target = fields.get("name", "")[:100], fields.get("token", ""), fields.get("next", "/")
        client = address(request)
        wait_s = 0.0 if token else access.attempts.begin(name, client)  # a token cannot be guessed
        if wait_s:
            message = f"Too many wrong passwords: try again in {math.ceil(wait_s / 60)} min."
            await audit.record_refusal(request, LOGGED_IN, name, TOO_MANY)
            answer = render_login(target, "", message, 429)
            answer.headers["Retry-After"] = str(math.ceil(wait_s))
            return answer
        cookie = (
            access.log_in_here(token, request.url.hostname or "")
            if token
            else await access.tried(access.log_in, name, fields.get("password", ""))
        )
        person = access.owner if token else name
        if cookie is None:
            await audit.record_refusal(request, LOGGED_IN, person, "wrong link" if token else WRONG_LOGIN)
            return render_login(target, "", _OLD_LINK if token else _WRONG, 403)
        if not token:
            access.attempts.succeeded(name, client)
        await run_in_threadpool(audit.record, request, LOGGED_IN, person, DONE)
        answer = RedirectResponse(inside(target), 303)
        secure = request.url.scheme == "https"
        answer.set_cookie(
            cookie_name(request.scope), cookie, max_age=int(SESSION_S), secure=secure, httponly=True, samesite="strict"
        )
        return answer

    @routes.post("/logout")
    def log_out(request: Request) -> Response:
        name = cookie_name(request.scope)
        access.log_out(request.cookies.get(name, ""))
        audit.record(request, "logout", request.state.person.name, DONE)
        answer = RedirectResponse("/", 303)
        answer.delete_cookie(name, secure=request.url.scheme == "https", httponly=True, samesite="strict")
        return answer

    return routes


def inside(target: str) -> str:
    """An address of this site, never of another one."""
    try:
        parts = urlsplit(target.replace("\\", "/"))
    except ValueError:  # e.g. "//["
        return "/"
    inside = not parts.scheme and not parts.netloc and target.startswith("/") and not target.startswith(("//", "/\\"))
    return target if inside and target.isprintable() else "/"
