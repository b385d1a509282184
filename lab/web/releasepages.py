"""The pages of releases, and the same as JSON, as CSV and as Markdown for a comment in CI."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final
from urllib.parse import quote, urlencode

import anyio
from anyio import to_thread
from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import HTMLResponse, Response
from markupsafe import Markup

from lab.report.against import Comparison
from lab.results.revision import runs_revision
from lab.results.series import Place, release_names
from lab.results.snapshot import RunHead
from lab.results.store import Store
from lab.shown import json_text
from lab.web import releaseforms, releases
from lab.web.api import NOT_FOUND
from lab.web.judging import Judging
from lab.web.releaseforms import Compared
from lab.web.releases import ReleaseJudge
from lab.web.rendering import Renderer
from lab.web.site import Site

MOST_AGAINST: Final = 8
WAITING: Final = 8  # programs that wait in threads until a release is whole; more wait for one of these
Name = Annotated[str, Path(max_length=200)]
Against = Annotated[list[Annotated[str, Query(max_length=200)]] | None, Query(max_length=MOST_AGAINST + 1)]


def judging(site: Site, renderer: Renderer) -> Judging:
    """What the pages of releases say, as they show it."""
    return Judging(site, ReleaseJudge(functools.partial(_run, renderer)))


def router(site: Site, renderer: Renderer, judging: Judging) -> APIRouter:
    """The addresses of releases."""
    routes = APIRouter()

    places: list[anyio.CapacityLimiter] = []  # made when the server runs

    async def text(form: Callable[[list[Compared]], str], release: str, against: list[str] | None) -> str:
        """A release in one form, as soon as it is whole: however many wait for that, other pages have their threads."""

        def made() -> str:
            with site.store() as store:
                return form(judging.whole(store, release, _wanted(against)))

        if not places:
            places.append(anyio.CapacityLimiter(WAITING))
        return await to_thread.run_sync(made, limiter=places[0])

    @routes.get("/releases", include_in_schema=False)
    def releases_page() -> Response:
        with site.snapshot() as snapshot:
            return renderer.page("releases.html.j2", names=release_names(snapshot))

    @routes.get("/releases/{release:path}/comment.md", include_in_schema=False)
    async def comment(request: Request, release: Name, against: Against = None) -> Response:
        wanted = _wanted(against)
        asked = urlencode([("against", each) for each in wanted if each])
        page = f"{str(request.base_url).rstrip('/')}/releases/{quote(release, safe='')}" + (
            f"?{asked}" if asked else ""
        )
        found = await text(lambda compared: releaseforms.markdown(release, compared, page), release, against)
        return Response(found, media_type="text/markdown; charset=utf-8")

    @routes.get("/releases/{release:path}/numbers.csv", include_in_schema=False)
    async def numbers(release: Name, against: Against = None) -> Response:
        name = {"Content-Disposition": 'attachment; filename="release.csv"'}
        found = await text(releaseforms.as_csv, release, against)
        return Response(found, media_type="text/csv; charset=utf-8", headers=name)

    @routes.get("/releases/{release:path}", include_in_schema=False)
    def release_page(release: Name, against: Against = None) -> Response:
        person, wanted = renderer.person, _wanted(against)
        whose = (person.name, person.role, str(person.session), person.csrf)

        def asking(store: Store) -> frozenset[int]:
            return releases.asking(store) if person.acts else frozenset()

        def made(store: Store) -> str:
            every, names = judging.so_far(store, release, wanted)
            return _page(renderer, release, every, names, asking(store))

        page = site.page(
            ("release", release, *(each or "" for each in wanted), *whose),
            made,
            lambda store: (runs_revision(store), asking(store), judging.progress),
        )
        return HTMLResponse(page)

    @routes.get("/api/v1/releases", responses=NOT_FOUND)
    def release_list() -> list[str]:
        """The releases that were measured, the newest first."""
        with site.snapshot() as snapshot:
            return release_names(snapshot)

    @routes.get("/api/v1/releases/{release:path}", responses=NOT_FOUND)
    async def release_document(release: Name, against: Against = None) -> Response:
        """What the judge says of a release, board by board, against other releases or the one before, and the failed attempts of all its runs.

        Numbers that are as they were are only counted; `/runs/{run_id}/verdicts` has all of a run.
        """
        found = await text(lambda compared: json_text(releaseforms.document(release, compared)), release, against)
        return Response(found, media_type="application/json")

    return routes


def _wanted(against: Sequence[str] | None) -> list[str | None]:
    """What to compare with, each once; None, the release before, where nothing is named."""
    return [*dict.fromkeys(each for each in against or () if each)] or [None]


def _page(
    renderer: Renderer, release: str, compared: Sequence[Compared], names: Sequence[str], asking: frozenset[int]
) -> str:
    places: dict[Place, tuple[RunHead, list[Markup]]] = {}
    for each in compared:
        for run in each.runs:
            places.setdefault(Place.of(run.head), (run.head, []))[1].append(run.shown)
    ordered = sorted(places.values(), key=lambda found: releases.order(found[0]))
    against = [each.against for each in compared if each.against]
    shown: dict[str, Any] = {"release": release, "against": against, "names": names, "asking": asking}
    return renderer.text(
        "release.html.j2",
        **shown,
        compared=compared,
        places=ordered,
        asked=urlencode([("against", each) for each in against]),
        done=sum(len(each.runs) for each in compared),
        left=sum(each.left for each in compared),
    )


def _run(
    renderer: Renderer,
    head: RunHead,
    said: Comparison | None,
    problem: str,
    against: str | None,
    missing: Sequence[str],
) -> Markup:
    shown = {"head": head, "said": said, "problem": problem, "against": against or "", "missing": missing}
    return Markup(renderer.text("release_run.html.j2", **shown))  # noqa: S704 - of a template that escapes
