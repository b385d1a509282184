"""Judge's changes of each board's newest runs, for Prometheus.

`lab.judge.latest` chooses the runs, `lab.judge.baseline` judges; this module caches the answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from attrs import define, field, frozen

from exporters.measurements import FigureMaker, Labels, RunKey, clean
from lab.judge.baseline import COMPLETED, REJECTED, JudgedNumber
from lab.judge.compare import Verdict
from lab.judge.known_failures import KnownFailure, recognised
from lab.judge.latest import BootVariant, LatestComparison, Reference, comparisons
from lab.metrics.catalogue import BOOT_STAGE
from lab.results.snapshot import RunHead, StoreSnapshot
from lab.results.sums import Average


@frozen
class MetricChange:
    """Judged change of a number.

    Attributes:
        against: the older release, or empty. ratio: of the change to the old number; positive: growth; None:
        the old number is zero. regression: of an unaccepted run. known: state of a known failure; empty: it is none.
    """

    kind: Reference
    key: RunKey
    metric: str
    labels: Labels
    against: str
    ratio: float | None
    verdict: Verdict
    regression: bool
    known: str = ""


@define
class Judge:
    """Judges a store repeatedly, but unchanged runs only once.

    Attributes:
        most: numbers of a run, board, medium and init at most. known: the lab's known failures.
    """

    maker: FigureMaker
    most: int
    known: Sequence[KnownFailure] = ()
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
            averages: dict[int, list[Average]] = {}  # of the board's runs, which its comparisons share
            for task in comparisons(runs, places, decisions):
                wanted = {(clean(variant.medium), clean(variant.init)) for variant in task.variants}
                answer = self._known.get(task.fingerprint)
                known[task.fingerprint] = answer = self._judged(snapshot, task, averages) if answer is None else answer
                found += [change for change in answer if (change.key.medium, change.key.init) in wanted]
        self._known = known
        return tuple(found)

    def _judged(
        self, snapshot: StoreSnapshot, task: LatestComparison, averages: dict[int, list[Average]]
    ) -> tuple[MetricChange, ...]:
        numbers = [each for each in task.judged(snapshot, averages).numbers if each.baseline is not None]
        changes = [self._change(task, each) for each in numbers if each.average.metric.name != BOOT_STAGE.name]
        counts: dict[RunKey, int] = {}
        limited = []
        for change in changes:
            counts[change.key] = counts.get(change.key, 0) + 1
            if counts[change.key] <= self.most:
                limited.append(change)
        return tuple(limited)

    def _change(self, task: LatestComparison, number: JudgedNumber) -> MetricChange:
        head, average, judgement = task.head, number.average, number.judgement
        place = BootVariant.of(average.params)
        names = (head.board, head.board_type, head.release, head.kind, place.medium, place.init)
        regression = judgement.verdict is Verdict.REGRESSION and not task.is_accepted
        higher = (judgement.effect or 0.0) > 0
        known = recognised(
            (
                k
                for k in self.known
                if k.is_number(head.board_type, average.metric.name, higher=higher, worse=regression)
            ),
            head.release,
        )
        return MetricChange(
            task.kind,
            RunKey(*map(clean, names)),
            average.metric.name,
            self.maker.labels(average.metric, average.params),
            clean(task.against) if task.kind is Reference.RELEASE else "",
            judgement.effect,
            judgement.verdict,
            regression,
            known.state.value if known and regression else "",
        )
