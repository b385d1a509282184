"""The site as an ASGI application."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Final

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.types import Scope

from lab import package_data
from lab.errors import BoardlabError, ConfigurationError
from lab.web import (
    actions,
    api,
    audit_log,
    console_input,
    guides,
    job_control,
    login,
    pages,
    rails,
    releasepages,
    streams,
    triage,
)
from lab.web.audit_log import AuditLog
from lab.web.auth import Access
from lab.web.consoles import LiveConsoles
from lab.web.middleware import API, AccessMiddleware, JsonErrors, TaggedAnswers
from lab.web.rails import LiveRails
from lab.web.rendering import Renderer
from lab.web.site import Site

STATIC: Final = Path(__file__).parent / "static"
# mkdocs' pages have small scripts of their own within them, and nothing that a person or a board wrote.
_DOCUMENTS_POLICY: Final = (
    "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
LOCAL_NAMES: Final = ("127.0.0.1", "localhost", "[::1]")


def create(
    site: Site, names: Sequence[str] = LOCAL_NAMES, access: Access | None = None, *, ahead: bool = False
) -> FastAPI:
    """The application.

    Args:
        names: by which a browser may ask for it; a page of another site cannot have a name of its own lead here.
        access: who may look and act; None: everybody may look.
        ahead: the release that was measured last is judged when the site starts, before somebody asks.
    """
    access = access or Access(open=True)
    documents = package_data.folder(package_data.SITE)
    renderer, consoles = Renderer(documents.is_dir()), LiveConsoles(site.runtime)
    parts = streams.WallParts(site, renderer)
    judge = releasepages.background_judge(site, renderer)

    @contextlib.asynccontextmanager
    async def serves(_app: FastAPI) -> AsyncIterator[None]:
        if ahead:
            judge.begin()
        try:
            yield
        finally:
            judge.end()

    app = FastAPI(title="boardlab", docs_url=None, redoc_url=None, openapi_url="/api/v1/openapi.json", lifespan=serves)
    app.include_router(pages.router(site, renderer, parts))
    app.include_router(pages.metric_router(site, renderer))
    app.include_router(pages.file_router(site))
    app.include_router(api.router(site))
    app.include_router(api.board_router(site))
    audit = AuditLog(site, access.now)
    for router in (
        login.router(renderer, access, audit),
        actions.router(audit),
        console_input.router(audit),
        triage.router(audit),
        releasepages.router(site, renderer, judge),
        audit_log.router(site, renderer),
        guides.router(site, renderer),
        job_control.router(site),
        streams.tail_router(site, renderer),
    ):
        app.include_router(router)
    app.include_router(streams.router(consoles, parts, lambda board: pages.type_of(site, board)))
    app.include_router(rails.router(LiveRails(site.runtime)))
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    if documents.is_dir():
        app.mount("/docs", Documents(directory=documents, html=True))

    @app.exception_handler(BoardlabError)
    async def answer_failure(request: Request, error: BoardlabError) -> Response:
        wrong = 404 if request.method in {"GET", "HEAD"} else 422
        return _error_answer(renderer, request, wrong if isinstance(error, ConfigurationError) else 503, str(error))

    @app.exception_handler(HTTPException)
    async def answer_refusal(request: Request, error: HTTPException) -> Response:
        return _error_answer(renderer, request, error.status_code, str(error.detail))

    @app.exception_handler(Exception)
    async def answer_bug(request: Request, _error: Exception) -> Response:  # the server's log has it
        return _error_answer(renderer, request, 500, "boardlab itself failed here; its log has the reason")

    app.add_middleware(TaggedAnswers)
    app.add_middleware(GZipMiddleware, minimum_size=1000)
    app.add_middleware(AccessMiddleware, access=access, show_to=renderer.show_to, refused=audit.record_refusal)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(names))
    app.add_middleware(JsonErrors)
    return app


class Documents(StaticFiles):
    """The documents as mkdocs built them."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        answer = await super().get_response(path, scope)
        answer.headers["Content-Security-Policy"] = _DOCUMENTS_POLICY
        return answer


def _error_answer(renderer: Renderer, request: Request, status: int, message: str) -> Response:
    """An error: JSON for programs, else a page."""
    if request.url.path.startswith(API):
        return JSONResponse({"detail": message}, status)
    return renderer.page("error.html.j2", status=status, message=message)
