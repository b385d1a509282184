"""The pages: the wall, boards, runs, metrics."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from typing import Annotated, Any, Final
from urllib.parse import urlencode

from attrs import evolve, field, frozen
from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import HTMLResponse, Response
from markupsafe import Markup
from sqlalchemy import ColumnElement

from lab import boards
from lab.console.status import ports_of
from lab.errors import BoardlabError, ConfigurationError
from lab.farm.board_state import STATES, BoardNow
from lab.host.clock import utc_now
from lab.jobs.listing import find_runs, killed_runs, whole_run
from lab.judge.boot_breakdown import breakdowns_if_any
from lab.judge.builds import remarks
from lab.judge.store import moved_boards
from lab.report import view
from lab.report.page import SITE_HEAD, render
from lab.report.view import judge_against, last_of
from lab.results import averages, formatting, listing
from lab.results.artifacts import ArtifactStore
from lab.results.audit import Audit
from lab.results.formatting import headline
from lab.results.listing import ListedRun, RunFilter, overview, still_assumed
from lab.results.models import ArtifactRow
from lab.results.records import LAST_ID, STATUSES
from lab.results.revision import revision, run_revision
from lab.results.store import Store
from lab.terminal import json_text
from lab.web import charts, job_control, triage, wall
from lab.web.api import Asked, Name, Names, RunId, Sort, Types, chosen, match_names
from lab.web.middleware import WITHOUT_NUL
from lab.web.rails import power_of
from lab.web.rendering import Renderer
from lab.web.site import Site, UncachedPage
from lab.web.streams import TEMPLATES, WallParts
from lab.web.wiring import wires

PAGE: Final = 50  # runs of a list
_CHOICES: Final = 200  # entries of a list to choose from
_MOST_BOARDS: Final = 12  # of a metric's chart
# Name in an address -> the column of the runs.
_COLUMNS: Final = {"board": "board", "type": "board_type", "release": "release"}
Digest = Annotated[str, Path(pattern=r"^[0-9a-f]{64}$")]
Type = Annotated[str, Query(max_length=200, pattern=WITHOUT_NUL, alias="type")]


@frozen
class WatchedArtifacts(ArtifactStore):
    """Artifacts that note which of them could not be read.

    Another host may not have brought them yet.

    Attributes:
        missed: their SHA-256; a page that lacks them is not cached.
    """

    missed: list[str] = field(factory=list, init=False)

    def read(self, sha256: str) -> bytes:
        """The artifact's bytes; one that cannot be read is noted."""
        try:
            return super().read(sha256)
        except BoardlabError:
            self.missed.append(sha256)
            raise


def type_of(site: Site, board: str) -> str:
    """The board type of a board; empty: not known."""
    return next((board_now.board_type for board_now in site.look().lab.boards if board_now.board == board), "")


