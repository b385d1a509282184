"""The pages of releases, also as JSON, CSV, and Markdown for CI."""

from __future__ import annotations

import functools
import logging
import multiprocessing
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Annotated, Any, Final, TypeAlias
from urllib.parse import quote, urlencode

import anyio
from anyio import to_thread
from attrs import asdict, define, field, frozen
from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, Response
from markupsafe import Markup
from pydantic import StringConstraints

from lab.errors import BoardlabError, LabTransientError
from lab.judge.baseline import COMPLETED
from lab.judge.labels import is_numbered, release_key
from lab.judge.latest import WORTH_A_PROCESS, begin_judging
from lab.report.view import ComparisonView
from lab.results.records import RunHead
from lab.results.revision import RunsRevision, runs_revision
from lab.results.series import BoardSeries, ReleaseSummary, release_names, release_summaries
from lab.results.snapshot import StoreSnapshot
from lab.results.store import Store, open_store
from lab.terminal import json_text
from lab.web import releases
from lab.web.api import CSV, Form, Name, as_csv
from lab.web.middleware import ANSWERS, WITHOUT_NUL
from lab.web.releases import ComparedRelease, ReleaseJudge, ReleaseRun, WantedComparison
from lab.web.rendering import Renderer
from lab.web.site import Site

MOST_AGAINST: Final = 8
MOST_SECTIONS: Final = 40  # boards of a page with their numbers, the worst ones; the others have a line
WAITING: Final = 8  # programs that wait in threads until a release is whole; more wait for one of these
_ORDERS: Final[dict[str, Callable[[ReleaseSummary], Any]]] = {
    "last run": lambda summary: summary.last,
    "boards": lambda summary: summary.boards,
    "runs": lambda summary: summary.runs,
    "not completed": lambda summary: summary.unfinished,
}
Sort = Annotated[str, Query(pattern=rf"^({'|'.join(_ORDERS)})?$")]
_Release = Annotated[str, StringConstraints(max_length=200, pattern=WITHOUT_NUL)]
Against = Annotated[list[_Release] | None, Query(max_length=MOST_AGAINST + 1)]


def background_judge(site: Site, renderer: Renderer) -> BackgroundJudge:
    """The judgements of releases, with the parts of their pages."""
    return BackgroundJudge(site, ReleaseJudge(functools.partial(_run, renderer)))


