"""Search for boards, board types, releases, metrics and runs by name."""

from __future__ import annotations

from typing import Annotated, Final
from urllib.parse import quote

from fastapi import APIRouter, Query
from fastapi.responses import Response

from lab.results import averages, listing
from lab.results.listing import RunFilter
from lab.web.api import NOT_FOUND
from lab.web.middleware import WITHOUT_NUL
from lab.web.rendering import Renderer
from lab.web.site import Site

MOST: Final = 100  # of a kind
_DIGITS: Final = 10
Asked = Annotated[str, Query(max_length=200, pattern=WITHOUT_NUL)]


def router(site: Site, renderer: Renderer) -> APIRouter:
    """The search's addresses."""
    routes = APIRouter()

    @routes.get("/search", include_in_schema=False)
    def search_page(q: Asked = "") -> Response:
        return renderer.page("search.html.j2", q=q, found=found(site, q.strip()) if q.strip() else {})

    @routes.get("/api/v1/search", responses=NOT_FOUND)
    def search(q: Asked) -> dict[str, list[dict[str, str]]]:
        """Matching names by kind, each with the address of its page.

        At most a hundred of a kind.
        """
        named = found(site, q.strip()) if q.strip() else {}
        return {kind: [{"name": name, "page": page} for name, page in names] for kind, names in named.items()}

    return routes


def found(site: Site, wanted: str) -> dict[str, list[tuple[str, str]]]:
    """Title -> (name, address) of the matching names.

    A number is a run's, too.
    """
    text = wanted.casefold()
    with site.store() as store:
        boards = {*listing.known(store, "board"), *(each.board for each in site.seen().lab.boards)}
        named = {
            "Boards": [(name, f"/boards/{quote(name)}") for name in sorted(boards)],
            "Board types": [(name, f"/runs?type={quote(name)}") for name in listing.known(store, "board_type")],
            "Releases": [(name, f"/releases/{quote(name)}") for name in listing.known(store, "release")],
            "Metrics": [(name, f"/metrics/{quote(name)}") for name, _, _ in averages.metrics(store)],
        }
        matching = {
            title: [each for each in names if text in each[0].casefold()][:MOST] for title, names in named.items()
        }
        if wanted.isdecimal() and len(wanted) < _DIGITS:
            runs = listing.listed(store, RunFilter(before=int(wanted) + 1), 1)
            matching["Runs"] = [
                (f"run {each.run.id}", f"/runs/{each.run.id}") for each in runs if str(each.run.id) == wanted
            ]
    return {title: names for title, names in matching.items() if names}
