"""Remarks on measured numbers: boards of a type that differ, and open regressions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Self

from attrs import field, frozen

from lab.judge import noise
from lab.judge.compare import compare
from lab.judge.labels import precedes, same_release
from lab.judge.latest import LabComparison, LatestJudge, WorseNumber
from lab.judge.number import Number, of_average
from lab.metrics import Measurement
from lab.results import formatting
from lab.results.history import Item, item_of
from lab.results.records import PUBLISHED, Run
from lab.results.store import Store
from lab.results.sums import Average

_NumberKey = tuple[str, int, Item]  # metric, its version, parameters


def judge_boards(store: Store, runs: Iterable[Run]) -> LabComparison:
    """Judge the boards of some runs, all at once."""
    boards = frozenset(run.board for run in runs if run.kind != PUBLISHED)
    return LatestJudge(math.inf, only=boards).of(store, store.now()) if boards else LabComparison()


def open_regressions(comparison: LabComparison, name: str) -> dict[str, tuple[WorseNumber, ...]]:
    """The worse numbers of boards up to a release, that nobody has decided on."""
    until = {
        board: tuple(
            number for number in numbers if same_release(number.release, name) or precedes(number.release, name)
        )
        for board, numbers in comparison.worse.items()
    }
    return {board: numbers for board, numbers in until.items() if numbers}


@frozen
class Remarks:
    """Remarks on the measured numbers of a board type's runs.

    Attributes:
        differences: number -> the ends of boards that differ by more than equal runs.
        worse: board -> its open regressions.
    """

    differences: Mapping[_NumberKey, str] = field(factory=dict)
    worse: Mapping[str, Sequence[WorseNumber]] = field(factory=dict)

    @classmethod
    def of_runs(
        cls, runs: Iterable[tuple[Run, Iterable[Average]]], worse: Mapping[str, Sequence[WorseNumber]]
    ) -> Self:
        """Compare the boards of some runs.

        Args:
            runs: of boards of one type with their averages, those that count first.
        """
        by_number: dict[_NumberKey, dict[str, Number]] = {}
        for run, averages in runs:
            for average in averages:
                number = of_average(average.metric, average.params, average.value, average.uncertainty, run.board)
                by_number.setdefault(number_key(average), {}).setdefault(run.board, number)
        differences = {}
        for key, numbers in by_number.items():
            low, high = (end(numbers.values(), key=lambda number: number.value or 0.0) for end in (min, max))
            if low.metric is not None and compare(low, high, noise.load().of(key[0], low.params)).verdict.moved:
                ends = " to ".join(
                    f"{formatting.number(end.value or 0.0, end.uncertainty or 0.0, low.metric)} ({end.source})"
                    for end in (low, high)
                )
                differences[key] = f"{len(numbers)} boards differ by more than equal runs do: {ends} {low.metric.unit}"
        return cls(differences, worse)

    def about(self, run: Run, measurement: Measurement) -> list[str]:
        """What is to be said of a run's number."""
        key = number_key(measurement)
        remarks = [f"{self.differences[key]}; this is {run.board}'s"] if key in self.differences else []
        regressions = {number.key[1:]: number for number in self.worse.get(run.board, ()) if number.kind == run.kind}
        if regression := regressions.get(key):
            against = f"{regression.release} against {regression.against} (run {regression.run})"
            remarks.append(f"open regression: {regression.size} in {against}")
        return remarks


def number_key(measurement: Measurement | Average) -> _NumberKey:
    """Metric, its version and parameters."""
    return measurement.metric.name, measurement.metric.version, item_of(measurement.params)