def router(site: Site, renderer: Renderer, judge: BackgroundJudge) -> APIRouter:
    """The addresses of releases."""
    routes = APIRouter()

    places: list[anyio.CapacityLimiter] = []  # made when the server runs

    async def text(form: Callable[[list[ComparedRelease]], str], release: str, against: list[str] | None) -> str:
        """A release in one form, as soon as all is judged.

        Many requests that wait for it leave the other pages their threads.
        """

        def render_text() -> str:
            with site.store() as store:
                return form(judge.complete(store, release, _others(against)))

        if not places:
            places.append(anyio.CapacityLimiter(WAITING))
        return await to_thread.run_sync(render_text, limiter=places[0])

    @routes.get("/releases", include_in_schema=False)
    def releases_page(sort: Sort = "") -> Response:
        with site.store() as store:
            summaries, verdicts = judge.summaries(store, ahead=_AHEAD)
        shown: dict[str, Any] = {"verdicts": verdicts, "orders": _ORDERS, "sort": sort}
        return renderer.page("releases.html.j2", releases=_sort(summaries, sort), judging=judge.judging, **shown)

    @routes.get("/releases/{release:path}/comment.md", include_in_schema=False)
    async def comment(request: Request, release: Name, against: Against = None) -> Response:
        others = _others(against)
        query = urlencode([("against", other) for other in others if other])
        page = f"{str(request.base_url).rstrip('/')}/releases/{quote(release, safe='')}" + (
            f"?{query}" if query else ""
        )
        comment_text = await text(lambda compared: releases.markdown(release, compared, page), release, against)
        return Response(comment_text, media_type="text/markdown; charset=utf-8")

    @routes.get("/releases/{release:path}/numbers.csv", include_in_schema=False)
    async def numbers(release: Name, against: Against = None) -> Response:
        name = {"Content-Disposition": 'attachment; filename="release.csv"'}
        csv_text = await text(releases.as_csv, release, against)
        return Response(csv_text, media_type="text/csv; charset=utf-8", headers=name)

    @routes.get("/releases/{release:path}", include_in_schema=False)
    def release_page(release: Name, against: Against = None) -> Response:
        person, others = renderer.person, _others(against)

        def asking(store: Store) -> frozenset[int]:
            return releases.asking(store) if person.acts else frozenset()

        def render_page(store: Store) -> str:
            every, names = judge.compare(store, release, others)
            return _page(renderer, release, every, names, asking(store))

        page = site.page(
            ("release", release, *(other or "" for other in others), *person.page_key),
            render_page,
            lambda store: (runs_revision(store), asking(store), judge.progress),
        )
        return HTMLResponse(page)

    @routes.get("/api/v1/releases", responses={**ANSWERS, **CSV}, response_model=list[dict[str, Any]])
    def release_list(sort: Sort = "", form: Form = "json") -> Any:
        """The releases that were measured, by number, the newest first; known verdicts on the newest ones.

        `sort` orders them by another column, the largest first.
        """
        with site.store() as store:
            summaries, verdicts = judge.summaries(store)
        rows = [_summary(summary, verdicts.get(summary.release)) for summary in _sort(summaries, sort)]
        return as_csv(rows) if form == "csv" else rows

    @routes.get("/api/v1/releases/{release:path}", responses=ANSWERS)
    async def release_document(release: Name, against: Against = None) -> Response:
        """The verdicts on a release, board by board.

        They are against other releases or the one before, with the failed attempts of all its runs.

        Numbers that are as they were are only counted; `/runs/{run_id}/verdicts` has all of a run.
        """
        document = await text(
            lambda compared: json_text(releases.release_document(release, compared)), release, against
        )
        return Response(document, media_type="application/json")

    return routes


def _in_short(run: ReleaseRun) -> str:
    """A board's numbers in a line."""
    return run.problem or ", ".join(f"{count} {word}" for word, count in run.counts.items())


def _sort(summaries: list[ReleaseSummary], sort: str) -> list[ReleaseSummary]:
    """The releases in the order of a column, the largest first."""
    return sorted(summaries, key=_ORDERS[sort], reverse=True) if sort else summaries


def _summary(summary: ReleaseSummary, verdict: ReleaseVerdict | None) -> dict[str, Any]:
    """A release as a row of a table; its verdict is empty where it is not known yet."""
    verdict_cells = (
        {"verdict": "", "against": ""} if verdict is None else {"verdict": verdict.line, "against": verdict.name}
    )
    return {**asdict(summary), "last": summary.last.isoformat(), **verdict_cells}


def _others(against: Sequence[str] | None) -> list[str | None]:
    """The releases to compare with; None: the release before."""
    return [*dict.fromkeys(other for other in against or () if other)] or [None]