def router(site: Site, renderer: Renderer, parts: WallParts) -> APIRouter:
    """The pages' addresses."""
    routes = APIRouter(include_in_schema=False)

    @routes.get("/")
    def wall_page(request: Request) -> Response:
        part = Markup(parts.of(request, TEMPLATES[False]).text)  # noqa: S704 - of a template that escapes
        lab_boards = site.look().lab.boards
        runs = [board_now.current or board_now.last for board_now in lab_boards]
        words = {
            *(board_now.board_type for board_now in lab_boards),
            *(listed_run.run.release for listed_run in runs if listed_run is not None),
            *(board_now.job.who.partition(" ")[0] for board_now in lab_boards if board_now.job is not None),
            *STATES,
        }
        choices = [*sorted(words - {""})[:_CHOICES], *sorted(board_now.board for board_now in lab_boards)[:_CHOICES]]
        query = request.url.query
        return renderer.page("wall.html.j2", part=part, asked=dict(request.query_params), choices=choices, query=query)

    @routes.get("/wall")
    def kiosk_page(request: Request) -> Response:
        part = Markup(parts.of(request, TEMPLATES[True]).text)  # noqa: S704 - of a template that escapes
        query = "&".join(filter(None, ("kiosk", request.url.query)))
        return renderer.page("kiosk.html.j2", part=part, query=query)

    @routes.get("/boards/{board:path}")
    def board_page(board: Name) -> Response:
        look = site.look()
        lab_now = look.lab
        now = next((board_now for board_now in lab_now.boards if board_now.board == board), None)
        runs, comments, trouble, line, logs, assumed = [], [], "", None, [], []
        try:
            with site.store() as store:
                runs = find_runs(store, RunFilter(boards=(board,)), PAGE)
                comments = Audit(store).comments(board)
                line = charts.timeline(store, runs, lab_now.at)
                logs = job_control.of_board(site, store, board)
                type_name = (now.board_type if now is not None else "") or (runs[0].run.board_type if runs else "")
                if type_name in boards.names():
                    assumed = still_assumed(store, type_name, boards.assumptions(boards.load(type_name)))
        except BoardlabError as error:  # its console and its rails are there all the same
            if now is None:
                raise
            trouble = str(error)
        if now is None and not runs:
            raise ConfigurationError(f"no board {board!r}; the wall shows the boards that there are")
        (tile,) = wall.tiles(evolve(lab_now, boards=(now or BoardNow(board),)))
        ports = ports_of(look.ports, board)
        wired, unread = wires(site.home(), tile.board, now.env if now else "")
        return renderer.page(
            "board.html.j2",
            assumed=assumed,
            board=now or BoardNow(board),
            tile=tile,
            rows=_rows(runs),
            port=ports[0] if ports else None,
            others=ports[1:],
            trouble=trouble,
            comments=comments,
            line=line,
            logs=logs,
            wires=wired,
            unread=unread,
            facts=view.provenance(runs[0].run) if runs else [],
        )

    @routes.get("/runs")
    def runs_page(
        board: Asked = "",
        board_type: Type = "",
        release: Asked = "",
        status: Asked = "",
        sort: Sort = "",
        before: Annotated[int | None, Query(ge=1, le=LAST_ID)] = None,
    ) -> Response:
        run_filter = RunFilter(
            _names(board), _names(board_type), _names(release), _names(status), before=before, sort=sort
        )
        with site.store() as store:
            runs = find_runs(store, run_filter, PAGE + 1)
            choices = {name: listing.column_values(store, column)[:_CHOICES] for name, column in _COLUMNS.items()}
        asked = {"board": board, "type": board_type, "release": release, "status": status, "sort": sort}
        more = runs[PAGE - 1].run.id if len(runs) > PAGE else None
        return renderer.page(
            "runs.html.j2",
            rows=_rows(runs[:PAGE]),
            asked=asked,
            more=more,
            known=choices,
            statuses=STATUSES,
            orders=listing.ORDERS,
        )

    @routes.get("/runs/{run_id}")
    def run_page(run_id: RunId, against: Asked | None = None) -> Response:
        # A comparison with the runs before needs no look at other boards: on a busy farm something changes each second.
        results_revision = revision if against else functools.partial(run_revision, run_id=run_id)

        def state(store: Store) -> Hashable:
            return results_revision(store), run_id in killed_runs(store)

        page = site.page(
            ("run", str(run_id), against or ""), lambda store: _report(site, store, run_id, against), state
        )
        return HTMLResponse(page.replace(SITE_HEAD, renderer.text("header.html.j2", at="Runs"), 1))

    @routes.get("/search")
    def search_page(q: Asked = "") -> Response:
        return renderer.page("search.html.j2", q=q, found=match_names(site, q.strip()) if q.strip() else {})

    @routes.get("/look")
    def look_page() -> Response:
        """Each element of the site's pages, for people who change them."""
        return renderer.page("look.html.j2")

    return routes


def metric_router(site: Site, renderer: Renderer) -> APIRouter:
    """The addresses of the metrics' pages."""
    routes = APIRouter(include_in_schema=False)

    @routes.get("/metrics")
    def metrics_page() -> Response:
        with site.store() as store:
            return renderer.page("metrics.html.j2", metrics=averages.metrics(store))

    @routes.get("/metrics/{metric:path}")
    def metric_page(
        request: Request, metric: Name, board: Names = None, board_type: Types = None, release: Names = None
    ) -> Response:
        asked = {"board": chosen(board), "type": chosen(board_type), "release": chosen(release)}
        with site.store() as store:
            choices = {name: listing.column_values(store, column) for name, column in _COLUMNS.items()}
            asked = {name: _matching(words, choices[name]) for name, words in asked.items()}
            matching = len(asked["board"] or choices["board"])
            conditions = RunFilter((), asked["type"], asked["release"]).conditions()
            drawn = _drawn_boards(store, metric, asked["board"], conditions)
            points = averages.points_of(store, metric, drawn, conditions)
            verdicts = triage.read_recent(store, metric, drawn) if points else []
        if len(asked["board"]) > len(drawn):
            asked["board"] = tuple(drawn)
        if not points:
            raise ConfigurationError(f"no run that is asked for has the metric {metric!r}; /metrics lists the metrics")
        share = averages.POINTS // len(drawn)
        runs_of_boards = Counter(board for board, _ in {(point.run.board, point.run.id) for point in points})
        series = charts.histories(points, verdicts)
        by_unit: dict[str, list[charts.History]] = {}
        for history in series[: charts.MOST_SERIES]:
            by_unit.setdefault(history.points[-1].average.metric.unit, []).append(history)
        return renderer.page(
            "metric.html.j2",
            metric=points[-1].average.metric,
            charts=[(charts.chart(of_unit), of_unit) for of_unit in by_unit.values()],
            series=series,
            asked=asked,
            known={name: values[:_CHOICES] for name, values in choices.items()},
            boards=len(runs_of_boards),
            matching=matching,
            cut_at=share if max(runs_of_boards.values()) == share else 0,
            looked_at=averages.LOOKED_AT,
            moved_first=len(drawn) == _MOST_BOARDS,
            query=urlencode(asked, doseq=True),
            verdicts=triage.table_rows(verdicts),
            verdicts_left=max(0, len(verdicts) - triage.MOST),
            here=request.url.path + (f"?{request.url.query}" if request.url.query else ""),
        )

    return routes


