"""Performance guides: imported, measured, checked, and two compared."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Annotated, Final, Literal

from attrs import evolve, frozen
from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import HTMLResponse, PlainTextResponse, Response
from sqlalchemy import func, select

from lab.guide.check.findings import RuleFinding, run_rules
from lab.guide.compare import stored_history
from lab.guide.compare.comparison import compare
from lab.guide.measurements import MeasuredGuide
from lab.guide.rulebook import Severity
from lab.guide.write import comparison_page, footnotes, page, rst_writer, stored_release
from lab.guide.write.entries import GuideRelease, summary_table
from lab.judge.labels import release_key
from lab.judge.latest import LabComparison
from lab.judge.text import RUN
from lab.results.models import RunRow
from lab.results.records import PUBLISHED
from lab.results.revision import revision
from lab.results.store import Store
from lab.web.middleware import WITHOUT_NUL
from lab.web.rendering import Renderer
from lab.web.site import Site

MOST_FINDINGS: Final = 300  # of a page; `lab guide check` has all
Name = Annotated[str, Path(max_length=200, pattern=WITHOUT_NUL)]
Asked = Annotated[str, Query(max_length=200, pattern=WITHOUT_NUL)]
_ORDER: Final = list(Severity)
_RUN_PAGE: Final = f"/runs/{RUN}"


@frozen
class ListedGuide:
    """A release that has a guide.

    Attributes:
        files: that were imported.
        published, measured: boards with numbers of such a file, and with numbers from here.
    """

    release: str
    files: tuple[str, ...]
    published: int
    measured: int


def router(site: Site, renderer: Renderer) -> APIRouter:
    """The pages' addresses."""
    routes = APIRouter(include_in_schema=False)

    @routes.get("/guides")
    def guides(old: Asked = "", new: Asked = "") -> Response:
        if old and new:
            html = site.page(("guides", old, new), lambda store: _compare(site, store, old, new))
            return HTMLResponse(html)
        with site.store() as store:
            return renderer.page("guides.html.j2", guides=list_guides(store), old=old, new=new)

    @routes.get("/guides/{release:path}")
    def guide(request: Request, release: Name, form: Literal["", "html", "rst"] = "") -> Response:
        if form == "rst":
            with site.store() as store:
                numbers = footnotes.annotate(_collect(store, release, _comparison(site)))
                numbers = evolve(numbers, run_page=f"{request.base_url}{_RUN_PAGE[1:]}")
                return PlainTextResponse(rst_writer.write(numbers))
        comparison = _comparison(site)

        def state(store: Store) -> Hashable:
            return revision(store), comparison.left

        def render_whole(store: Store) -> str:
            numbers = footnotes.annotate(_collect(store, release, comparison))
            return page.render(evolve(numbers, run_page=_RUN_PAGE), {})

        if form == "html":
            whole = site.page(("guide", release), render_whole, state)
            answer = HTMLResponse(whole)
            answer.headers["Content-Security-Policy"] = (
                page.POLICY
            )  # the page has one script of its own, by its digest
            return answer
        key = ("guide page", release, *renderer.person.page_key)
        return HTMLResponse(site.page(key, lambda store: _page(renderer, store, release, comparison), state))

    return routes


def _page(renderer: Renderer, store: Store, release: str, comparison: LabComparison) -> str:
    """A release's page: the guide's summary, what is worse, and what the rules find."""
    collected = _collect(store, release, comparison)
    numbers, sheet = footnotes.annotate(collected), stored_release.load_sheet(store, release, collected)
    release_findings = findings(sheet)
    return renderer.text(
        "guide.of.html.j2",
        release=release,
        summary=summary_table(numbers),
        origins=numbers.origins,
        regressions=numbers.open_regressions,
        findings=release_findings[:MOST_FINDINGS],
        unread=len(sheet.guide.unread),
        more=max(0, len(release_findings) - MOST_FINDINGS),
        names=[listed_guide.release for listed_guide in list_guides(store)],
    )


def _comparison(site: Site) -> LabComparison:
    """The worse numbers of all boards, as far as the last look has judged them."""
    boards = site.look().lab.boards
    return LabComparison(
        {board.board: board.worse for board in boards},
        frozenset(board.board for board in boards if not board.is_judged),
    )


def _collect(store: Store, release: str, comparison: LabComparison) -> GuideRelease:
    """A release's numbers with their open regressions."""
    return stored_release.collect(store, release, (), comparison=comparison)


def list_guides(store: Store) -> list[ListedGuide]:
    """The releases with numbers, the newest first."""
    counted = select(RunRow.release, RunRow.kind == PUBLISHED, func.count(func.distinct(RunRow.board)))
    imported = select(RunRow.release, RunRow.provenance).where(RunRow.kind == PUBLISHED).order_by(RunRow.id)
    files: dict[str, dict[str, None]] = {}
    boards: dict[str, dict[bool, int]] = {}
    with store.snapshot() as snapshot:
        for release, published, count in snapshot.rows(counted.group_by(RunRow.release, RunRow.kind == PUBLISHED)):
            boards.setdefault(release, {})[bool(published)] = count
        for release, provenance in snapshot.rows(imported):
            files.setdefault(release, {})[str(provenance.get("file", "a guide"))] = None
    return [
        ListedGuide(name, tuple(files.get(name, ())), boards[name].get(True, 0), boards[name].get(False, 0))
        for name in sorted(boards, key=release_key, reverse=True)
    ]


def findings(sheet: MeasuredGuide) -> list[RuleFinding]:
    """The findings in a guide, the surest first."""
    unsorted = run_rules(sheet, None)
    return sorted(unsorted, key=lambda finding: (_ORDER.index(finding.severity), finding.line))


def _compare(site: Site, store: Store, old: str, new: str) -> str:
    """Two releases' guides, as `lab guide compare --html` has them."""
    sheets = stored_release.load_sheet(store, old), stored_release.load_sheet(store, new)
    boards = sorted({board for sheet in sheets for board in sheet.guide.boards})
    with site.snapshot() as snapshot:
        earlier = stored_history.earlier_in_snapshot(snapshot, boards, sheets[0].guide.kernel_release or old)
    return comparison_page.html(compare(*sheets, None, earlier))
