"""The addresses by which a person types at a console."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response, StreamingResponse
from starlette.concurrency import run_in_threadpool

from lab.web.actions import Board, back
from lab.web.deeds import Deeds, field
from lab.web.sse import events
from lab.web.writing import Writer, Writers, typed


def router(deeds: Deeds) -> APIRouter:
    """A line at a time, or as long as a page is open."""
    routes = APIRouter(include_in_schema=False)
    writers = Writers(deeds.site)

    @routes.post("/boards/{board:path}/type")
    def type_line(request: Request, board: Board) -> Response:
        line = request.state.form.get("line", "")  # blanks at its ends are part of it
        with deeds.noted(request, "write", board, f"a line of {len(line)} characters") as deed:
            data = typed(line[:1000], field(request, "end", default="enter"))
            writers.type(board, deed.person.name, data)
        return back(board, "console")

    @routes.post("/boards/{board:path}/hold")
    async def hold(request: Request, board: Board) -> StreamingResponse:
        name = request.state.person.name

        def begin() -> Writer:
            with deeds.noted(request, "hold console", board):
                return writers.hold(board, name)

        writer = await run_in_threadpool(begin)

        def released(outcome: str) -> None:
            deeds.tell(request, "release console", name, outcome, board)

        return events(writers.held(board, name, writer, released, request.state.still))

    return routes
