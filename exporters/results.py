"""Exported results: the latest completed run of each RunKey, and counters."""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from typing import Final

from attrs import define, evolve, field, frozen

from exporters.measurements import (
    BASE_UNITS,
    FigureMaker,
    Labels,
    LatestRun,
    RunKey,
    clean,
    quantity_of,
)
from exporters.verdicts import Judge, MetricChange
from lab.failures import CATALOGUE, OTHER
from lab.judge.baseline import COMPLETED, REJECTED
from lab.judge.builds import Build, builds
from lab.judge.known_failures import KnownFailure
from lab.judge.latest import INIT, BootVariant, not_measured
from lab.metrics.rates import FailureRate
from lab.results.history import Item, item_of
from lab.results.records import APART, OK, PUBLISHED
from lab.results.revision import RunsRevision, last_attempt, read_runs_revision
from lab.results.snapshot import CHUNK, RunHead, SnapshotReader, StoreSnapshot
from lab.results.sums import SummarisedNumber

# --- Builds of a release's label, and labels of its newest build: more than one is a mistake ---


@frozen
class LabelledBuilds:
    """Builds of a release's label on one board.

    Attributes:
        builds: number of builds with this label. labels: number of labels of its latest build, on boards of
        that type.
    """

    board: str
    board_type: str
    release: str
    builds: int
    labels: int


@define
class BuildReader:
    """Reads the builds of completed runs, each only once."""

    _known: dict[int, Build] = field(factory=dict, init=False)

    def read(self, snapshot: StoreSnapshot, heads: Iterable[RunHead]) -> tuple[LabelledBuilds, ...]:
        """Builds of completed runs, oldest first; labels without a build are omitted."""
        runs = list(heads)
        self._known |= builds(snapshot, [head.id for head in runs if head.id not in self._known])
        of_label: dict[tuple[str, str, str], list[Build]] = {}
        labels: dict[tuple[str, Build], set[str]] = {}
        for head in runs:
            build = self._known.get(head.id, Build())
            if build.is_known:
                mine = of_label.setdefault((head.board, head.board_type, head.release), [])
                if build in mine:
                    mine.remove(build)
                mine.append(build)  # the latest stands last
                labels.setdefault((head.board_type, build), set()).add(head.release)
        return tuple(
            LabelledBuilds(
                clean(board), clean(board_type), clean(release), _distinct(found), len(labels[board_type, found[-1]])
            )
            for (board, board_type, release), found in of_label.items()
        )


def _distinct(found: list[Build]) -> int:
    """Number of distinct builds; an incompletely known one may equal another."""
    distinct: list[Build] = []
    for build in found:
        if not any(build.is_same(other) for other in distinct):
            distinct.append(build)
    return len(distinct)


# --- Outcomes of a board's attempts over all runs: each class of the catalogue starts at 0 ---
# `increase()` of a counter that appears at 1 is 0: without the zeros the first failure would raise no alert.


@frozen
class BoardLabels:
    """Labels of a board's attempts."""

    board: str
    board_type: str

    @classmethod
    def of(cls, head: RunHead) -> BoardLabels:
        """The board of a run."""
        return cls(clean(head.board), clean(head.board_type))


Counts = dict[BoardLabels, Counter[str]]  # by outcome


@define
class OutcomeReader:
    """Counts attempts by board and outcome; a completed run is counted once.

    It distinguishes neither releases nor media. Prometheus takes a falling counter for a restart, so no release
    is left out.
    """

    _settled: Counts = field(factory=dict, init=False)
    _runs: set[int] = field(factory=set, init=False)  # that are in _settled
    _shown: Counts = field(factory=dict, init=False)

    def read(self, snapshot: StoreSnapshot, heads: Collection[RunHead], completed: str) -> Counts:
        """Counts of these boards' runs; they never fall.

        Args:
            heads: all runs of the boards. completed: the status of a run that never changes any more.
        """
        there = {head.id for head in heads}
        if not self._runs <= there:
            self._runs, self._settled = set(), {}  # runs were deleted, or boards are left out
        fresh = [head for head in heads if head.status == completed and head.id not in self._runs]
        settled = _count(snapshot, fresh)
        unsettled = _count(snapshot, [head for head in heads if head.status != completed])
        _add(self._settled, settled)
        self._runs |= {head.id for head in fresh}
        now: Counts = {BoardLabels.of(head): Counter() for head in heads}
        for counts in (self._settled, unsettled):
            _add(now, counts)
        self._shown = {board: counts | self._shown.get(board, Counter()) for board, counts in now.items()}
        return self._shown


