"""Server-sent events: the wall as it changes, and consoles as they speak."""

from __future__ import annotations

import asyncio
import bisect
import functools
import json
import threading
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Mapping
from difflib import SequenceMatcher
from typing import Annotated, Final
from weakref import WeakKeyDictionary

from attrs import define, evolve, field, frozen
from fastapi import APIRouter, Path, Request
from fastapi.responses import Response, StreamingResponse
from starlette.concurrency import run_in_threadpool

from lab.console.lookup import last_events
from lab.console.status import PortInfo, ports_of
from lab.errors import ConfigurationError
from lab.farm.board_state import count_states
from lab.web import wall
from lab.web.consoles import SEARCHED_BYTES, ConsoleText, LiveConsoles, Viewer, boot_starts, earlier_text, parser_of
from lab.web.rendering import ALIVE, ALIVE_S, STILL_S, Renderer, Still, event, events
from lab.web.site import Look, Site

WALL_S: Final = 2.0
TEMPLATES: Final = ("tiles.html.j2", "kiosktiles.html.j2")  # of the wall's part: at a desk, at a distance
_PARTS: Final = 64  # filters whose parts are kept


@frozen(eq=False)
class WallPart:
    """A part of the wall, and the events that bring it to its viewers.

    Attributes:
        head: the HTML above the cards.
        frame: the HTML that opens the list of cards, and that of the table; empty: there is none.
        cards, rows: the HTML of each.
    """

    head: str
    frame: tuple[str, str]
    cards: Mapping[wall.Tile, str]
    rows: Mapping[wall.Tile, str]
    _changes: WeakKeyDictionary[WallPart, bytes] = field(factory=WeakKeyDictionary, init=False)

    @functools.cached_property
    def text(self) -> str:
        """The whole part."""
        cards, table = self.frame
        text = f'<div id="wall-head">{self.head}</div>\n{cards}\n{"".join(self.cards.values())}</ul>\n'
        return f"{text}{table}\n{''.join(self.rows.values())}</tbody></table>\n" if table else text

    @functools.cached_property
    def event(self) -> bytes:
        """The event with the whole part."""
        return event("wall", self.text).encode()

    def event_after(self, shown: WallPart | None) -> bytes:
        """The event for viewers who see `shown`: what has changed, where that is less than all.

        Its elements say by `hx-swap-oob` what they replace (htmx).
        """
        if shown is None or shown.frame != self.frame:
            return self.event
        changes = self._changes.get(shown)
        if changes is None:
            head = [] if self.head == shown.head else [f'<div id="wall-head" hx-swap-oob="true">{self.head}</div>']
            cards = _list_changes(shown.cards, self.cards, "board", "ul", "li")
            # a part of a table is parsed only by itself
            rows = [
                f"<template>{html}</template>" for html in _list_changes(shown.rows, self.rows, "row", "tbody", "tr")
            ]
            change_event = event("changes", "\n".join([*head, *cards, *rows])).encode()
            changes = self._changes[shown] = change_event if len(change_event) < len(self.event) else self.event
        return changes


def _list_changes(
    shown: Mapping[wall.Tile, str], now: Mapping[wall.Tile, str], kind: str, parent: str, tag: str
) -> list[str]:
    """The changes of a list, as elements that say what they replace."""
    before, after = ({f"{kind}-{tile.anchor}": html for tile, html in tiles.items()} for tiles in (shown, now))
    names, removed, replaced, added = list(after), [], [], []
    steps = SequenceMatcher(None, list(before), names, autojunk=False).get_opcodes()
    for step, first, last, begin, end in steps:
        if step == "equal":
            replaced += [
                after[name].replace(f"<{tag} ", f'<{tag} hx-swap-oob="true" ', 1)
                for name in names[begin:end]
                if after[name] != before[name]
            ]
            continue
        removed += [f'<{tag} id="{name}" hx-swap-oob="delete"></{tag}>' for name in list(before)[first:last]]
        if begin < end:
            where = f"afterend:#{names[begin - 1]}" if begin else f"afterbegin:#wall-{kind}s"
            html = "".join(after[name] for name in names[begin:end])
            added += [f'<{parent} hx-swap-oob="{where}">{html}</{parent}>']
    return [*removed, *replaced, *added]


