"""Server-sent events for pages that stay up to date: the wall and the live consoles."""

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

WALL_S: Final = 2.0  # between two looks at the wall
TEMPLATES: Final = ("tiles.html.j2", "kiosktiles.html.j2")  # of the wall at a desk, and at a distance
_PARTS: Final = 64  # rendered walls that are kept, one for each filter and template


@frozen(eq=False)
class WallPart:
    """The rendered wall for one filter, and the events that bring it to its viewers.

    Attributes:
        head: the HTML above the cards.
        frame: the HTML that opens the list of cards, and the HTML that opens the table; empty: there is no table.
        cards: the HTML of each card.
        rows: the HTML of each row of the table.
    """

    head: str
    frame: tuple[str, str]
    cards: Mapping[wall.Tile, str]
    rows: Mapping[wall.Tile, str]
    _changes: WeakKeyDictionary[WallPart, bytes] = field(factory=WeakKeyDictionary, init=False)

    @functools.cached_property
    def text(self) -> str:
        """The whole part as HTML."""
        cards, table = self.frame
        text = f'<div id="wall-head">{self.head}</div>\n{cards}\n{"".join(self.cards.values())}</ul>\n'
        return f"{text}{table}\n{''.join(self.rows.values())}</tbody></table>\n" if table else text

    @functools.cached_property
    def event(self) -> bytes:
        """The server-sent event with the whole part."""
        return event("wall", self.text).encode()

    def event_after(self, shown: WallPart | None) -> bytes:
        """Return the event for viewers who see `shown` now; None: they see nothing yet.

        It has only the elements that changed, if that is shorter than the whole part. Each of them names the element
        that it replaces by `hx-swap-oob` (htmx).
        """
        if shown is None or shown.frame != self.frame:
            return self.event
        changes = self._changes.get(shown)
        if changes is None:
            head = [] if self.head == shown.head else [f'<div id="wall-head" hx-swap-oob="true">{self.head}</div>']
            cards = _list_changes(shown.cards, self.cards, "board", "ul", "li")
            # A browser parses a row outside a table only inside a <template>.
            rows = [
                f"<template>{html}</template>" for html in _list_changes(shown.rows, self.rows, "row", "tbody", "tr")
            ]
            change_event = event("changes", "\n".join([*head, *cards, *rows])).encode()
            changes = self._changes[shown] = change_event if len(change_event) < len(self.event) else self.event
        return changes


def _list_changes(
    shown: Mapping[wall.Tile, str], now: Mapping[wall.Tile, str], kind: str, parent: str, tag: str
) -> list[str]:
    """Return elements that change the list `shown` into `now` (htmx, `hx-swap-oob`).

    Args:
        kind: the prefix of the elements' ids, "board" or "row".
        parent: the tag that added elements are wrapped in.
        tag: the tag of an element.
    """
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
    """Renders the wall, once for each look at the lab, filter and template.

    While a new part is rendered, other viewers get the one before, so that nobody waits.
    """

    site: Site
    renderer: Renderer
    _made: OrderedDict[tuple[wall.Filter, str], tuple[float, WallPart]] = field(factory=OrderedDict, init=False)
    _making: threading.Lock = field(factory=threading.Lock, init=False)

    def of(self, request: Request, template: str = "") -> WallPart:
        """Return the part for the query of a request.

        Args:
            template: one of TEMPLATES; empty: that which the query asks for.
        """
        query = request.query_params
        sort = query.get("sort", "")
        board_filter = wall.Filter(
            board=query.get("board", ""),
            board_type=query.get("type", ""),
            release=query.get("release", ""),
            who=query.get("who", ""),
            failed="failed" in query,
            mine=request.state.person.name if "mine" in query else "",
            words=query.get("filter", ""),
            sort=sort if sort.removeprefix("-") in wall.SORTS else "",
            whole="all" in query,
        )
        key = board_filter, template or TEMPLATES["kiosk" in query]
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
        """Render the part for a look at the lab.

        Tiles that are as in `last` are not rendered again, and if nothing changed, `last` itself is returned: the
        streams send nothing then.
        """
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
    """Stream the whole wall, then its changes.

    Args:
        part: returns the part as it is now. The stream calls it in a thread.
    """
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
    """Stream a console's output until it ends or the person may no longer look.

    Args:
        before: the earlier text, which is sent first.
        still: returns whether the person may still look.
    """
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
    """Make the routes of the streams.

    Args:
        type_of: returns the board type of a board; empty if it is unknown.
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
    """A line of a console; `at` is its time in seconds, empty if unknown."""

    at: str
    text: str


def tail_router(site: Site, renderer: Renderer) -> APIRouter:
    """Make the route of the page with a console's last lines."""
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
    """Return the last lines of a port with their moments.

    Raises:
        LabStableError: the recording cannot be read.
    """
    parser = parser_of(info, board_type)
    return earlier_text(
        info, [moment for event in last_events(info, SEARCHED_BYTES) for moment in parser.moments(event)]
    )


def stamps(pending: ConsoleText) -> list[TailLine]:
    """Return the lines, each with its time in seconds since the boot began.

    Lines before the first boot are timed from the first line with a stamp.
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
