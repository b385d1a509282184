"""Numbers of other releases in the store, for checks, comparisons and trends."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from attrs import evolve

from lab.errors import ConfigurationError
from lab.guide import boards
from lab.guide.compare.comparison import Earlier, Key
from lab.guide.compare.trend import PublishedPoint, Trend, TrendPoint, build_series, first_of_each
from lab.guide.layout import guide_name
from lab.guide.measurements import MeasuredGuide, Neighbour, Neighbours
from lab.guide.model import value_of
from lab.guide.stored_runs import (
    GUIDE_CELLS,
    accepted_runs,
    column_name,
    incomplete,
    is_of,
    is_virtual,
    published_cells,
    release_names,
    sound_numbers,
    without_sisters,
)
from lab.judge import noise
from lab.judge.labels import is_real_time, release_key, releases_before
from lab.judge.number import Number, PublishedNumbers
from lab.metrics import summarise
from lab.results.records import PUBLISHED, ArtifactRef, Run, RunHead
from lab.results.snapshot import StoreSnapshot, watch
from lab.results.store import Store
from lab.results.sums import Average

_PRINTED = 0.006  # a mean and its print with two decimals


def earlier_in_store(url: str | None, boards: Iterable[str], before: str) -> Earlier:
    """Load published numbers of the releases before one, same kernel only.

    Each board has as many releases as a run is judged against (lab/judge/noise.toml). The last import of a release's
    guide counts.

    Args:
        before: a release.
    """
    with watch(url).snapshot() as snapshot:
        return earlier_in_snapshot(snapshot, boards, before)


def earlier_in_snapshot(snapshot: StoreSnapshot, boards: Iterable[str], before: str) -> Earlier:
    """The same of a store at one instant."""
    names = set(boards)
    heads_by_board: dict[str, list[RunHead]] = {}
    for head in snapshot.heads():
        if head.kind == PUBLISHED and head.board in names:
            heads_by_board.setdefault(head.board, []).append(head)
    window = noise.load().history.window
    last_ones = [head for heads in heads_by_board.values() for head in releases_before(heads, before)[-window:]]
    heads = {head.id: head for head in sorted(last_ones, key=lambda head: release_key(head.release))}
    published = PublishedNumbers.of_runs(snapshot, heads.values())
    averages: dict[int, list[Average]] = {id_: [] for id_ in heads}
    for average in snapshot.averages(sorted(heads)):
        averages[average.run_id].append(average)
    numbers: dict[Key, list[Number]] = {}
    for id_, head in heads.items():
        for average in averages[id_]:
            key = (head.board, average.metric.name, tuple(sorted(average.params.items())))
            numbers.setdefault(key, []).append(published.number(average))
    return Earlier(numbers, tuple(dict.fromkeys(head.release for head in heads.values())))


def add_neighbours(store: Store, sheet: MeasuredGuide) -> MeasuredGuide:
    """Add the nearest releases before and after to a guide.

    The store has them, of the same boards and the same kernel.

    Raises:
        ConfigurationError: the guide does not tell its release.
    """
    name = sheet.guide.kernel_release
    if name is None:
        raise ConfigurationError(
            f"{sheet.guide.path}: neither its title nor its name tells the release; rename it, e.g. am62x-11.01.rst"
        )
    published = [
        run
        for run in accepted_runs(store)
        if run.kind == PUBLISHED and is_real_time(run.release) == is_real_time(name)
    ]
    here = release_key(name)
    neighbours: dict[tuple[str | None, object], Neighbours] = {}
    for board in sheet.guide.boards:
        runs = sorted((release_key(run.release), run.id, run) for run in published if run.board == board)
        earlier = [run for key, _, run in runs if key < here]
        later = [run for key, _, run in runs if key > here]
        if earlier and later:
            before, after = _printed_numbers(store, earlier[-1]), _printed_numbers(store, later[0])
            neighbours |= {(board, key): Neighbours(before[key], after[key]) for key in before.keys() & after.keys()}
    return evolve(sheet, neighbours=neighbours)


def _printed_numbers(store: Store, run: Run) -> dict[object, Neighbour]:
    """Numbers of a published run as printed, without broken runs."""
    numbers: dict[object, Neighbour] = {}
    for cell in published_cells(store, store.artifacts_of([run.id], GUIDE_CELLS).get(run.id, ())):
        printed = value_of(cell.text).number
        if cell.metric and printed is not None and not cell.is_broken:
            key = (cell.metric, tuple(sorted(cell.params.items())))
            numbers.setdefault(key, Neighbour(run.release, printed, frozenset(cell.conditions)))
    return numbers


def trends_in_store(store: Store, metric: str, board: str, wanted: Mapping[str, str]) -> list[Trend]:
    """The series of a metric from the store.

    Args:
        board: a board, a board type, a board as guides spell it, or a product, e.g. "AM62x", for each of its boards.
        wanted: only series with these parameters.

    Raises:
        ConfigurationError: no release has the metric for the board.
    """
    runs_by_board = _runs_by_board(accepted_runs(store), board)
    ids = [run.id for runs in runs_by_board.values() for run in runs if run.kind == PUBLISHED]
    cells = store.artifacts_of(ids, GUIDE_CELLS)
    points: list[PublishedPoint] = []
    for name, runs in runs_by_board.items():
        releases = release_names(runs)
        board_points: list[PublishedPoint] = []
        for run in sorted(runs, key=lambda run: run.kind == PUBLISHED):  # what was measured here goes first
            release = releases[release_key(run.release)]
            if run.kind == PUBLISHED:
                board_points += _published_points(store, run, name, release, metric, cells.get(run.id, ()))
            else:
                board_points += _measured_points(store, run, name, release, metric)
        points += first_of_each(board_points)
    points = [point for point in points if wanted.items() <= point.params.items()]
    if not points:
        metrics = {cell.metric for refs in cells.values() for cell in published_cells(store, refs)} - {""}
        metrics |= {
            guide_name(m.metric.name, m.params, run.board_type).metric
            for runs in runs_by_board.values()
            for run in runs
            if run.kind != PUBLISHED
            for m in sound_numbers(store, run)[0].measurements
        }
        raise ConfigurationError(
            f"no release has {metric!r} of board {board!r}; it has: {', '.join(sorted(metrics)) or 'no numbers'}"
        )
    return build_series(points, metric)


def _runs_by_board(accepted: Sequence[Run], board: str) -> dict[str, list[Run]]:
    """Each board that is asked for -> its runs, newest first."""
    own = [run for run in accepted if is_of(run, board)]
    if own or not boards.is_product(board):
        return {board: without_sisters(own, board)}
    runs: dict[str, list[Run]] = {}
    guides = [run for run in accepted if run.kind == PUBLISHED]
    for run in accepted:
        if not is_virtual(run) and boards.product_of(run.board_type) == boards.product_of(board):
            runs.setdefault(column_name(guides, run), []).append(run)
    return runs


def _published_points(
    store: Store, run: Run, board: str, release: str, metric: str, cells: Sequence[ArtifactRef]
) -> Iterator[PublishedPoint]:
    product = boards.product_of(run.board_type)
    for cell in published_cells(store, cells, metric):
        if cell.value is None:
            continue
        printed = value_of(cell.text)
        is_own_range = printed.number is not None and abs(printed.number - cell.value) < _PRINTED
        low, high = (printed.low, printed.high) if is_own_range else (None, None)
        point = TrendPoint(release, cell.value, low, high, cell.note if cell.is_broken else "")
        yield PublishedPoint(board, product, cell.params, point, cell.definition, frozenset(cell.conditions))


def _measured_points(store: Store, run: Run, board: str, release: str, metric: str) -> Iterator[PublishedPoint]:
    for measurement in sound_numbers(store, run)[0].measurements:
        name = guide_name(measurement.metric.name, measurement.params, run.board_type)
        if name.metric == metric:
            summary = summarise(measurement.samples)
            values = [sample.value for sample in measurement.samples]
            low, high = (min(values), max(values)) if len(values) > 1 else (None, None)
            point = TrendPoint(release, summary.mean, low, high, incomplete(run))
            yield PublishedPoint(board, boards.product_of(run.board_type), name.params, point)
