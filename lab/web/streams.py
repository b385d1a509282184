"""Server-sent events: the wall as it changes, and consoles as they speak."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Final

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from lab.console.model import Moment
from lab.web.consoles import Consoles, Viewer

WALL_S: Final = 2.0
ALIVE_S: Final = 15.0  # a comment so often keeps proxies from ending a quiet stream


def events(body: AsyncIterator[str]) -> StreamingResponse:
    """An answer of server-sent events (HTML Standard, 9.2)."""
    return StreamingResponse(body, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})


def event(name: str, data: str) -> str:
    """One event. A text with several lines needs a `data:` for each."""
    lines = data.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return f"event: {name}\n" + "".join(f"data: {line}\n" for line in lines) + "\n"


async def wall(request: Request, render: Callable[[], str], every_s: float = WALL_S) -> AsyncIterator[str]:
    """The wall's HTML at once, and again whenever it has changed."""
    shown = ""
    quiet_s = 0.0
    while not await request.is_disconnected():
        found = await run_in_threadpool(render)
        if found != shown:
            shown, quiet_s = found, 0.0
            yield event("wall", found)
        elif quiet_s >= ALIVE_S:
            quiet_s = 0.0
            yield ": alive\n\n"
        await asyncio.sleep(every_s)
        quiet_s += every_s


async def console(request: Request, consoles: Consoles, board: str, viewer: Viewer, before: str) -> AsyncIterator[str]:
    """What a console says; `before` first."""
    try:
        yield event("text", json.dumps({"text": before, "lost": 0}))
        while not await request.is_disconnected():
            try:
                piece = await asyncio.wait_for(viewer.queue.get(), ALIVE_S)
            except TimeoutError:
                yield ": alive\n\n"
                continue
            if piece.error:
                yield event("gone", json.dumps({"error": piece.error}))
                return
            if piece.text or piece.lost:
                yield event("text", json.dumps({"text": piece.text, "lost": piece.lost}))
            for moment in piece.moments:
                yield event("moment", json.dumps(_moment(moment)))
    finally:
        consoles.leave(board, viewer)


def _moment(moment: Moment) -> dict[str, object]:
    """A moment; `t_us` is on the host's clock, so that differences are what is measured."""
    return {"name": moment.name, "t_us": moment.t_ns / 1000, "uncertainty_us": moment.uncertainty_ns / 1000}


def router(
    consoles: Consoles, render_wall: Callable[[Request], str], type_of: Callable[[str], str] = lambda _board: ""
) -> APIRouter:
    """The streams' addresses.

    Args:
        type_of: the board type of a board; empty: nobody knows.
    """
    routes = APIRouter(include_in_schema=False)

    @routes.get("/events/wall")
    async def wall_events(request: Request) -> StreamingResponse:
        return events(wall(request, lambda: render_wall(request)))

    @routes.get("/events/consoles/{board:path}")
    async def console_events(request: Request, board: str) -> StreamingResponse:
        viewer = Viewer(asyncio.get_running_loop())
        before = await run_in_threadpool(consoles.look, board, viewer, await run_in_threadpool(type_of, board))
        return events(console(request, consoles, board, viewer, before))

    return routes
