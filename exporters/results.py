"""The results of the store as Prometheus sees them: of each board, type, medium and release the latest completed run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from attrs import define, evolve, field, frozen

from exporters.builds import BuildReader, LabelledBuilds
from exporters.figures import BootVariant, FigureMaker, LatestRun, RunKey
from exporters.labels import clean
from exporters.outcomes import Counts, OutcomeReader
from exporters.totals import Tallies, count
from exporters.verdicts import Judge, MetricChange
from lab.judge.baseline import COMPLETED
from lab.metrics import Measurement
from lab.results.records import PUBLISHED
from lab.results.snapshot import RunHead, StoreSnapshot, Watcher


@frozen
class Limits:
    """What bounds the number of series; see docs/farm-metrics.md. What is left out is counted."""

    boards: int = 2000
    releases_per_board: int = 5
    figures_per_group: int = 400
    outcomes_per_board: int = 40


@frozen
class LastRun:
    """When a board's runs of one kind and release last ended, and last ended well; None: never."""

    board: str
    board_type: str
    release: str
    kind: str
    completion: float
    success: float | None


@frozen
class View:
    """What the store said.

    Attributes:
        left_out: what -> how many of it were too many.
    """

    groups: tuple[LatestRun, ...]
    changes: tuple[MetricChange, ...]
    builds: tuple[LabelledBuilds, ...]
    last_runs: tuple[LastRun, ...]
    tallies: Tallies
    outcomes: Counts
    left_out: dict[str, int]


