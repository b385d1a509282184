"""The JSON interface under /api/v1, with its OpenAPI document at /api/v1/openapi.json."""

from __future__ import annotations

import csv
import datetime as dt
import io
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal
from urllib.parse import quote

from attrs import asdict
from fastapi import APIRouter, Path, Query, Response
from pydantic import StringConstraints

from lab.errors import ConfigurationError
from lab.farm import status
from lab.host.clock import MonotonicRaw, utc_now
from lab.jobs.listing import find_runs, whole_run
from lab.judge import text
from lab.judge.baseline import document
from lab.judge.builds import remarks
from lab.judge.store import read_verdicts
from lab.report.view import judge_against
from lab.results import averages, formatting, listing
from lab.results.audit import Audit, cell
from lab.results.averages import AveragePoint
from lab.results.listing import ListedRun, RunFilter
from lab.results.records import LAST_ID
from lab.web import guides, job_control, wall
from lab.web.middleware import ANSWERS, WITHOUT_NUL
from lab.web.site import Site
from lab.web.wiring import wires

MOST_RUNS: Final = 500
_RUNS: Final = 50
_LATELY: Final = dt.timedelta(days=90)
_MOST: Final = 500
_MOST_NAMED: Final = 100  # of a kind
_DIGITS: Final = 10
RunId = Annotated[int, Path(ge=1, le=LAST_ID)]
_Text = Annotated[str, StringConstraints(pattern=WITHOUT_NUL)]
Name = Annotated[str, Path(max_length=200, pattern=WITHOUT_NUL)]
Asked = Annotated[str, Query(max_length=200, pattern=WITHOUT_NUL)]
Names = Annotated[list[_Text] | None, Query(max_length=50)]
Sort = Annotated[str, Query(pattern=rf"^(-?({'|'.join(listing.ORDERS)}))?$")]
Form = Annotated[Literal["json", "csv"], Query(alias="format")]
CSV: Final[dict[int | str, dict[str, Any]]] = {200: {"content": {"text/csv": {}}}}
Types = Annotated[list[_Text] | None, Query(max_length=50, alias="type")]


def router(site: Site) -> APIRouter:
    """The interface's addresses."""
    routes = APIRouter(prefix="/api/v1", responses=ANSWERS)

    @routes.get("/lab")
    def lab() -> dict[str, Any]:
        """The lab at this moment, as `lab status --json` has it."""
        return status.document(site.look().lab)

    @routes.get("/clock")
    def clock() -> dict[str, Any]:
        """The host's clock, which stamps the consoles.

        A viewer that asks several times knows its own clock's offset.
        """
        return {"clock": MonotonicRaw.name, "now_us": MonotonicRaw().now_ns() / 1000}

    @routes.get("/runs", responses=CSV, response_model=dict[str, Any])
    def runs(
        board: Names = None,
        board_type: Types = None,
        release: Names = None,
        status: Names = None,
        before: Annotated[int | None, Query(ge=1, le=LAST_ID)] = None,
        limit: Annotated[int, Query(ge=1, le=MOST_RUNS)] = 50,
        sort: Sort = "",
        form: Form = "json",
    ) -> Any:
        """Runs, the newest first, page by page.

        `next` is the `before` of the next page, null on the last one. `sort` orders them by another column, with `-`
        before it the other way round.
        """
        run_filter = RunFilter(
            chosen(board), chosen(board_type), chosen(release), chosen(status), before=before, sort=sort
        )
        with site.store() as store:
            listed = find_runs(store, run_filter, limit + 1)
        if form == "csv":
            return as_csv([_row(row_run) for row_run in listed[:limit]])
        shown = [
            formatting.list_document(listed_run.run, listed_run.outcomes, listed_run.averaged)
            for listed_run in listed[:limit]
        ]
        return {"runs": shown, "next": listed[limit - 1].run.id if len(listed) > limit else None}

    @routes.get("/runs/{run_id}")
    def run(run_id: RunId) -> dict[str, Any]:
        """A run with its numbers and every attempt, good and failed."""
        with site.store() as store:
            return formatting.full_document(whole_run(store, run_id))

    @routes.get("/runs/{run_id}/verdicts")
    def verdicts(run_id: RunId, against: Asked | None = None) -> dict[str, Any]:
        """The verdicts on a run's numbers.

        They are against a release, another run, or the last accepted runs.
        """
        with site.snapshot() as snapshot:
            numbers, notes = judge_against(snapshot, run_id, against), remarks(snapshot, run_id)
        return document(numbers, notes, numbers.numbers)

    @routes.get("/metrics")
    def metrics() -> list[dict[str, str]]:
        """Every metric that was measured."""
        with site.store() as store:
            return [
                {"metric": name, "unit": unit, "definition": about} for name, unit, about in averages.metrics(store)
            ]

    @routes.get("/metrics/{metric:path}", responses=CSV, response_model=list[dict[str, Any]])
    def history(
        metric: Name,
        board: Names = None,
        board_type: Types = None,
        release: Names = None,
        runs: Annotated[int, Query(ge=1, le=MOST_RUNS)] = 200,
        form: Form = "json",
    ) -> Any:
        """The averages of a metric over the last runs, the oldest first."""
        run_filter = RunFilter(chosen(board), chosen(board_type), chosen(release))
        with site.store() as store:
            points = averages.points(store, metric, run_filter.conditions(), runs)
        if not points:
            raise ConfigurationError(f"no run that is asked for has the metric {metric!r}; /api/v1/metrics lists them")
        rows = [_point(point) for point in points]
        return as_csv(rows) if form == "csv" else rows

    return routes


