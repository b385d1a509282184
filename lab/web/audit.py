"""The audit as a page, as CSV, and as JSON."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Query
from fastapi.responses import Response

from lab.results.audit import Audit, Entry, as_csv, document
from lab.results.records import LAST_ID
from lab.web.rendering import Renderer
from lab.web.site import Site

PAGE: Final = 100
_MOST: Final = 10_000  # of a file
Asked = Annotated[str, Query(max_length=200)]
Before = Annotated[int | None, Query(ge=1, le=LAST_ID)]


def router(site: Site, renderer: Renderer) -> APIRouter:
    """The audit's addresses."""
    routes = APIRouter()

    def found(board: str, person: str, action: str, before: int | None, limit: int) -> list[Entry]:
        with site.store() as store:
            return Audit(store).entries(board=board, person=person, action=action, before=before, limit=limit)

    @routes.get("/audit", include_in_schema=False)
    def audit_page(board: Asked = "", person: Asked = "", action: Asked = "", before: Before = None) -> Response:
        entries = found(board, person, action, before, PAGE + 1)
        asked = {"board": board, "person": person, "action": action}
        more = entries[PAGE - 1].id if len(entries) > PAGE else None
        return renderer.page("audit.html.j2", entries=entries[:PAGE], asked=asked, more=more)

    @routes.get("/audit.csv", include_in_schema=False)
    def audit_csv(board: Asked = "", person: Asked = "", action: Asked = "", before: Before = None) -> Response:
        text = as_csv(found(board, person, action, before, _MOST))
        name = {"Content-Disposition": 'attachment; filename="audit.csv"'}
        return Response(text, media_type="text/csv; charset=utf-8", headers=name)

    @routes.get("/api/v1/audit")
    def audit(
        board: Asked = "",
        person: Asked = "",
        action: Asked = "",
        before: Before = None,
        limit: Annotated[int, Query(ge=1, le=_MOST)] = PAGE,
    ) -> dict[str, Any]:
        """Who did what, the newest first; `next` is the `before` of the next page, null on the last one."""
        entries = found(board, person, action, before, limit + 1)
        shown = [document(entry) for entry in entries[:limit]]
        return {"entries": shown, "next": entries[limit - 1].id if len(entries) > limit else None}

    return routes
