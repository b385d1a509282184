"""Exported results: the latest completed run of each RunKey, and counters."""

from __future__ import annotations

import bisect
import datetime as dt
import heapq
import itertools
from array import array
from collections import Counter, deque
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from attrs import define, field, frozen
from sqlalchemy import ColumnElement, func, select

from exporters.measurements import (
    BASE_UNITS,
    FigureMaker,
    Labels,
    LatestRun,
    RunKey,
    clean,
    quantity_of,
)
from exporters.verdicts import Answers, Judge, MetricChange
from lab.failures import CATALOGUE, OTHER
from lab.judge import noise
from lab.judge.baseline import COMPLETED, REJECTED, RUNS_BACK
from lab.judge.builds import Build, builds
from lab.judge.known_failures import KnownFailure
from lab.judge.labels import is_numbered, is_real_time, release_key
from lab.judge.latest import INIT, BootVariant, not_measured
from lab.metrics.rates import FailureRate
from lab.results.history import Item, item_of
from lab.results.models import ReviewRow, RunRow
from lab.results.records import APART, OK, PUBLISHED, RunHead
from lab.results.revision import GOES_ON, RunsRevision, last_attempt, read_runs_revision
from lab.results.series import BoardSeries
from lab.results.snapshot import CHUNK, SnapshotReader, StoreSnapshot


@frozen
class LabelledBuilds:
    """Builds of a release's label on one board; more than one build or label is a mistake.

    Attributes:
        builds: number of builds with this label.
        labels: number of labels of its latest build, on boards of that type.
    """

    board: str
    board_type: str
    release: str
    builds: int
    labels: int


def count_label_builds(of_label: Mapping[tuple[str, str, str], Sequence[Build]]) -> tuple[LabelledBuilds, ...]:
    """Builds of labels, as clean names.

    Args:
        of_label: builds by board, board type and release; the latest stands last.
    """
    labels: dict[tuple[str, Build], set[str]] = {}
    for (_, board_type, release), builds_of_it in of_label.items():
        for build in builds_of_it:
            labels.setdefault((board_type, build), set()).add(release)
    return tuple(
        LabelledBuilds(
            clean(board),
            clean(board_type),
            clean(release),
            _distinct(label_builds),
            len(labels[board_type, label_builds[-1]]),
        )
        for (board, board_type, release), label_builds in of_label.items()
    )


def _distinct(label_builds: Sequence[Build]) -> int:
    """Number of distinct builds; an incompletely known one may equal another."""
    distinct: list[Build] = []
    for build in label_builds:
        if not any(build.is_same(other) for other in distinct):
            distinct.append(build)
    return len(distinct)


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


def rows(counts: Counts) -> Iterator[tuple[BoardLabels, str, int]]:
    """Board, outcome and count, for every possible outcome.

    `increase()` of a counter that appears at 1 is 0: without the zeros the first failure would raise no alert.
    """
    for board, outcomes in counts.items():
        for outcome in (OK, *sorted(CATALOGUE)):
            yield board, outcome, outcomes[outcome]


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
        quantity: of BUCKETS.
        labels: medium, mode, definition, where there are.
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
    """Counts of some runs; exported ones never fall while this process lives."""

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


@define
class Counted:
    """Counts of runs.

    Attributes:
        tallies: of exported releases.
        outcomes: of all releases.
    """

    tallies: Tallies = field(factory=Tallies)
    outcomes: Counts = field(factory=dict)


