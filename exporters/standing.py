"""The judge's verdicts that wait for a decision: each number that moved, and each change with the words that a mail gets."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Final

from attrs import define
from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily

from exporters.farm.build import LabelledValue, gauge
from exporters.labels import clean
from lab.host.clock import utc_now
from lab.judge.telling import Change, Evidence, changes
from lab.results.figures import label
from lab.results.standing import Standing
from lab.results.watch import Watcher

MAX_CHANGES: Final = 100
LONGEST_WORDS: Final = 1000  # characters of a label that holds words; each change has one series with them
_NUMBER: Final = ("board", "board_type", "kind", "metric", "params", "outcome", "since_run")
_CHANGE: Final = ("board", "board_type", "outcome", "since_run")
_WORDS: Final = ("title", "moved", "since", "boards", "differs", "report", "log")


@define
class StandingVerdicts:
    """The verdicts that stand in a store."""

    watcher: Watcher
    evidence: Evidence
    now: Callable[[], datetime] = utc_now

    def read(self) -> list[Metric]:
        """The verdicts that stand now.

        Raises:
            BoardlabError: the store cannot be read.
        """
        with self.watcher.snapshot() as snapshot:
            found = snapshot.standing(self.now())
        return list(families(found, self.evidence))


def families(found: Standing, evidence: Evidence) -> Iterator[Metric]:
    """The families of verdicts that stand."""
    every = changes(found.heard, found.began)
    shown = every[:MAX_CHANGES]
    effects: list[LabelledValue] = []
    errors: list[LabelledValue] = []
    for change in shown:
        for verdict in change.verdicts:
            values = (verdict.metric, label(verdict.params), change.outcome, str(verdict.since_run))
            labels = (change.board, change.board_type, verdict.run.kind, *values)
            effects.append((labels, math.nan if verdict.effect is None else verdict.effect))
            if verdict.low is not None and verdict.high is not None:
                errors.append((labels, (verdict.high - verdict.low) / 2))
    about = "of a number that moved and that nobody has decided on, relative: 0.02 is 2 % more, which may be better or worse."
    yield gauge("boardlab_verdict", f"The change {about}", _NUMBER, effects)
    yield gauge("boardlab_verdict_uncertainty", f"± at 95 % of the change {about}", _NUMBER, errors)
    counts = [(_labels(change), float(len(change.verdicts))) for change in shown]
    yield gauge("boardlab_verdict_change", "How many numbers moved together.", _CHANGE, counts)
    yield _words(shown, evidence)
    muted = Counter((verdict.run.board, verdict.run.board_type) for verdict in found.muted)
    rows = [(key, float(count)) for key, count in muted.items()]
    yield gauge("boardlab_verdict_muted", "How many numbers moved and are muted.", ("board", "board_type"), rows)
    left_out = found.left_out + sum(len(change.verdicts) for change in every[MAX_CHANGES:])
    yield gauge("boardlab_verdict_left_out", "How many that moved are not shown.", (), [((), float(left_out))])


def _words(shown: Sequence[Change], evidence: Evidence) -> Metric:
    family = GaugeMetricFamily(
        "boardlab_verdict_change_info", "What a person is told of a change.", labels=[*_CHANGE, *_WORDS]
    )
    for change in shown:
        words = (change.title, "\n".join(change.lines), change.since, change.boards, change.differing)
        said = [text[:LONGEST_WORDS] for text in (*words, evidence.report(change), evidence.log(change))]
        family.add_metric([*map(clean, _labels(change)), *said], 1.0)
    return family


def _labels(change: Change) -> tuple[str, str, str, str]:
    return (change.board, change.board_type, change.outcome, str(change.began.run))