def file_router(site: Site) -> APIRouter:
    """The addresses of files of attempts, by the digest of what is in them; a path is never asked for."""
    routes = APIRouter(include_in_schema=False)

    @routes.get("/artifacts/{sha256}")
    def artifact(sha256: Digest) -> Response:
        """A file of an attempt, with its bytes verified."""
        with site.store() as store:
            if store.read(lambda session: session.get(ArtifactRow, sha256)) is None:
                raise ConfigurationError(f"no attempt has a file {sha256}; the page of a run names its files")
            return _file(store.artifacts.read(sha256), sha256, "application/octet-stream")

    @routes.get("/runs/{run_id}/samples.csv")
    def samples(run_id: RunId) -> Response:
        """One line a sample."""
        with site.store() as store:
            return _file(formatting.export_csv([overview(store, run_id)]).encode(), f"run-{run_id}.csv", "text/csv")

    @routes.get("/runs/{run_id}/run.json")
    def whole(run_id: RunId) -> Response:
        """A run with every attempt."""
        with site.store() as store:
            text = json_text(formatting.export_document([overview(store, run_id)]))
            return _file(text.encode(), f"run-{run_id}.json", "application/json")

    return routes


def _report(site: Site, store: Store, run_id: int, against: str | None) -> str:
    """The report of a run.

    `against` is the release or run to compare it with; None: the usual one.
    """
    run = whole_run(store, run_id)
    with site.snapshot() as snapshot:
        verdicts, notes = judge_against(snapshot, run_id, against), remarks(snapshot, run_id)
    last = last_of(verdicts)
    before = None if last is None else overview(store, last)
    artifacts = WatchedArtifacts(store.artifacts.root, store.artifacts.shared, store.artifacts.pack_of)
    page = render(
        run,
        artifacts,
        verdicts,
        before,
        notes,
        home="/runs",
        power=power_of(run, artifacts),
        against=against or "",
        where=breakdowns_if_any(store, run_id),
        where_before=[] if last is None else breakdowns_if_any(store, last),
    )
    return UncachedPage(page) if artifacts.missed else page


def _drawn_boards(store: Store, metric: str, asked: Sequence[str], wanted: Sequence[ColumnElement[bool]]) -> list[str]:
    """The boards of a metric's chart: those that moved, then those measured last.

    Args:
        asked: among which; empty: all.
    """
    if 0 < len(asked) <= _MOST_BOARDS:
        return list(asked)
    moved = moved_boards(store, metric, utc_now() - triage.LATELY, wanted)
    candidates = dict.fromkeys([*moved, *averages.boards(store, metric, wanted), *asked])
    return [board for board in candidates if not asked or board in asked][:_MOST_BOARDS]


def _matching(words: Iterable[str], names: Sequence[str]) -> tuple[str, ...]:
    """The names that words stand for: the name itself, else all with the word in them."""
    with_word = {word: [name for name in names if word.casefold() in name.casefold()] for word in words}
    matching = ([word] if word in names else parts or [word] for word, parts in with_word.items())
    return tuple(dict.fromkeys(name for group in matching for name in group))


def _names(text: str) -> tuple[str, ...]:
    """The names of a filter with one field; empty: any."""
    return (text,) if text else ()


def _rows(runs: list[ListedRun]) -> list[dict[str, Any]]:
    """The runs as a list shows them."""
    return [
        {
            "run": listed_run.run,
            "good": listed_run.good,
            "tried": listed_run.tried,
            "averages": headline(listed_run.averaged),
        }
        for listed_run in runs
    ]


def _file(data: bytes, name: str, kind: str) -> Response:
    """A download: a browser shows nothing of it, whatever a board printed."""
    return Response(data, media_type=kind, headers={"Content-Disposition": f'attachment; filename="{name}"'})