def _page(
    renderer: Renderer, release: str, compared: Sequence[ComparedRelease], names: Sequence[str], asking: frozenset[int]
) -> str:
    places: dict[BoardSeries, list[ReleaseRun]] = {}
    for comparison in compared:
        for run in comparison.runs:
            places.setdefault(BoardSeries.of(run.head), []).append(run)

    own: list[list[ReleaseRun]] = []
    groups: dict[str, list[ReleaseRun]] = {}
    for runs in places.values():
        if all(run.group for run in runs) and runs[0].head.id not in asking:
            groups.setdefault("; ".join(dict.fromkeys(run.group for run in runs)), []).append(runs[0])
        else:
            own.append(runs)
    worst_first = sorted(own, key=lambda runs: (min(run.weight for run in runs), releases.order(runs[0].head)))
    against = [comparison.against for comparison in compared if comparison.against]
    shown: dict[str, Any] = {"release": release, "against": against, "names": names, "asking": asking}
    return renderer.text(
        "release.html.j2",
        **shown,
        compared=compared,
        places=[(runs[0].head, [run.shown for run in runs]) for runs in worst_first[:MOST_SECTIONS]],
        others=[(runs[0], "; ".join(map(_in_short, runs))) for runs in worst_first[MOST_SECTIONS:]],
        incomplete={why: runs for why, runs in groups.items() if not all(run.is_over for run in runs)},
        quiet={why: runs for why, runs in groups.items() if all(run.is_over for run in runs)},
        failed={run.head.id: run.tried.line for run in compared[0].runs if run.tried.by_fault},
        asked=urlencode([("against", other) for other in against]),
        done=sum(len(comparison.runs) for comparison in compared),
        left=sum(comparison.left for comparison in compared),
    )


def _run(
    renderer: Renderer,
    head: RunHead,
    verdict: ComparisonView | None,
    problem: str,
    against: str | None,
    missing: Sequence[str],
) -> Markup:
    shown = {"head": head, "verdict": verdict, "problem": problem, "against": against or "", "missing": missing}
    return Markup(renderer.text("release_run.html.j2", **shown))  # noqa: S704 - of a template that escapes


# A thread of its own judges releases that take long, and a process their many runs, so that no page waits for them.
# Judging a run takes some 10 ms, since up to 30 runs before it are read; judgements are cached. After a start none is,
# so that a release of 1,000 boards takes seconds once. A thread alone would hold Python's lock meanwhile.
_NEWEST: Final = 8  # releases among which the one is looked for that is judged ahead
_AHEAD: Final = 2000  # runs that the list of releases has judged, so that each release has its verdict
AT_ONCE: Final = 4  # runs that a page judges itself: it still is there in 0.1 s
_PART: Final = 16  # runs that the process judges at once; the site's end waits for them
REPORT_S: Final = 30.0  # so long requests get the failure of earlier work; later they start the work again
_CACHED: Final = 16  # pages whose wanted runs are cached
_Work: TypeAlias = tuple[str, str | None]
_Cached: TypeAlias = tuple[
    RunsRevision, list[str], dict[tuple[str | None, ...], list[tuple[str | None, list[WantedComparison]]]]
]
_log = logging.getLogger(__name__)


@frozen
class ReleaseVerdict:
    """A release's verdict in short.

    Attributes:
        fingerprint: of the compared runs.
        line: the verdict.
        name: of the release that it was compared with.
        bad: it needs a person.
    """

    fingerprint: int
    line: str
    name: str
    bad: bool


