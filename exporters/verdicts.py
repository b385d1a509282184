"""Judge's changes of each board's newest runs, for Prometheus.

Each board's latest run is judged against the last accepted or undecided runs of any release. The latest run of
each kernel's newest release, by numbers (11.01 after 10.00), is judged against the previous release.
`lab.judge.baseline` judges; this module groups runs and caches the answers.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence

from attrs import define, field, frozen

from exporters.measurements import BootVariant, FigureMaker, Labels, RunKey, clean
from lab.judge import noise
from lab.judge.baseline import ACCEPTED, COMPLETED, REJECTED, RUNS_BACK, JudgedNumber, earlier, judge, window
from lab.judge.labels import is_numbered, is_real_time, release_key
from lab.judge.verdicts import Verdict
from lab.metrics.catalogue import BOOT_STAGE
from lab.results.records import PUBLISHED
from lab.results.snapshot import RunHead, StoreSnapshot


class Reference(enum.StrEnum):
    """Reference of a change."""

    RELEASE = "release"  # the release before
    BASELINE = "baseline"  # the last accepted runs


@frozen
class MetricChange:
    """Judged change of a number.

    Attributes:
        against: the older release, or empty. ratio: of the change to the old number; positive: growth; None:
        the old number is zero. regression: of an unaccepted run.
    """

    kind: Reference
    key: RunKey
    metric: str
    labels: Labels
    against: str
    ratio: float | None
    verdict: Verdict
    regression: bool


@frozen
class _Task:
    """A run to judge.

    Attributes:
        wanted: its reference runs. before: its earlier runs; both are oldest first.
    """

    kind: Reference
    head: RunHead
    before: tuple[RunHead, ...]
    wanted: tuple[RunHead, ...]
    against: str
    is_accepted: bool

    @property
    def fingerprint(self) -> tuple[object, ...]:
        """Inputs of the answer; completed runs never change."""
        return (
            self.kind,
            self.head.id,
            tuple(each.id for each in self.before),
            tuple(each.id for each in self.wanted),
            self.is_accepted,
        )


@define
class Judge:
    """Judges a store repeatedly, but unchanged runs only once.

    Attributes:
        most: numbers of a run, board, medium and init at most.
    """

    maker: FigureMaker
    most: int
    _known: dict[tuple[object, ...], tuple[MetricChange, ...]] = field(factory=dict, init=False)

    def changes(
        self, snapshot: StoreSnapshot, heads: Iterable[RunHead], places: Mapping[int, set[BootVariant]]
    ) -> tuple[MetricChange, ...]:
        """Changes of all numbers with a reference.

        Args:
            heads: of all runs that count, oldest first. places: variants of each completed run.
        """
        decisions = snapshot.decisions()
        by_place: dict[tuple[str, str, str], list[RunHead]] = {}
        for head in heads:
            if head.status == COMPLETED and decisions.get(head.id) != REJECTED:
                by_place.setdefault((head.board, head.board_type, head.kind), []).append(head)
        known: dict[tuple[object, ...], tuple[MetricChange, ...]] = {}
        found: list[MetricChange] = []
        for runs in by_place.values():
            for fingerprint, (task, wanted) in _tasks(runs, places, decisions).items():
                answer = self._known.get(fingerprint)
                known[fingerprint] = answer = self._judged(snapshot, task) if answer is None else answer
                found += [change for change in answer if (change.key.medium, change.key.init) in wanted]
        self._known = known
        return tuple(found)

    def _judged(self, snapshot: StoreSnapshot, task: _Task) -> tuple[MetricChange, ...]:
        judged = judge(snapshot, task.head, task.before, task.wanted, task.against)
        numbers = [each for each in judged.numbers if each.baseline is not None]
        changes = [self._change(task, each) for each in numbers if each.average.metric.name != BOOT_STAGE.name]
        counts: dict[RunKey, int] = {}
        limited = []
        for change in changes:
            counts[change.key] = counts.get(change.key, 0) + 1
            if counts[change.key] <= self.most:
                limited.append(change)
        return tuple(limited)

    def _change(self, task: _Task, number: JudgedNumber) -> MetricChange:
        head, average, judgement = task.head, number.average, number.judgement
        place = BootVariant.of(average.params)
        names = (head.board, head.board_type, head.release, head.kind, place.medium, place.init)
        return MetricChange(
            task.kind,
            RunKey(*map(clean, names)),
            average.metric.name,
            self.maker.labels(average.metric, average.params),
            clean(task.against) if task.kind is Reference.RELEASE else "",
            judgement.effect,
            judgement.verdict,
            judgement.verdict is Verdict.REGRESSION and not task.is_accepted,
        )


def _tasks(
    runs: Sequence[RunHead], places: Mapping[int, set[BootVariant]], decisions: Mapping[int, str]
) -> dict[tuple[object, ...], tuple[_Task, set[tuple[str, str]]]]:
    """Tasks of a board's runs of one kind, by fingerprint.

    Each has its media and inits.
    """
    tasks: dict[tuple[object, ...], tuple[_Task, set[tuple[str, str]]]] = {}
    latest: dict[BootVariant, RunHead] = {}
    by_release: dict[tuple[BootVariant, bool], dict[tuple[int, ...], list[RunHead]]] = {}

    def add(place: BootVariant, kind: Reference, head: RunHead, wanted: Sequence[RunHead], accepted: bool) -> None:
        most = noise.load().history.longest * RUNS_BACK
        before = earlier(runs, head, decisions)
        chosen = window(before, decisions) if kind is Reference.BASELINE else wanted
        against = "the last accepted runs" if kind is Reference.BASELINE else wanted[-1].release
        task = _Task(kind, head, tuple(before[-most:]), tuple(chosen[-most:]), against, accepted)
        tasks.setdefault(task.fingerprint, (task, set()))[1].add((clean(place.medium), clean(place.init)))

    for head in runs:
        for place in places.get(head.id, ()):
            latest[place] = head
            if is_numbered(head.release):
                of_kernel = by_release.setdefault((place, is_real_time(head.release)), {})
                of_kernel.setdefault(release_key(head.release), []).append(head)
    for place, head in latest.items():
        if head.kind != PUBLISHED:  # a release has one published run
            add(place, Reference.BASELINE, head, (), decisions.get(head.id) == ACCEPTED)
    for (place, _), releases in by_release.items():
        if len(releases) > 1:
            old, new = (releases[number] for number in sorted(releases)[-2:])
            add(place, Reference.RELEASE, new[-1], old, any(decisions.get(each.id) == ACCEPTED for each in new))
    return tasks