def rows(counts: Counts) -> Iterator[tuple[BoardLabels, str, int]]:
    """Board, outcome and count, for every possible outcome."""
    for board, found in counts.items():
        for outcome in (OK, *sorted(CATALOGUE)):
            yield board, outcome, found[outcome]


def _count(snapshot: StoreSnapshot, heads: Collection[RunHead]) -> Counts:
    runs = {head.id: BoardLabels.of(head) for head in heads}
    found: Counts = {}
    for tally in snapshot.tallies(list(runs)):
        outcome = tally.outcome if tally.outcome in CATALOGUE or tally.outcome == OK else OTHER
        found.setdefault(runs[tally.run_id], Counter())[outcome] += tally.count
    return found


def _add(counts: Counts, more: Counts) -> None:
    for board, found in more.items():
        counts.setdefault(board, Counter()).update(found)


# --- Counters and histograms over all runs of the store; they never fall while this process lives ---


# Upper bounds in seconds. Boots of the published guides take 2 to 30 s, resumes 0.05 to 2 s.
BUCKETS: Final = {  # by quantities of lab.results.sums.TIMED
    "boot_duration": (0.5, 1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10, 12.5, 15, 20, 25, 30, 45, 60, 120),
    "resume_latency": (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 1.5, 2, 5, 10),
}


@frozen
class AttemptKey:
    """Labels of a count of attempts."""

    board: str
    board_type: str
    release: str
    medium: str
    outcome: str
    fault: str


@frozen
class CycleKey:
    """Labels of a histogram of cycles.

    Attributes:
        quantity: of BUCKETS. labels: medium, mode, definition, where there are.
    """

    quantity: str
    board: str
    board_type: str
    release: str
    labels: Labels


@define
class Histogram:
    """Counts per bucket, one of them unbounded, and their sum."""

    counts: list[int]
    total_s: float = 0.0

    def add(self, other: Histogram) -> None:
        """Add another histogram."""
        self.counts = [a + b for a, b in zip(self.counts, other.counts, strict=True)]
        self.total_s += other.total_s


@define
class Tallies:
    """Counts of some runs."""

    attempts: Counter[AttemptKey] = field(factory=Counter)
    moments: Counter[tuple[str, str, str]] = field(factory=Counter)  # by board, its type, release
    cycles: dict[CycleKey, Histogram] = field(factory=dict)

    def add(self, other: Tallies) -> None:
        """Add other counts."""
        self.attempts.update(other.attempts)
        self.moments.update(other.moments)
        for key, histogram in other.cycles.items():
            self.cycles.setdefault(key, Histogram([0] * len(histogram.counts))).add(histogram)

    def of(self, exported: Container[tuple[str, str]]) -> Tallies:
        """Counts of some (board, release)."""
        attempts = Counter({key: n for key, n in self.attempts.items() if (key.board, key.release) in exported})
        moments = Counter({key: n for key, n in self.moments.items() if (key[0], key[2]) in exported})
        return Tallies(
            attempts, moments, {key: h for key, h in self.cycles.items() if (key.board, key.release) in exported}
        )

    def rise_to(self, other: Tallies) -> None:
        """Take over higher counts, since no counter may fall."""
        for key, count in other.attempts.items():
            self.attempts[key] = max(self.attempts[key], count)
        for place, count in other.moments.items():
            self.moments[place] = max(self.moments[place], count)
        for cycle, histogram in other.cycles.items():
            mine = self.cycles.get(cycle)
            if mine is None or sum(histogram.counts) >= sum(mine.counts):
                self.cycles[cycle] = histogram


def count(
    snapshot: StoreSnapshot, heads: Iterable[RunHead], classes: dict[str, set[str]], max_classes: int
) -> Tallies:
    """Count attempts, moments and cycles of these runs.

    Args:
        classes: distinguished failure classes by board; new ones are added.
        max_classes: of a board; further ones are OTHER.
    """
    runs = {head.id: head for head in heads}
    found = Tallies()
    for start in range(0, len(runs), CHUNK):
        _count_some(snapshot, runs, list(runs)[start : start + CHUNK], classes, max_classes, found)
    return found