@define
class WallParts:
    """The parts of the wall that follow the lab, made once for each look and filter.

    While one is made, other viewers get the one before.
    """

    site: Site
    renderer: Renderer
    _made: OrderedDict[tuple[wall.Filter, str], tuple[float, WallPart]] = field(factory=OrderedDict, init=False)
    _making: threading.Lock = field(factory=threading.Lock, init=False)

    def of(self, request: Request, template: str = "") -> WallPart:
        """The part that a request asks for.

        Args:
            template: of TEMPLATES; empty: as the request says.
        """
        asked = request.query_params
        sort = asked.get("sort", "")
        board_filter = wall.Filter(
            board=asked.get("board", ""),
            board_type=asked.get("type", ""),
            release=asked.get("release", ""),
            who=asked.get("who", ""),
            failed="failed" in asked,
            mine=request.state.person.name if "mine" in asked else "",
            words=asked.get("filter", ""),
            sort=sort if sort.removeprefix("-") in wall.SORTS else "",
            whole="all" in asked,
        )
        key = board_filter, template or TEMPLATES["kiosk" in request.query_params]
        look = self.site.look()
        last = self._made.get(key)
        if last is not None and last[0] == look.at_s:
            return last[1]
        if not self._making.acquire(blocking=last is None) and last is not None:
            return last[1]
        try:
            part = self._part(look, board_filter, key[1], last[1] if last is not None else None)
            self._made[key] = look.at_s, part
            self._made.move_to_end(key)
            if len(self._made) > _PARTS:
                self._made.popitem(last=False)
            return part
        finally:
            self._making.release()

    def _part(self, look: Look, board_filter: wall.Filter, template: str, last: WallPart | None) -> WallPart:
        """The part of a look: the last one where nothing in it changed; tiles that stayed are not made again."""
        shown = wall.tiles(look.lab, look.lines, board_filter, look.sparks)
        afar = template == TEMPLATES[True]
        screen = wall.far_screen(shown) if afar else wall.near_screen(shown, board_filter)
        macro = functools.partial(self.renderer.macro, template)
        head = macro("head", screen, count_states(tile.state for tile in shown), look.lab, board_filter)
        frame = macro("cards", screen).strip(), "" if afar else macro("table", board_filter).strip()
        old_cards, old_rows = ({}, {}) if last is None or last.frame != frame else (last.cards, last.rows)
        about = (screen.common,) if afar else ()
        cards = {tile: old_cards.get(tile) or macro("card", tile, *about) for tile in screen.cards}
        rows = {} if afar else {tile: old_rows.get(tile) or macro("row", tile) for tile in screen.rows}
        part = WallPart(head, frame, cards, rows)
        if last is not None and (last.head, last.frame, [*last.cards], [*last.rows]) == (
            head,
            frame,
            [*cards],
            [*rows],
        ):
            return last
        return part


async def wall_changes(request: Request, part: Callable[[], WallPart]) -> AsyncGenerator[str | bytes, None]:
    """Stream the wall at once, then its changes; viewers of the same part get the same bytes."""
    shown: WallPart | None = None
    quiet_s = 0.0
    while request.state.still() and not await request.is_disconnected():
        part_now = await run_in_threadpool(part)
        if part_now is not shown:
            event = await run_in_threadpool(part_now.event_after, shown)
            shown, quiet_s = part_now, 0.0
            yield event
        elif quiet_s >= ALIVE_S:
            quiet_s = 0.0
            yield ALIVE
        await asyncio.sleep(WALL_S)
        quiet_s += WALL_S


async def console(
    consoles: LiveConsoles, board: str, viewer: Viewer, before: ConsoleText, still: Still = lambda: True
) -> AsyncGenerator[str | bytes, None]:
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


def router(consoles: LiveConsoles, parts: WallParts, type_of: Callable[[str], str] = lambda _board: "") -> APIRouter:
    """The streams' addresses.

    Args:
        type_of: the board type of a board; empty: nobody knows.
    """
    routes = APIRouter(include_in_schema=False)

    @routes.get("/events/wall")
    async def wall_events(request: Request) -> StreamingResponse:
        return events(wall_changes(request, lambda: parts.of(request)), request)

    @routes.get("/events/consoles/{board:path}")
    async def console_events(request: Request, board: str) -> StreamingResponse:
        viewer = Viewer(asyncio.get_running_loop())
        before = await run_in_threadpool(consoles.attach, board, viewer, await run_in_threadpool(type_of, board))
        return events(console(consoles, board, viewer, before, request.state.still), request)

    return routes


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
        look = site.look()
        port = next(iter(ports_of(look.ports, board)), None)
        if port is None:
            raise ConfigurationError(f"no console of {board!r} is open; the wall shows the boards that there are")
        board_type = next((board_now.board_type for board_now in look.lab.boards if board_now.board == board), "")
        return renderer.page("consoletail.html.j2", board=board, lines=stamps(recent_text(port.info, board_type)))

    return routes


def recent_text(info: PortInfo, board_type: str) -> ConsoleText:
    """The last lines of a port, and their moments.

    Raises:
        LabStableError: the recording cannot be read.
    """
    parser = parser_of(info, board_type)
    return earlier_text(
        info, [moment for event in last_events(info, SEARCHED_BYTES) for moment in parser.moments(event)]
    )


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