@define
class BackgroundJudge:
    """The judgements of releases, as far as they are known."""

    _site: Site
    _judge: ReleaseJudge
    _thread: ThreadPoolExecutor = field(factory=lambda: ThreadPoolExecutor(1, "judging"), init=False)
    _under_way: dict[_Work, Future[None]] = field(factory=dict, init=False)
    _failed_s: dict[_Work, float] = field(factory=dict, init=False)  # when, on the monotonic clock
    _lock: threading.Lock = field(factory=threading.Lock, init=False)
    _ends: threading.Event = field(factory=threading.Event, init=False)
    _progress: int = field(default=0, init=False)
    _cached: _Cached | None = field(default=None, init=False)
    _verdicts: dict[str, ReleaseVerdict] = field(factory=dict, init=False)

    @property
    def progress(self) -> int:
        """A number that changes whenever a page may have more."""
        return self._progress

    def begin(self) -> None:
        """Judge the release of the last completed run ahead."""
        self._thread.submit(self._newest)

    def end(self) -> None:
        """Judge no further; the runs of one part are still judged."""
        self._ends.set()
        self._thread.shutdown(wait=False, cancel_futures=True)

    def compare(
        self, store: Store, release: str, against: Sequence[str | None]
    ) -> tuple[list[ComparedRelease], list[str]]:
        """The known judgements, and the names of all releases.

        The rest is judged meanwhile.

        Raises:
            ConfigurationError: no run of that release.
        """
        now = runs_revision(store)
        with store.snapshot() as snapshot:
            names, asked = self._find_runs(snapshot, release, against, now)
            return [self._compare_with(snapshot, release, other, comparisons) for other, comparisons in asked], names

    @property
    def judging(self) -> bool:
        """True while releases are judged."""
        with self._lock:
            return any(not future.done() for future in self._under_way.values())

    def summaries(self, store: Store, ahead: int = 0) -> tuple[list[ReleaseSummary], dict[str, ReleaseVerdict]]:
        """The releases, by number where they have one, and known verdicts.

        Args:
            ahead: of the others, the newest are judged meanwhile, up to about so many runs.
        """
        now, verdicts = runs_revision(store), {}
        with store.snapshot() as snapshot:
            every = release_summaries(snapshot)
            for count, summary in enumerate(every):
                if count >= _NEWEST and ahead <= 0:
                    break
                _, ((against, comparisons),) = self._find_runs(snapshot, summary.release, [None], now)
                fingerprint = hash(tuple(comparison.fingerprint for comparison in comparisons))
                verdict = self._verdicts.get(summary.release)
                if verdict is None or verdict.fingerprint != fingerprint:
                    runs = [self._judge.find_stored(comparison) for comparison in comparisons]
                    left = sum(run is None for run in runs)
                    if left and ahead > 0:
                        ahead -= left
                        self._start((summary.release, None))
                    if left:
                        continue
                    compared = ComparedRelease(against, [run for run in runs if run is not None])
                    verdict = ReleaseVerdict(fingerprint, compared.line, compared.name, compared.bad)
                    self._verdicts[summary.release] = verdict
                verdicts[summary.release] = verdict
        numbered = sorted(
            (summary for summary in every if is_numbered(summary.release)),
            key=lambda summary: (release_key(summary.release), summary.release),
            reverse=True,
        )
        return [*numbered, *(summary for summary in every if not is_numbered(summary.release))], verdicts

    def complete(self, store: Store, release: str, against: Sequence[str | None]) -> list[ComparedRelease]:
        """The complete judgements; this waits for them.

        Raises:
            ConfigurationError: no run of that release.
            LabTransientError: the site ends.
        """
        compared, names = self.compare(store, release, against)
        left = [comparison for comparison in compared if comparison.left]
        if not left:
            return compared
        for comparison in left:
            try:
                self._start((release, comparison.against)).result()
            except CancelledError:
                raise _ending() from None
        with store.snapshot() as snapshot:  # what was measured meanwhile is judged here
            return [
                ComparedRelease(
                    other,
                    [
                        self._judge.judge(snapshot, run)
                        for run in self._judge.find_comparisons(snapshot, release, other, names)
                    ],
                )
                for other in against
            ]

    def _find_runs(
        self, snapshot: StoreSnapshot, release: str, against: Sequence[str | None], now: RunsRevision
    ) -> tuple[list[str], list[tuple[str | None, list[WantedComparison]]]]:
        """The names of all releases, and a page's runs by release.

        They are as of the last look where nothing has changed since.

        Args:
            now: of before the snapshot: what is cached under it is at least as new.
        """
        key = (release, *against)
        with self._lock:
            if self._cached is not None and self._cached[0] == now and key in self._cached[2]:
                return self._cached[1], self._cached[2][key]
        names = release_names(snapshot)
        page_runs = [(other, self._judge.find_comparisons(snapshot, release, other, names)) for other in against]
        with self._lock:
            if self._cached is None or self._cached[0] != now or len(self._cached[2]) >= _CACHED:
                self._cached = (now, names, {})
            self._cached[2][key] = page_runs
        return names, page_runs

    def _compare_with(
        self, snapshot: StoreSnapshot, release: str, against: str | None, comparisons: Sequence[WantedComparison]
    ) -> ComparedRelease:
        judgements = {comparison: self._judge.find_stored(comparison) for comparison in comparisons}
        missing = sum(run is None for run in judgements.values())
        if missing <= AT_ONCE:
            return ComparedRelease(
                against, [run or self._judge.judge(snapshot, comparison) for comparison, run in judgements.items()]
            )
        work = self._start((release, against))
        if work.done():
            work.result()  # raises what went wrong, if something did
        return ComparedRelease(against, [run for run in judgements.values() if run is not None], missing)

    def _start(self, work: _Work) -> Future[None]:
        """The running work, or one that failed a moment ago.

        Only the first caller gets that failure.
        """
        with self._lock:
            if self._ends.is_set():
                raise _ending()
            future = self._under_way.pop(work, None)
            if future is None or (future.done() and time.monotonic() - self._failed_s.pop(work, 0.0) >= REPORT_S):
                future = self._thread.submit(self._run_work, work)
            if not future.done():
                self._under_way[work] = future
            return future

    def _run_work(self, work: _Work) -> None:
        try:
            self._judge_all(*work)
        except Exception as error:
            self._failed_s[work] = time.monotonic()
            if not self._ends.is_set():
                _log.warning(
                    "release %s: the judge failed: %s", work[0], error, exc_info=not isinstance(error, BoardlabError)
                )
            raise
        finally:
            self._progress += 1
        with self._lock:
            self._under_way.pop(work, None)

    def _judge_all(self, release: str, against: str | None) -> None:
        with self._site.store() as store, store.snapshot() as snapshot:
            comparisons = self._judge.find_comparisons(snapshot, release, against, release_names(snapshot))
            left = [comparison for comparison in comparisons if self._judge.find_stored(comparison) is None]
            if len(left) < WORTH_A_PROCESS:
                for comparison in left:
                    self._check()
                    self._judge.judge(snapshot, comparison)
                    self._progress += 1
                return
        # started anew: a fork would take over the database's connections
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), begin_judging) as process:
            for start in range(0, len(left), _PART):
                self._check()
                part = left[start : start + _PART]
                try:
                    runs = process.submit(_judge_part, self._site.database(), part).result()
                except BrokenProcessPool:
                    raise LabTransientError(
                        "the process that judges this release was killed, for want of memory perhaps; ask again",
                        failure="results",
                    ) from None
                for comparison, run in zip(part, runs, strict=True):
                    self._judge.keep(comparison, run)
                self._progress += 1

    def _check(self) -> None:
        """Raises: LabTransientError: the site ends."""
        if self._ends.is_set():
            raise _ending()

    def _newest(self) -> None:
        """Judge the newest release, and log failures only.

        The next request tries again.
        """
        try:
            with self._site.snapshot() as snapshot:
                names = release_names(snapshot)
                for name in names[:_NEWEST]:
                    comparisons = self._judge.find_comparisons(snapshot, name, None, names)
                    if any(
                        comparison.head.status == COMPLETED and comparison.not_in is None for comparison in comparisons
                    ):
                        break
                else:
                    return
            self._judge_all(name, None)
        except BoardlabError as error:
            _log.info("no release is judged ahead: %s", error)
        except Exception:  # noqa: BLE001 - it is logged, and no page waits for it
            _log.exception("no release is judged ahead")


def _judge_part(url: str | None, comparisons: Sequence[WantedComparison]) -> list[ReleaseRun]:
    """The judgements of some runs, in the process that judges."""
    judge = ReleaseJudge(functools.partial(_run, Renderer()))
    with open_store(url, create=False) as store, store.snapshot() as snapshot:
        return [judge.judge(snapshot, comparison) for comparison in comparisons]


def _ending() -> LabTransientError:
    return LabTransientError("the site ends; ask again when it is back", failure="results")
