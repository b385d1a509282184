"""The JSON interface's part of the wall, boards, guides and verdicts: what their pages show."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Any, Final

from attrs import asdict
from fastapi import APIRouter, Path, Query

from lab.errors import ConfigurationError
from lab.farm import status
from lab.host.clock import utc_now
from lab.judge import text
from lab.judge.store import read_verdicts
from lab.results import formatting, listing
from lab.results.audit import Audit
from lab.results.listing import RunFilter
from lab.web import guides, joblogs, wall
from lab.web.api import NOT_FOUND
from lab.web.site import Site
from lab.web.wiring import wires

_RUNS: Final = 50
_LATELY: Final = dt.timedelta(days=90)
_MOST: Final = 500
Name = Annotated[str, Path(max_length=200)]
Asked = Annotated[str, Query(max_length=200)]


def router(site: Site) -> APIRouter:
    """The interface's addresses."""
    routes = APIRouter(prefix="/api/v1", responses=NOT_FOUND)

    @routes.get("/wall")
    def tiles() -> list[dict[str, Any]]:
        """The wall: a tile for each board, what needs a person first."""
        seen = site.seen()
        return [_plain(asdict(tile)) for tile in wall.tiles(seen.lab, seen.lines, sparks=seen.sparks)]

    @routes.get("/boards/{board:path}")
    def board(board: Name) -> dict[str, Any]:
        """A board: its state as of `/lab`, wiring, the last 50 runs, comments, and the jobs that were queued in a browser."""
        found = status.document(site.seen().lab)
        now = next((each for each in found["boards"] if each["board"] == board), None)
        env = next((each.env for each in site.seen().lab.boards if each.board == board), "")
        with site.store() as store:
            runs = listing.listed(store, RunFilter(boards=(board,)), _RUNS)
            comments = [_plain(asdict(each)) for each in Audit(store).comments(board)]
            logs = [asdict(each) for each in joblogs.of_board(site, store, board)]
        if now is None and not runs:
            raise ConfigurationError(f"no board {board!r}; /api/v1/lab lists them")
        listed = [formatting.listed_document(each.run, each.outcomes, each.averaged) for each in runs]
        wired, unread = wires(site.home(), board, env)
        return {
            "board": board,
            "now": now,
            "wiring": [asdict(wire) for wire in wired],
            "wiring_problem": unread,
            "runs": listed,
            "comments": comments,
            "jobs": logs,
        }

    @routes.get("/guides")
    def guide_list() -> list[dict[str, Any]]:
        """The releases that have a performance guide."""
        with site.store() as store:
            return [_plain(asdict(each)) for each in guides.listed(store)]

    @routes.get("/verdicts")
    def verdicts(metric: Asked = "", board: Asked = "") -> list[dict[str, Any]]:
        """What the judge called in 90 days, the newest first, with what people decided; at most 500."""
        with site.store() as store:
            found = read_verdicts(store, metric=metric or None, board=board or None, since=utc_now() - _LATELY)
        return [text.document(each) for each in found[:_MOST]]

    return routes


def _plain(value: Any) -> Any:
    """As JSON has it: instants as ISO 8601."""
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return value.isoformat() if isinstance(value, dt.datetime) else value