def _count_some(
    snapshot: StoreSnapshot,
    runs: Mapping[int, RunHead],
    ids: Sequence[int],
    classes: dict[str, set[str]],
    max_classes: int,
    found: Tallies,
) -> None:
    for tally in snapshot.tallies(ids):
        head = runs[tally.run_id]
        known = classes.setdefault(head.board, set())
        outcome = clean(tally.outcome)
        if outcome in known or len(known) < max_classes:
            known.add(outcome)
        else:
            outcome = OTHER
        medium = clean(tally.params.get("medium", ""))
        found.attempts[AttemptKey(*_labels(head), medium, outcome, tally.fault or "")] += tally.count
    for run_id, moments in snapshot.moments(ids):
        if moments:
            found.moments[_labels(runs[run_id])] += moments
    for reading in snapshot.readings(ids):
        if INIT in reading.params:
            continue  # a histogram is of the board's own boots
        quantity, named = quantity_of(reading.metric)
        head, bounds = runs[reading.run_id], BUCKETS[quantity]
        params = {key: clean(reading.params[key]) for key in ("medium", "mode") if key in reading.params}
        key = CycleKey(quantity, *_labels(head), tuple(sorted({**params, **dict(named)}.items())))
        histogram = found.cycles.setdefault(key, Histogram([0] * (len(bounds) + 1)))
        factor = BASE_UNITS[reading.unit][1]
        for value in reading.values:
            seconds = value * factor
            histogram.counts[bucket(bounds, seconds)] += 1
            histogram.total_s += seconds


def bucket(bounds: Sequence[float], value: float) -> int:
    """Index of the lowest bucket that contains a value."""
    return bisect.bisect_left(bounds, value)


def _labels(head: RunHead) -> tuple[str, str, str]:
    return clean(head.board), clean(head.board_type), clean(head.release)


# --- Exported view of the store ---


@frozen
class ExportLimits:
    """Limits of the number of series (docs/farm-metrics.md).

    Omitted series are counted.
    """

    boards: int = 2000
    releases_per_board: int = 5
    figures_per_group: int = 400
    outcomes_per_board: int = 40


@frozen
class LastRun:
    """Last end and last success of a board's runs.

    They are of one kind and release; a success of None: never.
    """

    board: str
    board_type: str
    release: str
    kind: str
    completion: float
    success: float | None


@frozen
class UnmeasuredBoard:
    """A board and kind of the release before that the newest lacks."""

    board: str
    board_type: str
    kind: str
    release: str
    against: str


@frozen
class ExportView:
    """Exported content of the store.

    Attributes:
        left_out: number of omitted series by kind.
    """

    groups: tuple[LatestRun, ...]
    changes: tuple[MetricChange, ...]
    unmeasured: tuple[UnmeasuredBoard, ...]
    builds: tuple[LabelledBuilds, ...]
    last_runs: tuple[LastRun, ...]
    tallies: Tallies
    outcomes: Counts
    left_out: dict[str, int]


