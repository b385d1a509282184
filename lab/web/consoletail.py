"""The last lines of a console as a page that needs no JavaScript; their stamps count as those of the live console."""

from __future__ import annotations

import bisect
from typing import Annotated, Final

from attrs import frozen
from fastapi import APIRouter, Path
from fastapi.responses import Response

from lab.console.lookup import last_events
from lab.console.status import PortInfo
from lab.errors import ConfigurationError
from lab.web.consoles import SEARCHED_BYTES, before, hearing
from lab.web.rendering import Renderer
from lab.web.said import Said, boots
from lab.web.site import Site

_S: Final = 1e9  # nanoseconds


@frozen
class TailLine:
    """A line; `at` is its stamp in seconds, empty where it has none."""

    at: str
    text: str


def router(site: Site, renderer: Renderer) -> APIRouter:
    """The page's address."""
    routes = APIRouter(include_in_schema=False)

    @routes.get("/consoles/{board:path}")
    def tail(board: Annotated[str, Path(max_length=200)]) -> Response:
        seen = site.seen()
        port = next((each for each in seen.ports if each.board == board), None)
        if port is None:
            raise ConfigurationError(f"no console of {board!r} is open; the wall shows the boards that there are")
        board_type = next((each.board_type for each in seen.lab.boards if each.board == board), "")
        return renderer.page("consoletail.html.j2", board=board, lines=stamps(heard(port.info, board_type)))

    return routes


def heard(info: PortInfo, board_type: str) -> Said:
    """The last lines of a port and the moments before them and in them.

    Raises:
        LabStableError: the recording cannot be read.
    """
    finding = hearing(info, board_type)
    return before(info, [each for event in last_events(info, SEARCHED_BYTES) for each in finding.moments(event)])


def stamps(said: Said) -> list[TailLine]:
    """The lines, each with the seconds since its boot began, or since the first line where none has yet."""
    texts = said.text.replace("\r\n", "\n").split("\n")
    begins = boots(said.moments)
    first = next((ns for ns in said.begun_ns if ns is not None), 0)

    def at(ns: int | None) -> str:
        if ns is None:
            return ""
        boot = bisect.bisect_right(begins, ns)
        return f"{(ns - (begins[boot - 1] if boot else first)) / _S:.3f}"

    lines = [TailLine(at(ns), text) for ns, text in zip(said.begun_ns, texts, strict=True)]
    return lines if texts[-1] else lines[:-1]
