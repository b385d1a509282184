"""Server-sent events (HTML Standard, 9.2)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Final, TypeAlias

from fastapi.responses import StreamingResponse

ALIVE_S: Final = 15.0  # a comment so often keeps proxies from ending a quiet stream
ALIVE: Final = ": alive\n\n"
STILL_S: Final = 2.0  # so often a stream asks whether its reader may still look
Still: TypeAlias = Callable[[], bool]


def events(body: AsyncIterator[str | bytes]) -> StreamingResponse:
    """An answer of server-sent events; it ends when its reader goes."""
    return StreamingResponse(body, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})


def event(name: str, data: str) -> str:
    """One event. A text with several lines needs a `data:` for each."""
    lines = data.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return f"event: {name}\n" + "".join(f"data: {line}\n" for line in lines) + "\n"
