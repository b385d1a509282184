"""Whether the numbers of each board's newest runs moved: what the judge says of them, for Prometheus.

Each board's latest run is judged against the last runs that nobody rejected, whatever their release is called; and the latest
run of the newest release of each kernel, by numbers (11.01 after 10.00), against the release before. The judge is `lab.judge.baseline`; what
is here groups runs and keeps its answers while nothing changes.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence

from attrs import define, field, frozen

from exporters.figures import BootVariant, FigureMaker, Labels, RunKey, clean
from lab.judge import noise
from lab.judge.baseline import ACCEPTED, COMPLETED, REJECTED, RUNS_BACK, JudgedNumber, earlier, judge, window
from lab.judge.labels import is_numbered, is_real_time, release_key
from lab.judge.verdicts import Verdict
from lab.metrics.catalogue import BOOT_STAGE
from lab.results.records import PUBLISHED
from lab.results.snapshot import RunHead, StoreSnapshot


class Against(enum.StrEnum):
    """What a change is from."""

    RELEASE = "release"  # the release before
    BASELINE = "baseline"  # the last accepted runs


@frozen
class MetricChange:
    """A number of a run that is judged.

    Attributes:
        against: the older release, or empty. ratio: of the change to the old number; positive: it grew. None: from zero.
        regression: whether it is one, and nobody accepted the run.
    """

    kind: Against
    key: RunKey
    metric: str
    labels: Labels
    against: str
    ratio: float | None
    verdict: Verdict
    regression: bool


@frozen
class _Task:
    """A run to judge: `wanted` is what it is compared with, `before` what came before it; both the oldest first."""

    kind: Against
    head: RunHead
    before: tuple[RunHead, ...]
    wanted: tuple[RunHead, ...]
    against: str
    is_accepted: bool

    @property
    def fingerprint(self) -> tuple[object, ...]:
        """What its answer depends on; completed runs never change."""
        return (
            self.kind,
            self.head.id,
            tuple(each.id for each in self.before),
            tuple(each.id for each in self.wanted),
            self.is_accepted,
        )


@define
class Judge:
    """Judges a store again and again; a run only where something is new.

    Attributes:
        most: numbers of a run, board, medium and init at most.
    """

    maker: FigureMaker
    most: int
    _known: dict[tuple[object, ...], tuple[MetricChange, ...]] = field(factory=dict, init=False)

    def changes(
        self, snapshot: StoreSnapshot, heads: Iterable[RunHead], places: Mapping[int, set[BootVariant]]
    ) -> tuple[MetricChange, ...]:
        """The changes of all numbers that have one.

        Args:
            heads: of all runs that count, the oldest first. places: of a completed run, what it has numbers of.
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
        kept = []
        for change in changes:
            counts[change.key] = counts.get(change.key, 0) + 1
            if counts[change.key] <= self.most:
                kept.append(change)
        return tuple(kept)

    def _change(self, task: _Task, number: JudgedNumber) -> MetricChange:
        head, average, said = task.head, number.average, number.judgement
        place = BootVariant.of(average.params)
        names = (head.board, head.board_type, head.release, head.kind, place.medium, place.init)
        return MetricChange(
            task.kind,
            RunKey(*map(clean, names)),
            average.metric.name,
            self.maker.labels(average.metric, average.params),
            clean(task.against) if task.kind is Against.RELEASE else "",
            said.effect,
            said.verdict,
            said.verdict is Verdict.REGRESSION and not task.is_accepted,
        )


def _tasks(
    runs: Sequence[RunHead], places: Mapping[int, set[BootVariant]], decisions: Mapping[int, str]
) -> dict[tuple[object, ...], tuple[_Task, set[tuple[str, str]]]]:
    """What is to be judged of the runs of one board and kind, by fingerprint, and of which media and inits of each run."""
    tasks: dict[tuple[object, ...], tuple[_Task, set[tuple[str, str]]]] = {}
    latest: dict[BootVariant, RunHead] = {}
    by_release: dict[tuple[BootVariant, bool], dict[tuple[int, ...], list[RunHead]]] = {}

    def add(place: BootVariant, kind: Against, head: RunHead, wanted: Sequence[RunHead], accepted: bool) -> None:
        most = noise.load().history.longest * RUNS_BACK
        before = earlier(runs, head, decisions)
        chosen = window(before, decisions) if kind is Against.BASELINE else wanted
        against = "the last accepted runs" if kind is Against.BASELINE else wanted[-1].release
        task = _Task(kind, head, tuple(before[-most:]), tuple(chosen[-most:]), against, accepted)
        tasks.setdefault(task.fingerprint, (task, set()))[1].add((clean(place.medium), clean(place.init)))

    for head in runs:
        for place in places.get(head.id, ()):
            latest[place] = head
            if is_numbered(head.release):
                of_kernel = by_release.setdefault((place, is_real_time(head.release)), {})
                of_kernel.setdefault(release_key(head.release), []).append(head)
    for place, head in latest.items():
        if head.kind != PUBLISHED:  # of which there is one a release
            add(place, Against.BASELINE, head, (), decisions.get(head.id) == ACCEPTED)
    for (place, _), releases in by_release.items():
        if len(releases) > 1:
            old, new = (releases[number] for number in sorted(releases)[-2:])
            add(place, Against.RELEASE, new[-1], old, any(decisions.get(each.id) == ACCEPTED for each in new))
    return tasks