def count(
    snapshot: StoreSnapshot,
    heads: Sequence[RunHead],
    boards: Mapping[str, BoardNumbers],
    most: int,
    into: Mapping[str, Counted],
) -> None:
    """Count attempts, moments and cycles of these runs, at most CHUNK.

    Args:
        boards: states of the runs' boards, whose failure classes grow.
        into: counts of each board.
        most: distinguished failure classes of a board; further ones are OTHER.
    """
    runs, ids = {head.id: head for head in heads}, [head.id for head in heads]
    labels = {(head.board, head.board_type): BoardLabels.of(head) for head in heads}
    for (board, _), board_labels in labels.items():
        into[board].outcomes.setdefault(board_labels, Counter())
    exported = {run_id for run_id, head in runs.items() if head.release in boards[head.board].releases}
    for tally in snapshot.tallies(ids):
        head = runs[tally.run_id]
        counted = into[head.board]
        outcome = tally.outcome if tally.outcome in CATALOGUE or tally.outcome == OK else OTHER
        counted.outcomes[labels[head.board, head.board_type]][outcome] += tally.count
        if head.id not in exported:
            continue
        classes, outcome = boards[head.board].classes, clean(tally.outcome)
        if outcome in classes or len(classes) < most:
            classes.add(outcome)
        else:
            outcome = OTHER
        medium = clean(tally.params.get("medium", ""))
        counted.tallies.attempts[AttemptKey(*_labels(head), medium, outcome, tally.fault or "")] += tally.count
    for run_id, moments in snapshot.moments(ids):
        if moments and run_id in exported:
            into[runs[run_id].board].tallies.moments[_labels(runs[run_id])] += moments
    for reading in snapshot.readings(ids):
        if INIT in reading.params or reading.run_id not in exported:
            continue  # a histogram is of the board's own boots
        quantity, named = quantity_of(reading.metric)
        head, bounds = runs[reading.run_id], BUCKETS[quantity]
        params = {key: clean(reading.params[key]) for key in ("medium", "mode") if key in reading.params}
        key = CycleKey(quantity, *_labels(head), tuple(sorted({**params, **dict(named)}.items())))
        histogram = into[head.board].tallies.cycles.setdefault(key, Histogram([0] * (len(bounds) + 1)))
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


GroupKey: TypeAlias = tuple[str, str, str, str, str, bool]  # of a RunKey; true: with an init of its own, the latest
_RUNNING: Final = "running"
_LATE: Final = dt.timedelta(minutes=10)  # before the last end: a run may have ended there that was not seen yet
_BUILDS: Final = 10  # of a label on a board, whose builds are read; those that come later are added
_TOGETHER: Final = 5000  # runs of boards that are read at once


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
class SeriesState:
    """The completed runs of a series, as comparisons need them.

    Attributes:
        runs: ids by exported release and variant, recent: by variant; the latest last, so many as a comparison reads.
        newest: last run of the two newest numbered releases, by kernel; of runs that no person rejected.
        changes: of its latest runs.
        answers: these by the fingerprint of their comparison.
    """

    runs: dict[tuple[str, BootVariant], array[int]] = field(factory=dict)
    recent: dict[BootVariant, array[int]] = field(factory=dict)
    newest: dict[bool, dict[tuple[int, ...], RunHead]] = field(factory=dict)
    changes: tuple[MetricChange, ...] = ()
    answers: Answers = field(factory=dict)

    def add(self, head: RunHead, variants: Iterable[BootVariant], *, is_exported: bool, is_rejected: bool) -> None:
        """Add a completed run."""
        most = noise.load().history.longest * RUNS_BACK
        for variant in variants:
            ids = [self.recent.setdefault(variant, array("q"))]
            if is_exported:
                ids.append(self.runs.setdefault((head.release, variant), array("q")))
            for run_ids in ids:
                bisect.insort(run_ids, head.id)
                if len(run_ids) > most:
                    del run_ids[0]
        if is_numbered(head.release) and not is_rejected:
            of_kernel = self.newest.setdefault(is_real_time(head.release), {})
            key = release_key(head.release)
            if key not in of_kernel or of_kernel[key].id < head.id:
                of_kernel[key] = head
            if len(of_kernel) > 2:
                del of_kernel[min(of_kernel)]

    def compare(self, snapshot: StoreSnapshot, judge: Judge, heads_read: Mapping[int, RunHead]) -> None:
        """Compare the latest runs; unchanged comparisons keep their answers.

        Args:
            heads_read: heads that were read already.
        """
        variants: dict[int, set[BootVariant]] = {}
        for (_, variant), ids in self.runs.items():
            for run_id in ids:
                variants.setdefault(run_id, set()).add(variant)
        run_ids = sorted({*variants, *itertools.chain.from_iterable(self.recent.values())})
        decisions = snapshot.decisions_on(run_ids)
        heads = {run_id: heads_read[run_id] for run_id in run_ids if run_id in heads_read}
        heads |= {head.id: head for head in snapshot.heads_with([run_id for run_id in run_ids if run_id not in heads])}
        runs = [heads[run_id] for run_id in run_ids if decisions.get(run_id) != REJECTED]
        self.changes, self.answers = judge.changes(snapshot, runs, variants, decisions, self.answers)


