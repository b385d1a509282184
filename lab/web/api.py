"""The JSON interface under /api/v1, with its OpenAPI document at /api/v1/openapi.json."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Query

from lab.errors import ConfigurationError
from lab.farm import status
from lab.host.clock import MonotonicRaw
from lab.judge.builds import remarks
from lab.judge.document import document
from lab.report.against import judged
from lab.results import averages, formatting, listing
from lab.results.averages import Point
from lab.results.listing import RunFilter, overview
from lab.results.records import LAST_ID
from lab.web.site import Site

MOST_RUNS: Final = 500
NOT_FOUND: Final[dict[int | str, dict[str, Any]]] = {
    404: {"description": "Nothing is called so; `detail` says what there is."},
    503: {"description": "The results cannot be read; `detail` says why, and what to do."},
}
RunId = Annotated[int, Path(ge=1, le=LAST_ID)]
Name = Annotated[str, Path(max_length=200)]
Names = Annotated[list[str] | None, Query(max_length=50)]
Types = Annotated[list[str] | None, Query(max_length=50, alias="type")]


def router(site: Site) -> APIRouter:
    """The interface's addresses."""
    routes = APIRouter(prefix="/api/v1", responses=NOT_FOUND)

    @routes.get("/lab")
    def lab() -> dict[str, Any]:
        """The lab at this moment, as `lab status --json` has it."""
        return status.document(site.seen().lab)

    @routes.get("/clock")
    def clock() -> dict[str, Any]:
        """The host's clock, on which consoles are stamped: a viewer who asks several times knows how far its own is off."""
        return {"clock": MonotonicRaw.name, "now_us": MonotonicRaw().now_ns() / 1000}

    @routes.get("/runs")
    def runs(
        board: Names = None,
        board_type: Types = None,
        release: Names = None,
        status: Names = None,
        before: Annotated[int | None, Query(ge=1, le=LAST_ID)] = None,
        limit: Annotated[int, Query(ge=1, le=MOST_RUNS)] = 50,
    ) -> dict[str, Any]:
        """Runs, the newest first; `next` is the `before` of the next page, null on the last one."""
        wanted = RunFilter(_all(board), _all(board_type), _all(release), _all(status), before=before)
        with site.store() as store:
            found = listing.listed(store, wanted, limit + 1)
        shown = [formatting.listed_document(each.run, each.outcomes, each.averaged) for each in found[:limit]]
        return {"runs": shown, "next": found[limit - 1].run.id if len(found) > limit else None}

    @routes.get("/runs/{run_id}")
    def run(run_id: RunId) -> dict[str, Any]:
        """A run with its numbers and every attempt, good and failed."""
        with site.store() as store:
            return formatting.full_document(overview(store, run_id))

    @routes.get("/runs/{run_id}/verdicts")
    def verdicts(run_id: RunId, against: Annotated[str | None, Query(max_length=200)] = None) -> dict[str, Any]:
        """What the judge says of a run's numbers, against a release, another run, or the last accepted runs."""
        with site.snapshot() as snapshot:
            found, notes = judged(snapshot, run_id, against), remarks(snapshot, run_id)
        return document(found, notes, found.numbers)

    @routes.get("/metrics")
    def metrics() -> list[dict[str, str]]:
        """Every metric that was measured."""
        with site.store() as store:
            return [
                {"metric": name, "unit": unit, "definition": about} for name, unit, about in averages.metrics(store)
            ]

    @routes.get("/metrics/{metric:path}")
    def history(
        metric: Name,
        board: Annotated[str, Query(max_length=200)] = "",
        board_type: Annotated[str, Query(max_length=200, alias="type")] = "",
        runs: Annotated[int, Query(ge=1, le=MOST_RUNS)] = 200,
    ) -> list[dict[str, Any]]:
        """The averages of a metric over the last runs, the oldest first."""
        with site.store() as store:
            points = averages.points(store, metric, board, board_type, runs)
        if not points:
            raise ConfigurationError(f"no run that is asked for has the metric {metric!r}; /api/v1/metrics lists them")
        return [_point(point) for point in points]

    return routes


def _all(names: list[str] | None) -> tuple[str, ...]:
    return tuple(names or ())


def _point(point: Point) -> dict[str, Any]:
    average = point.average
    return {
        "run": point.run_id,
        "board_type": point.board_type,
        "board": point.board,
        "release": point.release,
        "started_at": point.started_at.isoformat(),
        "params": dict(average.params),
        "version": average.metric.version,
        "unit": average.metric.unit,
        "n": average.n,
        "value": average.value,
        "uncertainty": average.uncertainty,
        "virtual": average.simulated,
    }