def board_router(site: Site) -> APIRouter:
    """The addresses for the wall, boards, guides, verdicts and names."""
    routes = APIRouter(prefix="/api/v1", responses=ANSWERS)

    @routes.get("/wall")
    def tiles() -> list[dict[str, Any]]:
        """The wall: a tile for each board, problems first."""
        look = site.look()
        return [text.plain_document(tile) for tile in wall.tiles(look.lab, look.lines, sparks=look.sparks)]

    @routes.get("/boards/{board:path}")
    def board(board: Name) -> dict[str, Any]:
        """A board: its state as in `/lab`, wiring, runs, comments, jobs.

        The runs are the last 50; the jobs are those that were queued in a browser.
        """
        lab = status.document(site.look().lab)
        now = next((board_document for board_document in lab["boards"] if board_document["board"] == board), None)
        env = next((board_now.env for board_now in site.look().lab.boards if board_now.board == board), "")
        with site.store() as store:
            runs = find_runs(store, RunFilter(boards=(board,)), _RUNS)
            comments = [text.plain_document(comment) for comment in Audit(store).comments(board)]
            logs = [asdict(log) for log in job_control.of_board(site, store, board)]
        if now is None and not runs:
            raise ConfigurationError(f"no board {board!r}; /api/v1/lab lists them")
        listed = [
            formatting.list_document(listed_run.run, listed_run.outcomes, listed_run.averaged) for listed_run in runs
        ]
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
            return [text.plain_document(guide) for guide in guides.list_guides(store)]

    @routes.get("/verdicts")
    def verdicts(metric: Asked = "", board: Asked = "") -> list[dict[str, Any]]:
        """Reported verdicts of the last 90 days, the newest first.

        Each has the decision on it; at most 500.
        """
        with site.store() as store:
            found_verdicts = read_verdicts(
                store, metric=metric or None, board=board or None, since=utc_now() - _LATELY
            )
        return [text.document(verdict) for verdict in found_verdicts[:_MOST]]

    @routes.get("/search")
    def search(q: Asked) -> dict[str, list[dict[str, str]]]:
        """Matching names by kind, each with the address of its page.

        At most a hundred of a kind.
        """
        named = match_names(site, q.strip()) if q.strip() else {}
        return {kind: [{"name": name, "page": page} for name, page in names] for kind, names in named.items()}

    return routes


def chosen(names: list[str] | None) -> tuple[str, ...]:
    """The names of a filter; an empty one, as a form sends it, filters nothing."""
    return tuple(name for name in names or () if name)


def _point(point: AveragePoint) -> dict[str, Any]:
    average = point.average
    return {
        "run": point.run.id,
        "board_type": point.run.board_type,
        "board": point.run.board,
        "release": point.run.release,
        "started_at": point.run.started_at.isoformat(),
        "status": point.run.status,
        "params": dict(average.params),
        "version": average.metric.version,
        "unit": average.metric.unit,
        "n": average.n,
        "value": average.value,
        "uncertainty": average.uncertainty,
        "virtual": average.simulated,
    }


def _row(listed: ListedRun) -> dict[str, Any]:
    """A run as a row of a table."""
    run = listed.run
    begun = run.started_at.isoformat()
    return {
        "run": run.id,
        "what": run.kind,
        "board": run.board,
        "board_type": run.board_type,
        "release": run.release,
        "started_at": begun,
        "status": run.status,
        "good": listed.good,
        "tried": listed.tried,
        "averages": formatting.headline(listed.averaged),
    }


def as_csv(rows: Sequence[Mapping[str, Any]]) -> Response:
    """Rows as CSV (RFC 4180), a column `params.NAME` for each parameter, safe for spreadsheets."""
    flat = [
        {name: value for name, value in row.items() if name != "params"}
        | {f"params.{name}": value for name, value in row.get("params", {}).items()}
        for row in rows
    ]
    text = io.StringIO()
    writer = csv.DictWriter(text, list(dict.fromkeys(name for row in flat for name in row)), restval="")
    writer.writeheader()
    writer.writerows({name: cell(value) for name, value in row.items()} for row in flat)
    return Response(text.getvalue(), media_type="text/csv; charset=utf-8")


def match_names(site: Site, query: str) -> dict[str, list[tuple[str, str]]]:
    """Title -> (name, address) of the matching names.

    A number is a run's, too.
    """
    text = query.casefold()
    with site.store() as store:
        boards = {*listing.column_values(store, "board"), *(board.board for board in site.look().lab.boards)}
        named = {
            "Boards": [(name, f"/boards/{quote(name)}") for name in sorted(boards)],
            "Board types": [
                (name, f"/runs?type={quote(name)}") for name in listing.column_values(store, "board_type")
            ],
            "Releases": [(name, f"/releases/{quote(name)}") for name in listing.column_values(store, "release")],
            "Metrics": [(name, f"/metrics/{quote(name)}") for name, _, _ in averages.metrics(store)],
        }
        matching = {
            title: [pair for pair in names if text in pair[0].casefold()][:_MOST_NAMED]
            for title, names in named.items()
        }
        if query.isdecimal() and len(query) < _DIGITS:
            runs = listing.list_runs(store, RunFilter(before=int(query) + 1), 1)
            matching["Runs"] = [
                (f"run {listed_run.run.id}", f"/runs/{listed_run.run.id}")
                for listed_run in runs
                if str(listed_run.run.id) == query
            ]
    return {title: names for title, names in matching.items() if names}