@define
class ResultsReader:
    """Reads a store repeatedly, but each completed run only once, and an unchanged store not at all."""

    watcher: SnapshotReader
    limits: ExportLimits = ExportLimits()
    known: Sequence[KnownFailure] = ()
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
    _last: tuple[tuple[RunsRevision, int | None], ExportView] | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self._judge = Judge(self._maker, self.limits.figures_per_group, self.known)

    def read(self) -> ExportView:
        """Current view of the store.

        Raises:
            BoardlabError: it cannot be read.
        """
        with self.watcher.snapshot() as snapshot:
            revision = snapshot.read(read_runs_revision), snapshot.read(last_attempt)
            if self._last is not None and self._last[0] == revision:
                return self._last[1]
            everything = snapshot.heads()
            every = [head for head in everything if head.kind not in APART]
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
            decisions = snapshot.decisions()
            counting = [head for head in every if head.status == COMPLETED and decisions.get(head.id) != REJECTED]
            missing = [each for each in not_measured(counting) if each[0].board in boards]
            builds = self._builds.read(snapshot, completed)
            outcomes = self._outcomes.read(snapshot, [head for head in every if head.board in boards], COMPLETED)
        self._places.update(found)  # only now, so that a broken snapshot is repeated from here
        self._groups = taken
        self._settled.add(settled)
        now = Tallies()
        now.add(self._settled)
        now.add(unsettled)
        self._shown.rise_to(now)
        groups = tuple(group for _, group in taken.values())
        left_out["figures"] = sum(group.left_out for group in groups)
        exported = {(clean(head.board), clean(head.release)) for head in heads}
        unmeasured = tuple(
            UnmeasuredBoard(*map(clean, (head.board, head.board_type, head.kind, release, head.release)))
            for head, release in missing
        )
        last_runs, tallies = _last_runs(heads), self._shown.of(exported)
        view = ExportView(groups, changes, unmeasured, builds, last_runs, tallies, outcomes, left_out)
        self._last = revision, view
        return view

    def _changes(
        self,
        snapshot: StoreSnapshot,
        everything: Sequence[RunHead],
        boards: set[str],
        places: Mapping[int, set[BootVariant]],
    ) -> tuple[MetricChange, ...]:
        """Changes of exported boards and of published guides.

        Published boards have the vendor's names.
        """
        published = [head for head in everything if head.kind == PUBLISHED]
        self._published |= self._places_of(snapshot, [head for head in published if head.id not in self._published])
        wanted = [head for head in everything if head.kind == PUBLISHED or head.board in boards]
        return self._judge.changes(snapshot, wanted, {**places, **self._published})

    def _forget(self) -> None:
        self._places, self._groups, self._settled = {}, {}, Tallies()
        self._published, self._builds = {}, BuildReader()

    def _chosen(self, heads: Sequence[RunHead]) -> tuple[list[RunHead], dict[str, int]]:
        """Runs of the most recent boards and releases."""
        boards: dict[str, dict[str, None]] = {}
        too_many: set[str] = set()
        for head in reversed(heads):
            if head.board not in boards and len(boards) >= self.limits.boards:
                too_many.add(head.board)
                continue
            boards.setdefault(head.board, {}).setdefault(head.release)
        exported = {board: set(list(found)[: self.limits.releases_per_board]) for board, found in boards.items()}
        releases = sum(len(found) - len(exported[board]) for board, found in boards.items())
        left_out = {"boards": len(too_many), "releases": releases}
        return [head for head in heads if head.release in exported.get(head.board, ())], left_out

    def _places_of(self, snapshot: StoreSnapshot, heads: Sequence[RunHead]) -> dict[int, set[BootVariant]]:
        places: dict[int, set[BootVariant]] = {head.id: set() for head in heads}
        for run_id, params in snapshot.params(list(places)):
            places[run_id].add(BootVariant.of(params))
        return places

    def _taken(
        self, snapshot: StoreSnapshot, heads: Sequence[RunHead], places: dict[int, set[BootVariant]]
    ) -> dict[RunKey, tuple[int, LatestRun]]:
        """Latest run of each group, read only if it is new."""
        latest: dict[tuple[RunKey, bool], tuple[RunHead, BootVariant]] = {}
        for head in heads:  # oldest first, so the latest one stays, for the board's own init and for others
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
        rates = _rates(snapshot, list(unread))
        limits = dict(snapshot.limits(list(unread)))
        samples = dict(snapshot.measurements(list(limits)))  # limits are of samples
        for run_id, numbers in snapshot.summaries(list(unread)):
            for key in unread[run_id]:
                head, place = wanted[key]
                made = self._group(key, head, place, numbers)
                bounds = self._maker.limits(samples.get(run_id, ()), limits.get(run_id, {}), place)
                made = evolve(made, limits=bounds[: self.limits.figures_per_group])
                its = self._maker.rates(head.kind, rates.get(run_id, ()), place)
                taken[key] = run_id, evolve(made, figures=(*its, *made.figures))
        return taken

    def _group(
        self,
        key: RunKey,
        head: RunHead,
        place: BootVariant,
        numbers: Sequence[SummarisedNumber],
    ) -> LatestRun:
        figures = self._maker.figures(numbers, place)
        most = self.limits.figures_per_group
        flags = self._maker.flagged(numbers, place)
        return LatestRun(key, figures[:most], flags, _duration_s(head), max(0, len(figures) - most))


def _rates(snapshot: StoreSnapshot, run_ids: Sequence[int]) -> dict[int, list[tuple[Mapping[str, str], FailureRate]]]:
    """How often the board failed in these runs, by parameters."""
    outcomes: dict[tuple[int, Item], list[tuple[str, str | None, int]]] = {}
    for tally in snapshot.tallies(run_ids):
        its = outcomes.setdefault((tally.run_id, item_of(tally.params)), [])
        its.append((tally.outcome, tally.fault, tally.count))
    found: dict[int, list[tuple[Mapping[str, str], FailureRate]]] = {}
    for (run_id, item), counts in outcomes.items():
        if (rate := FailureRate.of(counts)) is not None:
            found.setdefault(run_id, []).append((dict(item), rate))
    return found


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