@define
class ResultsReader:
    """Reads a store again and again; of a completed run, which never changes, only once."""

    watcher: Watcher
    limits: Limits = Limits()
    _maker: FigureMaker = field(factory=FigureMaker, init=False)
    _judge: Judge = field(init=False)
    _builds: BuildReader = field(factory=BuildReader, init=False)
    _published: dict[int, set[BootVariant]] = field(factory=dict, init=False)  # as _places, of published guides
    _places: dict[int, set[BootVariant]] = field(factory=dict, init=False)  # of the completed runs
    _groups: dict[RunKey, tuple[int, LatestRun]] = field(factory=dict, init=False)
    _settled: Tallies = field(factory=Tallies, init=False)  # of the completed runs
    _shown: Tallies = field(factory=Tallies, init=False)
    _classes: dict[str, set[str]] = field(factory=dict, init=False)
    _outcomes: OutcomeReader = field(factory=OutcomeReader, init=False)

    def __attrs_post_init__(self) -> None:
        self._judge = Judge(self._maker, self.limits.figures_per_group)

    def read(self) -> View:
        """What the store says now.

        Raises:
            BoardlabError: it cannot be read.
        """
        with self.watcher.snapshot() as snapshot:
            everything = snapshot.heads()
            every = [head for head in everything if head.kind != PUBLISHED]
            if not self._places.keys() <= {head.id for head in every}:
                self._forget()  # runs were deleted, or this is another store
            heads, left_out = self._chosen(every)
            completed = [head for head in heads if head.status == COMPLETED]
            fresh = [head for head in completed if head.id not in self._places]
            found = self._places_of(snapshot, fresh)
            taken = self._taken(snapshot, completed, {**self._places, **found})
            settled = count(snapshot, fresh, self._classes, self.limits.outcomes_per_board)
            unfinished = [head for head in heads if head.status != COMPLETED]
            unsettled = count(snapshot, unfinished, self._classes, self.limits.outcomes_per_board)
            boards = {head.board for head in heads}
            changes = self._changes(snapshot, everything, boards, {**self._places, **found})
            builds = self._builds.read(snapshot, completed)
            outcomes = self._outcomes.read(snapshot, [head for head in every if head.board in boards], COMPLETED)
        self._places.update(found)  # only now: a snapshot that broke off is repeated from here
        self._groups = taken
        self._settled.add(settled)
        now = Tallies()
        now.add(self._settled)
        now.add(unsettled)
        self._shown.rise_to(now)
        groups = tuple(group for _, group in taken.values())
        left_out["figures"] = sum(group.left_out for group in groups)
        kept = {(clean(head.board), clean(head.release)) for head in heads}
        return View(groups, changes, builds, _last_runs(heads), self._shown.of(kept), outcomes, left_out)

    def _changes(
        self,
        snapshot: StoreSnapshot,
        everything: Sequence[RunHead],
        boards: set[str],
        places: Mapping[int, set[BootVariant]],
    ) -> tuple[MetricChange, ...]:
        """Of the boards that are shown, and of published guides, whose boards have the vendor's names."""
        published = [head for head in everything if head.kind == PUBLISHED]
        self._published |= self._places_of(snapshot, [head for head in published if head.id not in self._published])
        wanted = [head for head in everything if head.kind == PUBLISHED or head.board in boards]
        return self._judge.changes(snapshot, wanted, {**places, **self._published})

    def _forget(self) -> None:
        self._places, self._groups, self._settled = {}, {}, Tallies()
        self._published, self._builds = {}, BuildReader()

    def _chosen(self, heads: Sequence[RunHead]) -> tuple[list[RunHead], dict[str, int]]:
        """The runs of the boards and releases that were used last."""
        boards: dict[str, dict[str, None]] = {}
        too_many: set[str] = set()
        for head in reversed(heads):
            if head.board not in boards and len(boards) >= self.limits.boards:
                too_many.add(head.board)
                continue
            boards.setdefault(head.board, {}).setdefault(head.release)
        kept = {board: set(list(found)[: self.limits.releases_per_board]) for board, found in boards.items()}
        releases = sum(len(found) - len(kept[board]) for board, found in boards.items())
        left_out = {"boards": len(too_many), "releases": releases}
        return [head for head in heads if head.release in kept.get(head.board, ())], left_out

    def _places_of(self, snapshot: StoreSnapshot, heads: Sequence[RunHead]) -> dict[int, set[BootVariant]]:
        places: dict[int, set[BootVariant]] = {head.id: set() for head in heads}
        for run_id, params in snapshot.params(list(places)):
            places[run_id].add(BootVariant.of(params))
        return places

    def _taken(
        self, snapshot: StoreSnapshot, heads: Sequence[RunHead], places: dict[int, set[BootVariant]]
    ) -> dict[RunKey, tuple[int, LatestRun]]:
        """The latest run of each group, read where it is another one than before."""
        latest: dict[tuple[RunKey, bool], tuple[RunHead, BootVariant]] = {}
        for head in heads:  # the oldest first, so the latest one stays: of the board's own init, and of the others
            for place in places[head.id]:
                labels = (clean(text) for text in (head.board, head.board_type, head.release, head.kind, place.medium))
                latest[RunKey(*labels), bool(place.init)] = head, place
        wanted = {evolve(key, init=clean(place.init)): (head, place) for (key, _), (head, place) in latest.items()}
        taken: dict[RunKey, tuple[int, LatestRun]] = {}
        unread: dict[int, list[RunKey]] = {}
        for key, (head, _) in wanted.items():
            if key in self._groups and self._groups[key][0] == head.id:
                taken[key] = self._groups[key]
            else:
                unread.setdefault(head.id, []).append(key)
        for run_id, measurements in snapshot.measurements(list(unread)):
            for key in unread[run_id]:
                taken[key] = run_id, self._group(key, *wanted[key], measurements)
        return taken

    def _group(self, key: RunKey, head: RunHead, place: BootVariant, measurements: Sequence[Measurement]) -> LatestRun:
        figures = self._maker.figures(measurements, place)
        most = self.limits.figures_per_group
        flags = self._maker.flagged(measurements, place)
        return LatestRun(key, figures[:most], flags, _duration_s(head), max(0, len(figures) - most))


def _duration_s(head: RunHead) -> float:
    return (head.finished_at - head.started_at).total_seconds() if head.finished_at else 0.0


def _last_runs(heads: Iterable[RunHead]) -> tuple[LastRun, ...]:
    found: dict[tuple[str, str, str, str], LastRun] = {}
    for head in heads:
        if head.finished_at is None:
            continue
        key = (clean(head.board), clean(head.board_type), clean(head.release), clean(head.kind))
        at, before = head.finished_at.timestamp(), found.get(key)
        success = at if head.status == COMPLETED else None
        if before is not None:
            at = max(at, before.completion)
            success = max((t for t in (success, before.success) if t is not None), default=None)
        found[key] = LastRun(*key, at, success)
    return tuple(found.values())
