"""Judge's changes of each board's newest runs, for Prometheus.

`lab.judge.latest` chooses the runs, `lab.judge.baseline` judges; this module caches the answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from attrs import frozen

from exporters.measurements import FigureMaker, Labels, RunKey, clean
from lab.judge.baseline import JudgedNumber
from lab.judge.compare import Verdict
from lab.judge.known_failures import KnownFailure, recognise
from lab.judge.latest import BootVariant, LatestComparison, Reference, comparisons
from lab.metrics.catalogue import BOOT_STAGE
from lab.results.records import RunHead
from lab.results.snapshot import StoreSnapshot
from lab.results.sums import Average


@frozen
class MetricChange:
    """Judged change of a number.

    Attributes:
        against: the older release, or empty.
        ratio: of the change to the old number; positive: growth; None: the old number is zero.
        regression: of an unaccepted run.
        known: state of a known failure; empty: it is none.
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


Answers: TypeAlias = dict[tuple[object, ...], tuple[MetricChange, ...]]  # by the fingerprint of a comparison


@frozen
class Judge:
    """Judges series repeatedly, but unchanged runs only once.

    Attributes:
        most: numbers of a run, board, medium and init at most.
        known_failures: the lab's known failures.
    """

    maker: FigureMaker
    most: int
    known_failures: Sequence[KnownFailure] = ()

    def changes(
        self,
        snapshot: StoreSnapshot,
        runs: Sequence[RunHead],
        variants: Mapping[int, set[BootVariant]],
        decisions: Mapping[int, str],
        earlier_answers: Answers,
    ) -> tuple[tuple[MetricChange, ...], Answers]:
        """Changes of a series' numbers with a reference, and the answers that they are from.

        Args:
            runs: completed and not rejected, oldest first.
            variants: of those that are compared.
            decisions: on these runs.
            earlier_answers: answers of the look before.
        """
        answers: Answers = {}
        changes: list[MetricChange] = []
        averages: dict[int, list[Average]] = {}  # which the comparisons share
        for task in comparisons(runs, variants, decisions):
            places = {(clean(variant.medium), clean(variant.init)) for variant in task.variants}
            answer = earlier_answers.get(task.fingerprint)
            answers[task.fingerprint] = self._judge(snapshot, task, averages) if answer is None else answer
            changes += [
                change for change in answers[task.fingerprint] if (change.key.medium, change.key.init) in places
            ]
        return tuple(changes), answers

    def _judge(
        self, snapshot: StoreSnapshot, task: LatestComparison, averages: dict[int, list[Average]]
    ) -> tuple[MetricChange, ...]:
        numbers = [number for number in task.judge(snapshot, averages).numbers if number.baseline is not None]
        changes = [self._change(task, number) for number in numbers if number.average.metric.name != BOOT_STAGE.name]
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
        recognition = recognise(
            (
                k
                for k in self.known_failures
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
            recognition.state.value if recognition and regression else "",
        )
