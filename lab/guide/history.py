"""One metric of a board in every release of the store."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from attrs import evolve

from lab.errors import ConfigurationError
from lab.guide import boards, stored_release, trend
from lab.guide.importer import GUIDE_CELLS
from lab.guide.layout import guide_name
from lab.guide.measurements import MeasuredGuide, Neighbour, Neighbours
from lab.guide.text import value_of
from lab.guide.trend import PublishedPoint, Trend, TrendPoint
from lab.judge.labels import is_real_time, release_key
from lab.metrics import summarise
from lab.results.records import PUBLISHED, ArtifactRef, Run
from lab.results.store import Store

_PRINTED = 0.006  # a mean and its print with two decimals


def trends(store: Store, metric: str, board: str, wanted: Mapping[str, str]) -> list[Trend]:
    """The series of a metric from the store.

    Args:
        board: a board, a board type, a board as guides spell it, or a product, e.g. "AM62x", for each of its boards.
        wanted: only series with these parameters.

    Raises:
        ConfigurationError: no release has the metric for the board.
    """
    accepted = stored_release.counting(store)
    named = _boards(accepted, board)
    found: list[PublishedPoint] = []
    metrics: set[str] = set()
    for name, runs in named.items():
        releases = stored_release.names_of_releases(runs)
        artifacts = store.artifacts_of([run.id for run in runs if run.kind == PUBLISHED], GUIDE_CELLS)
        of_board: list[PublishedPoint] = []
        for run in sorted(runs, key=lambda run: run.kind == PUBLISHED):  # what was measured here goes first
            release = releases[release_key(run.release)]
            if run.kind == PUBLISHED:
                of_board += _published(store, run, name, release, metric, artifacts.get(run.id, ()), metrics)
            else:
                of_board += _measured(store, run, name, release, metric, metrics)
        found += trend.first_of_each(of_board)
    found = [one for one in found if wanted.items() <= one.params.items()]
    if not found:
        raise ConfigurationError(
            f"no release has {metric!r} of board {board!r}; it has: {', '.join(sorted(metrics)) or 'no numbers'}"
        )
    return trend.series(found, metric)


def with_neighbours(store: Store, one: MeasuredGuide) -> MeasuredGuide:
    """Add the nearest releases before and after to a guide.

    The store has them, of the same boards and the same kernel.

    Raises:
        ConfigurationError: the guide does not tell its release.
    """
    name = one.guide.kernel_release
    if name is None:
        raise ConfigurationError(
            f"{one.guide.path}: neither its title nor its name tells the release; rename it, e.g. am62x-11.01.rst"
        )
    here = release_key(name)
    published = [
        run
        for run in stored_release.counting(store)
        if run.kind == PUBLISHED and is_real_time(run.release) == is_real_time(name)
    ]
    found: dict[tuple[str | None, object], Neighbours] = {}
    for board in one.guide.boards:
        of_board = [run for run in published if run.board == board]
        earlier = max((run for run in of_board if release_key(run.release) < here), key=_order, default=None)
        later = min((run for run in of_board if release_key(run.release) > here), key=_order, default=None)
        if earlier is None or later is None:
            continue
        before, after = _neighbours(store, earlier), _neighbours(store, later)
        found |= {(board, key): Neighbours(before[key], after[key]) for key in before.keys() & after.keys()}
    return evolve(one, neighbours=found)


def _order(run: Run) -> tuple[tuple[int, ...], int]:
    return release_key(run.release), run.id


def _neighbours(store: Store, run: Run) -> dict[object, Neighbour]:
    """Numbers of a published run as printed, without broken runs."""
    found: dict[object, Neighbour] = {}
    for ref in store.artifacts_of([run.id], GUIDE_CELLS).get(run.id, ()):
        for cell in json.loads(store.artifacts.read(ref.sha256)):
            printed = value_of(cell["text"]).number
            if cell["metric"] and printed is not None and not cell["is_broken"]:
                key = (cell["metric"], tuple(sorted(cell["params"].items())))
                found.setdefault(key, Neighbour(run.release, printed, frozenset(cell.get("conditions", ()))))
    return found


def _boards(accepted: Sequence[Run], board: str) -> dict[str, list[Run]]:
    """Each board that is asked for -> its runs, newest first."""
    own = [run for run in accepted if stored_release.is_of(run, board)]
    if own or not boards.is_product(board):
        return {board: stored_release.of_one_column(own, board)}
    found: dict[str, list[Run]] = {}
    for run in accepted:
        if not stored_release.is_virtual(run) and boards.product_of(run.board_type) == boards.product_of(board):
            found.setdefault(stored_release.header(accepted, run), []).append(run)
    return found


def _published(
    store: Store,
    run: Run,
    board: str,
    release: str,
    metric: str,
    cells: Sequence[ArtifactRef],
    metrics: set[str],
) -> Iterator[PublishedPoint]:
    for ref in cells:
        for cell in json.loads(store.artifacts.read(ref.sha256)):
            metrics.update([cell["metric"]] if cell["metric"] else [])
            if cell["metric"] != metric or cell["value"] is None:
                continue
            printed = value_of(cell["text"])
            is_own_range = printed.number is not None and abs(printed.number - cell["value"]) < _PRINTED
            point = TrendPoint(
                release,
                cell["value"],
                printed.low if is_own_range else None,
                printed.high if is_own_range else None,
                cell["note"] if cell["is_broken"] else "",
            )
            yield PublishedPoint(
                board,
                boards.product_of(run.board_type),
                cell["params"],
                point,
                cell.get("definition", ""),
                frozenset(cell.get("conditions", ())),
            )


def _measured(
    store: Store, run: Run, board: str, release: str, metric: str, metrics: set[str]
) -> Iterator[PublishedPoint]:
    for measurement in stored_release.measured(store, run)[0].measurements:
        name = guide_name(measurement.metric.name, measurement.params, run.board_type)
        metrics.add(name.metric)
        if name.metric == metric:
            summary = summarise(measurement.samples)
            values = [sample.value for sample in measurement.samples]
            bounds = (min(values), max(values)) if len(values) > 1 else (None, None)
            point = TrendPoint(release, summary.mean, *bounds)
            yield PublishedPoint(board, boards.product_of(run.board_type), name.params, point)
