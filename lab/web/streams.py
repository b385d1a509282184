"""Server-sent events: the wall as it changes, and consoles as they speak."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Final

from attrs import evolve
from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from lab.web.consoles import Consoles
from lab.web.said import Said
from lab.web.sse import ALIVE, ALIVE_S, STILL_S, Still, event, events
from lab.web.viewers import Viewer

WALL_S: Final = 2.0


async def wall(request: Request, render: Callable[[], str], every_s: float = WALL_S) -> AsyncIterator[str]:
    """The wall's HTML at once, and again whenever it has changed, as long as its reader may look."""
    shown = ""
    quiet_s = 0.0
    while request.state.still() and not await request.is_disconnected():
        found = await run_in_threadpool(render)
        if found != shown:
            shown, quiet_s = found, 0.0
            yield event("wall", found)
        elif quiet_s >= ALIVE_S:
            quiet_s = 0.0
            yield ALIVE
        await asyncio.sleep(every_s)
        quiet_s += every_s


async def console(
    consoles: Consoles, board: str, viewer: Viewer, before: Said, still: Still = lambda: True
) -> AsyncIterator[str | bytes]:
    """What a console says, `before` first, as long as its reader may look."""
    try:
        yield before.text_event() + evolve(before, text="").events()
        quiet_s = 0.0
        with viewer.beating(STILL_S):
            while True:
                piece, lost = await viewer.queue.get()
                if viewer.due:
                    viewer.due = False
                    if not still():
                        return
                if not piece.events:
                    quiet_s += STILL_S
                    if quiet_s > ALIVE_S:
                        quiet_s = 0.0
                        yield ALIVE
                    continue
                quiet_s = 0.0
                if lost:
                    yield event("text", json.dumps({"text": "", "lost": lost, "t_us": None}))
                yield piece.events
                if piece.error:
                    return
    finally:
        consoles.leave(board, viewer)


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
        return events(console(consoles, board, viewer, before, request.state.still))

    return routes