@define
class BoardNumbers:
    """The exported numbers of a board, without its runs.

    Attributes:
        releases: exported, the one measured last is last.
        more: number of the board's other releases.
        classes: distinguished failure classes.
        settled: counts of its ended runs.
        last_runs: last end and last completion, by type, release and kind.
        groups: the latest run, and its numbers.
        builds: by board, type and release, the latest last.
    """

    name: str
    releases: dict[str, None] = field(factory=dict)
    more: int = 0
    classes: set[str] = field(factory=set)
    settled: Counted = field(factory=Counted)
    last_runs: dict[tuple[str, str, str], tuple[float, float | None]] = field(factory=dict)
    groups: dict[GroupKey, tuple[int, LatestRun]] = field(factory=dict)
    builds: dict[tuple[str, str, str], list[Build]] = field(factory=dict)
    series: dict[BoardSeries, SeriesState] = field(factory=dict)

    @property
    def exported(self) -> set[tuple[str, str]]:
        """Its clean name with each exported release's."""
        return {(clean(self.name), clean(release)) for release in self.releases}

    def use(self, release: str, most: int) -> bool:
        """Export a release that is measured now; true if another is left out."""
        self.releases.pop(release, None)
        self.releases[release] = None
        if len(self.releases) <= most:
            return False
        del self.releases[next(iter(self.releases))]
        self.more += 1
        self.settled.tallies = self.settled.tallies.of(self.exported)
        self.last_runs = {key: last for key, last in self.last_runs.items() if key[1] in self.releases}
        self.groups = {key: group for key, group in self.groups.items() if key[2] in self.releases}
        self.builds = {key: builds for key, builds in self.builds.items() if key[2] in self.releases}
        for state in self.series.values():
            state.runs = {key: ids for key, ids in state.runs.items() if key[0] in self.releases}
        return True

    def end(self, head: RunHead) -> None:
        """Add the end of a run with an exported release."""
        if head.finished_at is None:
            return
        at, key = head.finished_at.timestamp(), (head.board_type, head.release, head.kind)
        completion, success = self.last_runs.get(key, (at, None))
        if head.status == COMPLETED:
            success = max(at, success or at)
        self.last_runs[key] = max(at, completion), success

    @property
    def ends(self) -> Iterator[LastRun]:
        """The last runs of its exported releases."""
        for (board_type, release, kind), (completion, success) in self.last_runs.items():
            yield LastRun(clean(self.name), clean(board_type), clean(release), clean(kind), completion, success)


