"""Open verdicts and standing failures, with the text of their mails."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Final

from attrs import define, field
from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily

from exporters.farm.build import LabelledValue, gauge
from exporters.labels import clean
from lab.host.clock import utc_now
from lab.judge.store import Standing, standing
from lab.judge.text import Change, Evidence, changes, failing_lines, failing_title
from lab.results.failing import Explained, Failing, FailureReader
from lab.results.formatting import label
from lab.results.snapshot import Watcher

MAX_CHANGES: Final = 100
DEAD, AT_TIMES = "dead", "at_times"  # all attempts of the newest run fail, or some
LONGEST_WORDS: Final = 1000  # characters of a label that holds words; each change has one series with them
_NUMBER: Final = ("board", "board_type", "kind", "metric", "params", "outcome", "since_run")
_CHANGE: Final = ("board", "board_type", "outcome", "since_run")
_FAILURE: Final = ("board", "board_type", "release", "outcome", "cause", "state")
_FAILURE_WORDS: Final = ("title", "said", "report", "log")
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
            found = snapshot.read(lambda session: standing(session, self.now()))
        return list(families(found, self.evidence))


@define
class StandingFailures:
    """The standing failures of boards in a store."""

    watcher: Watcher
    evidence: Evidence
    now: Callable[[], datetime] = utc_now
    _reader: FailureReader = field(factory=FailureReader, init=False)

    def read(self) -> list[Metric]:
        """The causes that stand now.

        Raises:
            BoardlabError: the store cannot be read.
        """
        with self.watcher.snapshot() as snapshot:
            found, explained = self._reader.read(snapshot, self.now())
        return list(_failures(found, explained, self.evidence))


def _failures(found: Sequence[Failing], explained: Sequence[Explained], evidence: Evidence) -> Iterator[Metric]:
    shown = found[:MAX_CHANGES]
    counts = [(_failure_labels(each), float(each.failed)) for each in shown]
    about = "How many attempts of a board failed for a cause since the run that it began with."
    yield gauge("boardlab_failing", about, _FAILURE, counts)
    family = GaugeMetricFamily(
        "boardlab_failing_info", "What a person is told of a cause.", labels=[*_FAILURE, *_FAILURE_WORDS]
    )
    for each in shown:
        where = (evidence.run(each.last.id), evidence.attempts(each))
        words = (failing_title(each), "\n".join(failing_lines(each)), *where)
        family.add_metric([*map(clean, _failure_labels(each)), *(text[:LONGEST_WORDS] for text in words)], 1.0)
    yield family
    about = (
        "1: the samples that a board's last run of this kind lacks of this item are missing since its attempts failed."
    )
    items = [((each.board, each.kind, each.item), 1.0) for each in explained]
    yield gauge("boardlab_failing_item", about, ("board", "kind", "item"), items)
    left_out = [((), float(len(found) - len(shown)))]
    yield gauge("boardlab_failing_left_out", "How many causes are not shown.", (), left_out)


def _failure_labels(each: Failing) -> tuple[str, ...]:
    state = DEAD if each.dead else AT_TIMES
    return (each.board, each.board_type, each.release, each.cause.outcome, each.cause.line, state)


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
