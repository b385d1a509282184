"""Server-sent events of a board's rails."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Final

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from lab.web.rails import LiveRails, RailsPiece
from lab.web.sse import ALIVE, ALIVE_S, event, events

RAILS_S: Final = 0.5


def router(rails: LiveRails) -> APIRouter:
    """The stream's address."""
    routes = APIRouter(include_in_schema=False)

    @routes.get("/events/rails/{board:path}")
    async def rail_events(request: Request, board: str) -> StreamingResponse:
        return events(stream(request, rails, board))

    return routes


async def stream(request: Request, rails: LiveRails, board: str, every_s: float = RAILS_S) -> AsyncIterator[str]:
    """The last 60 s of a board's rails, and then what comes, as long as its reader may look."""
    last, said, quiet_s = -1, None, 0.0
    while request.state.still() and not await request.is_disconnected():
        piece = await run_in_threadpool(rails.since, board, last)
        if piece.steps or piece.said != said:
            yield event("rails", document(piece, rails.clock.now_ns()))
            last, said, quiet_s = piece.last, piece.said, 0.0
        elif quiet_s >= ALIVE_S:
            quiet_s = 0.0
            yield ALIVE
        await asyncio.sleep(every_s)
        quiet_s += every_s


def document(piece: RailsPiece, now_ns: int) -> str:
    """A piece as JSON: `steps` are milliseconds on the host's clock, then the watts of each rail, null where none came."""
    return json.dumps(
        {
            "now_ms": now_ns / 1e6,
            "rails": piece.rails,
            "begins": piece.begins,
            "said": piece.said,
            "steps": [
                [step.t_ns / 1e6, *(None if watt is None else round(watt, 6) for watt in step.watts)]
                for step in piece.steps
            ],
        }
    )
