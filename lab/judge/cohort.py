"""A board's numbers first measured in the same run, judged together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
from attrs import define, field, frozen

from lab.judge.builds import causes
from lab.judge.history import CAUSES, CONSTANTS, HistoryRun, Outcome, outcome
from lab.judge.history.table import Provenance, night
from lab.judge.history.walk import Walk
from lab.judge.records import NewVerdict
from lab.results.history import Item, MeasuredNumber, RunNumbers

_NOTHING: Final = np.zeros(0)


@frozen
class Judged:
    """The verdict on one number, with its item of the plan."""

    verdict: NewVerdict
    item: Item

    @property
    def asks(self) -> bool:
        """True if another run of the same night would tell more."""
        return self.verdict.outcome == Outcome.UNSURE.value


@define(eq=False)
class Cohort:
    """Numbers of one board, run by run.

    Attributes:
        items, higher: of each number: its item of the plan, and True if more is better.
        runs: ids of the judged runs. known: their causes. counts: usable samples, (runs, numbers).
    """

    numbers: tuple[MeasuredNumber, ...]
    items: tuple[Item, ...]
    higher: tuple[bool, ...]
    walk: Walk = field(init=False)
    seen: list[Provenance] = field(init=False)
    runs: list[int] = field(factory=list)
    known: list[Mapping[str, str]] = field(factory=list)
    counts: list[npt.NDArray[np.int32]] = field(factory=list)

    def __attrs_post_init__(self) -> None:
        self.walk = Walk(len(self.numbers), CONSTANTS)
        self.seen = [Provenance(CONSTANTS) for _ in self.numbers]

    def concerns(self, runs: Sequence[RunNumbers]) -> bool:
        """True if these runs tried to measure any of the numbers."""
        return any(_tried(runs[0], number, item) for number, item in zip(self.numbers, self.items, strict=True))

    def step(self, runs: Sequence[RunNumbers]) -> list[Judged]:
        """Judge a night: a run and those that confirm it."""
        first, known = runs[0], causes(runs[0])
        tried = [self._run(row, runs, known) for row in range(len(self.numbers))]
        made = night(tried, self.seen)
        result = self.walk.step(made)
        counts = np.isfinite(made.logs).sum(axis=1)
        self.runs.append(first.run.id)
        self.known.append(known)
        self.counts.append(counts.astype(np.int32))
        t = len(self.runs) - 1
        found = []
        for row, number in enumerate(self.numbers):
            if tried[row] is not None:
                words = outcome("", t, result, row, bool(counts[row]), higher_is_better=self.higher[row])
                since = words.since
                if words.outcome is Outcome.NO_HISTORY:
                    n = sum(bool(count[row]) for count in self.counts[:t])
                else:
                    n = 0 if since is None else int(sum(count[row] for count in self.counts[since:]))
                verdict = NewVerdict(
                    metric=number.metric,
                    version=number.version,
                    params=dict(number.params),
                    outcome=words.outcome.value,
                    direction=int(result.level[row]),
                    since_run=None if since is None else self.runs[since],
                    n=n,
                    effect=words.effect,
                    low=words.low,
                    high=words.high,
                    mode=words.mode,
                    reruns=words.reruns,
                    differs={} if since is None else dict(self._differences(since)),
                )
                found.append(Judged(verdict, self.items[row]))
        return found

    def _run(self, row: int, runs: Sequence[RunNumbers], known: Mapping[str, str]) -> HistoryRun | None:
        """A number's run with failed cycles as NaN; None: not tried."""
        number, item = self.numbers[row], self.items[row]
        first = runs[0]
        if not _tried(first, number, item):
            return None
        readings = first.numbers.get(number)
        values = readings.values if readings else ()
        samples = np.array([*values, *([np.nan] * _failed(first, item))], dtype=np.float64)
        again = (each.numbers[number].values for each in runs[1:] if number in each.numbers)
        return HistoryRun(samples, known, tuple(np.array(values, dtype=np.float64) for values in again))

    def _differences(self, since: int) -> Iterator[tuple[str, tuple[str, str]]]:
        """Causes that differ between a change's run and the last one before."""
        for cause in CAUSES:
            now = self.known[since].get(cause)
            before = next((known[cause] for known in reversed(self.known[:since]) if cause in known), None)
            if now is not None and before is not None and now != before:
                yield cause, (before, now)


def _tried(run: RunNumbers, number: MeasuredNumber, item: Item) -> bool:
    """True if a run tried to measure a number or its section."""
    return number in run.numbers or item in run.failed or _failed(run, item) > 0


def _failed(run: RunNumbers, item: Item) -> int:
    """Number of failed cycles of an item or its section.

    (section) of (row, section).
    """
    return max(run.failed.get(part, 0) for part in (item, *((pair,) for pair in item)))


def new_cohort(cohorts: Sequence[Cohort], run: RunNumbers) -> Cohort | None:
    """A cohort of the run's new numbers; None: none are new."""
    old = {number for cohort in cohorts for number in cohort.numbers}
    new = {number: readings for number, readings in run.numbers.items() if number not in old}
    if not new:
        return None
    return Cohort(
        tuple(new),
        tuple(readings.item for readings in new.values()),
        tuple(readings.higher_is_better for readings in new.values()),
    )