@define
class ResultsReader:
    """Reads each ended run once, and an unchanged store not at all.

    It keeps what is exported of each board, and no runs. A board whose past changed (a resumed run, a decision, an old
    release measured again) is read anew, and so are all after a removal of runs.
    """

    watcher: SnapshotReader
    limits: ExportLimits = ExportLimits()
    known_failures: Sequence[KnownFailure] = ()
    _maker: FigureMaker = field(factory=FigureMaker, init=False)
    _judge: Judge = field(init=False)
    _boards: dict[str, BoardNumbers] = field(factory=dict, init=False)
    _published: dict[BoardSeries, SeriesState] = field(factory=dict, init=False)  # of guides
    _measured: dict[str, int] = field(factory=dict, init=False)  # all boards, and the last run of each
    _builds: dict[Build, Build] = field(factory=dict, init=False)  # many boards share few
    _recent: dict[int, RunHead] = field(factory=dict, init=False)  # runs that ended shortly before the last one
    _shown: Tallies = field(factory=Tallies, init=False)
    _outcomes: Counts = field(factory=dict, init=False)
    _last: tuple[RunsRevision, int | None, ExportView] | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self._judge = Judge(self._maker, self.limits.figures_per_group, self.known_failures)

    def read(self) -> ExportView:
        """Current view of the store.

        Raises:
            BoardlabError: it cannot be read.
        """
        with self.watcher.snapshot() as snapshot:
            revision, attempt = snapshot.read(read_runs_revision), snapshot.read(last_attempt)
            if self._last is not None and self._last[:2] == (revision, attempt):
                return self._last[2]
            before, self._last = self._last, None
            if before is None:  # the first look, or the last one broke off
                self._forget()
            running = self._update(snapshot, before[0] if before else None, revision)
            unsettled = Counted()
            for start in range(0, len(running), CHUNK):
                some, into = running[start : start + CHUNK], dict.fromkeys(self._boards, unsettled)
                count(snapshot, some, self._boards, self.limits.outcomes_per_board, into)
        view = self._view(unsettled)
        self._last = revision, attempt, view
        return view

    def _forget(self) -> None:
        self._boards, self._published, self._measured, self._recent = {}, {}, {}, {}

    def _update(self, snapshot: StoreSnapshot, before: RunsRevision | None, now: RunsRevision) -> list[RunHead]:
        """Take the changes since a revision; return the runs that go on."""
        new: list[RunHead] = []
        if before is not None:
            new = snapshot.heads_of(RunRow.id > (before.newest or 0))
            if now.runs != before.runs + len(new):  # some were removed
                before, new = None, []
                self._forget()
        running, late = _runs_with(snapshot, GOES_ON), list[RunHead]()
        if now.finished_at is not None:
            late = _runs_with(snapshot, RunRow.finished_at >= now.finished_at - _LATE)
        ended, anew = self._find_changes(snapshot, before, now, (*late, *running, *new)) if before else ([], set())
        self._recent = {head.id: head for head in late}
        if before is None:
            last = select(RunRow.board, func.max(RunRow.id)).where(RunRow.kind.not_in(APART)).group_by(RunRow.board)
            self._measured = {row[0]: row[1] for row in snapshot.rows(last)}
        again, shifted = self._use(snapshot, [head for head in new if head.kind not in APART])
        anew |= again
        exported = heapq.nlargest(self.limits.boards, self._measured, key=self._measured.__getitem__)
        self._boards = {
            board: self._boards[board] for board in exported if board in self._boards and board not in anew
        }
        ended_here = [head for head in ended if head.kind not in APART and head.board in self._boards]
        self._take(
            snapshot,
            ended_here,
            {series for board in shifted & self._boards.keys() for series in self._boards[board].series},
        )
        self._load(snapshot, [board for board in exported if board not in self._boards])
        if before is None:
            self._load_guides(snapshot)
        elif changed := {head.board for head in ended if head.kind == PUBLISHED} | anew:
            self._load_guides(snapshot, RunRow.board.in_(changed))
        return [head for head in running if head.board in self._boards and head.kind not in APART]

    def _find_changes(
        self, snapshot: StoreSnapshot, before: RunsRevision, now: RunsRevision, heads: Iterable[RunHead]
    ) -> tuple[list[RunHead], set[str]]:
        """Runs that have ended since a revision, and boards whose past has changed.

        Args:
            heads: runs that ended lately, go on or are new.
        """
        newest, anew = before.newest or 0, set[str]()
        changed = {head.id: head for head in heads if self._recent.get(head.id) != head}
        changed |= {head.id: head for head in snapshot.heads_with(sorted(before.running))}
        for head in changed.values():
            if head.id <= newest and head.id not in before.running:
                anew.add(head.board)  # resumed
        if now.review != before.review:
            reviewed = select(ReviewRow.run_id).where(ReviewRow.id > (before.review or 0))
            anew |= {head.board for head in snapshot.heads_of(RunRow.id.in_(reviewed))}
        return [changed[run_id] for run_id in sorted(changed) if changed[run_id].status != _RUNNING], anew

    def _use(self, snapshot: StoreSnapshot, new: Iterable[RunHead]) -> tuple[set[str], set[str]]:
        """Export the releases of new runs.

        Returns:
            boards that measure an old one again, and boards that left one out.
        """
        anew, shifted = set[str](), set[str]()
        for head in new:
            self._measured[head.board] = head.id
            state = self._boards.get(head.board)
            if state is None:
                continue
            if head.release not in state.releases:
                same_release = (RunRow.board == head.board, RunRow.release == head.release, RunRow.kind.not_in(APART))
                if snapshot.rows(select(RunRow.id).where(*same_release, RunRow.id < head.id).limit(1)):
                    anew.add(head.board)
            if state.use(head.release, self.limits.releases_per_board):
                shifted.add(head.board)
        return anew, shifted

    def _load(self, snapshot: StoreSnapshot, boards: Sequence[str]) -> None:
        """Read boards from the beginning, some at a time."""
        for start in range(0, len(boards), CHUNK):
            conditions = (RunRow.board.in_(boards[start : start + CHUNK]), RunRow.kind.not_in(APART))
            runs = {
                row[0]: row[1]
                for row in snapshot.rows(select(RunRow.board, func.count()).where(*conditions).group_by(RunRow.board))
            }
            some, count = list[str](), 0
            for number, (board, its_count) in enumerate(runs.items(), start=1):
                some.append(board)
                count += its_count
                if count >= _TOGETHER or number == len(runs):
                    self._load_some(snapshot, some)
                    some, count = [], 0

    def _load_some(self, snapshot: StoreSnapshot, boards: Sequence[str]) -> None:
        heads = snapshot.heads_of(RunRow.board.in_(boards), RunRow.kind.not_in(APART))
        releases: dict[str, dict[str, None]] = {board: {} for board in boards}
        for head in heads:
            of_board = releases[head.board]
            of_board.pop(head.release, None)
            of_board[head.release] = None
        for board, of_board in releases.items():
            exported = list(of_board)[-self.limits.releases_per_board :]
            self._boards[board] = BoardNumbers(board, dict.fromkeys(exported), len(of_board) - len(exported))
        self._take(snapshot, [head for head in heads if head.status != _RUNNING])

    def _load_guides(self, snapshot: StoreSnapshot, *where: ColumnElement[bool]) -> None:
        """Read the published guides of all boards, or of some."""
        heads = {head.id: head for head in snapshot.heads_of(RunRow.kind == PUBLISHED, *where)}
        states: dict[BoardSeries, SeriesState] = {}
        ids = [head.id for head in heads.values() if head.status == COMPLETED]
        for run_id, params in snapshot.params(ids):
            state = states.setdefault(BoardSeries.of(heads[run_id]), SeriesState())
            state.add(heads[run_id], [BootVariant.of(params)], is_exported=True, is_rejected=False)
        for state in states.values():
            state.compare(snapshot, self._judge, heads)
        self._published |= states

    def _take(self, snapshot: StoreSnapshot, heads: Sequence[RunHead], changed: Collection[BoardSeries] = ()) -> None:
        """Add ended runs of exported boards, the oldest first.

        Args:
            changed: series to compare again in any case.
        """
        into = {board: self._boards[board].settled for board in {head.board for head in heads}}
        latest: dict[GroupKey, tuple[RunHead, BootVariant]] = {}
        of_label: dict[tuple[str, str, str], deque[int]] = {}
        changed = set(changed)
        for start in range(0, len(heads), CHUNK):
            some = heads[start : start + CHUNK]
            count(snapshot, some, self._boards, self.limits.outcomes_per_board, into)
            ids = [head.id for head in some]
            variants: dict[int, set[BootVariant]] = {}
            for run_id, params in snapshot.params(ids):
                variants.setdefault(run_id, set()).add(BootVariant.of(params))
            decisions = snapshot.decisions_on(ids)
            for head in some:
                state, series = self._boards[head.board], BoardSeries.of(head)
                is_exported = head.release in state.releases
                if is_exported:
                    state.end(head)
                if head.status != COMPLETED:
                    continue
                run_variants = variants.get(head.id, ())
                is_rejected = decisions.get(head.id) == REJECTED
                of_series = state.series.setdefault(series, SeriesState())
                of_series.add(head, run_variants, is_exported=is_exported, is_rejected=is_rejected)
                changed.add(series)
                if not is_exported:
                    continue
                label = (head.board, head.board_type, head.release)
                of_label.setdefault(label, deque(maxlen=_BUILDS)).append(head.id)
                for place in run_variants:
                    key = (*label, head.kind, place.medium, bool(place.init))
                    if key not in state.groups or state.groups[key][0] < head.id:
                        latest[key] = head, place
        self._read_groups(snapshot, latest)
        self._read_builds(snapshot, of_label)
        heads_by_id = {head.id: head for head in heads}
        for series in changed:
            self._boards[series.board].series[series].compare(snapshot, self._judge, heads_by_id)

    def _read_builds(self, snapshot: StoreSnapshot, of_label: Mapping[tuple[str, str, str], Iterable[int]]) -> None:
        """Read the builds of labels' newest runs."""
        run_builds = builds(snapshot, [run_id for ids in of_label.values() for run_id in ids])
        for label, ids in of_label.items():
            label_builds = self._boards[label[0]].builds.setdefault(label, [])
            for build in (
                self._builds.setdefault(run_builds[run_id], run_builds[run_id])
                for run_id in ids
                if run_id in run_builds
            ):
                if build.is_known:
                    if build in label_builds:
                        label_builds.remove(build)
                    label_builds.append(build)

    def _read_groups(self, snapshot: StoreSnapshot, latest: Mapping[GroupKey, tuple[RunHead, BootVariant]]) -> None:
        """Read the numbers of the latest runs."""
        unread: dict[int, list[GroupKey]] = {}
        for key, (head, _) in latest.items():
            unread.setdefault(head.id, []).append(key)
        rates, most = _rates(snapshot, list(unread)), self.limits.figures_per_group
        limits = dict(snapshot.limits(list(unread)))
        samples = dict(snapshot.measurements(list(limits)))  # limits are of samples
        for run_id, numbers in snapshot.summaries(list(unread)):
            for key in unread[run_id]:
                head, place = latest[key]
                names = (head.board, head.board_type, head.release, head.kind, place.medium, place.init)
                figures = self._maker.figures(numbers, place)
                own_rates = self._maker.rates(head.kind, rates.get(run_id, ()), place)
                bounds = self._maker.limits(samples.get(run_id, ()), limits.get(run_id, {}), place)
                group = LatestRun(
                    RunKey(*map(clean, names)),
                    (*own_rates, *figures[:most]),
                    self._maker.count_flags(numbers, place),
                    (head.finished_at - head.started_at).total_seconds() if head.finished_at else 0.0,
                    max(0, len(figures) - most),
                    bounds[:most],
                )
                self._boards[head.board].groups[key] = run_id, group

    def _view(self, unsettled: Counted) -> ExportView:
        states = [self._boards[board] for board in sorted(self._boards)]
        shown, outcomes = Tallies(), Counts()
        for counted in (*(state.settled for state in states), unsettled):
            shown.add(counted.tallies)
            for board, counts in counted.outcomes.items():
                outcomes.setdefault(board, Counter()).update(counts)
        exported = set[tuple[str, str]]().union(*(state.exported for state in states))
        shown.rise_to(self._shown.of(exported))  # no counter falls where runs were removed
        self._shown = shown
        self._outcomes = {board: counts | self._outcomes.get(board, Counter()) for board, counts in outcomes.items()}
        groups = tuple(group for state in states for _, group in state.groups.values())
        series = [series_state for state in states for series_state in state.series.values()]
        newest = [
            head
            for series_state in series
            for of_kernel in series_state.newest.values()
            for head in of_kernel.values()
        ]
        unmeasured = tuple(
            UnmeasuredBoard(*map(clean, (head.board, head.board_type, head.kind, release, head.release)))
            for head, release in not_measured(sorted(newest, key=lambda head: head.id))
        )
        left_out = {
            "boards": len(self._measured) - len(self._boards),
            "releases": sum(state.more for state in states),
            "figures": sum(group.left_out for group in groups),
        }
        changes = (change for series_state in (*series, *self._published.values()) for change in series_state.changes)
        of_label = {
            label: label_builds for state in states for label, label_builds in state.builds.items() if label_builds
        }
        last_runs = tuple(last for state in states for last in state.ends)
        return ExportView(
            groups,
            tuple(changes),
            unmeasured,
            count_label_builds(of_label),
            last_runs,
            shown,
            self._outcomes,
            left_out,
        )


def _runs_with(snapshot: StoreSnapshot, condition: ColumnElement[bool]) -> list[RunHead]:
    """The few runs with a condition that has an index.

    With the order by id alone SQLite would read all runs.
    """
    return snapshot.heads_of(RunRow.id.in_(select(RunRow.id).where(condition)))


def _rates(snapshot: StoreSnapshot, run_ids: Sequence[int]) -> dict[int, list[tuple[Mapping[str, str], FailureRate]]]:
    """How often the board failed in these runs, by parameters."""
    outcomes: dict[tuple[int, Item], list[tuple[str, str | None, int]]] = {}
    for tally in snapshot.tallies(run_ids):
        triples = outcomes.setdefault((tally.run_id, item_of(tally.params)), [])
        triples.append((tally.outcome, tally.fault, tally.count))
    rates: dict[int, list[tuple[Mapping[str, str], FailureRate]]] = {}
    for (run_id, item), counts in outcomes.items():
        if (rate := FailureRate.of(counts)) is not None:
            rates.setdefault(run_id, []).append((dict(item), rate))
    return rates
