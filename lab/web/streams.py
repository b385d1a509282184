"""Server-sent events: the wall as it changes, and consoles as they speak."""

from __future__ import annotations

import asyncio
import bisect
import json
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Final

from attrs import evolve, frozen
from fastapi import APIRouter, Path, Request
from fastapi.responses import Response, StreamingResponse
from starlette.concurrency import run_in_threadpool

from lab.console.lookup import last_events
from lab.console.status import PortInfo, ports_of
from lab.errors import ConfigurationError
from lab.web.consoles import SEARCHED_BYTES, ConsoleText, LiveConsoles, Viewer, boot_starts, earlier_text, parser_of
from lab.web.rendering import ALIVE, ALIVE_S, STILL_S, Renderer, Still, event, events
from lab.web.site import Site

WALL_S: Final = 2.0


async def wall(request: Request, render: Callable[[], bytes], every_s: float = WALL_S) -> AsyncIterator[str | bytes]:
    """Stream the wall's event at once, and after each change; all viewers of a part get the same bytes."""
    shown = b""
    quiet_s = 0.0
    while request.state.still() and not await request.is_disconnected():
        found = await run_in_threadpool(render)
        if found is not shown:
            shown, quiet_s = found, 0.0
            yield found
        elif quiet_s >= ALIVE_S:
            quiet_s = 0.0
            yield ALIVE
        await asyncio.sleep(every_s)
        quiet_s += every_s


async def console(
    consoles: LiveConsoles, board: str, viewer: Viewer, before: ConsoleText, still: Still = lambda: True
) -> AsyncIterator[str | bytes]:
    """Stream a console's output, `before` first."""
    try:
        yield before.text_event() + evolve(before, text="").events()
        quiet_s = 0.0
        with viewer.heartbeat(STILL_S):
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
    consoles: LiveConsoles, render_wall: Callable[[Request], bytes], type_of: Callable[[str], str] = lambda _board: ""
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
        before = await run_in_threadpool(consoles.attach, board, viewer, await run_in_threadpool(type_of, board))
        return events(console(consoles, board, viewer, before, request.state.still))

    return routes


# --- The last lines of a console as a page that needs no JavaScript; their stamps count as those of the live console ---


_S: Final = 1e9  # nanoseconds


@frozen
class TailLine:
    """A line; `at` is its stamp in seconds, or empty."""

    at: str
    text: str


def tail_router(site: Site, renderer: Renderer) -> APIRouter:
    """The page's address."""
    routes = APIRouter(include_in_schema=False)

    @routes.get("/consoles/{board:path}")
    def tail(board: Annotated[str, Path(max_length=200)]) -> Response:
        seen = site.seen()
        port = next(iter(ports_of(seen.ports, board)), None)
        if port is None:
            raise ConfigurationError(f"no console of {board!r} is open; the wall shows the boards that there are")
        board_type = next((each.board_type for each in seen.lab.boards if each.board == board), "")
        return renderer.page("consoletail.html.j2", board=board, lines=stamps(recent_text(port.info, board_type)))

    return routes


def recent_text(info: PortInfo, board_type: str) -> ConsoleText:
    """The last lines of a port, and their moments.

    Raises:
        LabStableError: the recording cannot be read.
    """
    parser = parser_of(info, board_type)
    return earlier_text(info, [each for event in last_events(info, SEARCHED_BYTES) for each in parser.moments(event)])


def stamps(pending: ConsoleText) -> list[TailLine]:
    """The lines, with seconds since the boot began.

    Before the first boot they are counted from the first line.
    """
    texts = pending.text.replace("\r\n", "\n").split("\n")
    begins = boot_starts(pending.moments)
    first = next((ns for ns in pending.begun_ns if ns is not None), 0)

    def at(ns: int | None) -> str:
        if ns is None:
            return ""
        boot = bisect.bisect_right(begins, ns)
        return f"{(ns - (begins[boot - 1] if boot else first)) / _S:.3f}"

    lines = [TailLine(at(ns), text) for ns, text in zip(pending.begun_ns, texts, strict=True)]
    return lines if texts[-1] else lines[:-1]
