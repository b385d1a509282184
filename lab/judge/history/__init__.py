"""Change detection over a series' runs: see docs/judge-method.md."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

import numpy as np
from attrs import evolve, frozen

from lab.judge.causes import changes
from lab.judge.history.model import CONSTANTS, Constants, HistoryRun, Outcome, Series, StepVerdict
from lab.judge.history.table import nights
from lab.judge.history.walk import StepResult, Walk
from lab.judge.labels import Lines

__all__ = ["CONSTANTS", "Constants", "HistoryRun", "Outcome", "Series", "StepVerdict", "judge", "outcome"]

_MOST: Final = 700.0  # exp of more is no float


def judge(
    series: Sequence[Series], constants: Constants = CONSTANTS, *, everything: bool = True
) -> list[list[StepVerdict]]:
    """Judge the runs of every series; nothing later than a run counts.

    Builds of several lines, measured in turn, are judged along their lines (`lab.judge.labels.Lines`).

    Args:
        everything: a verdict for every run; else only for runs with a result or reruns.
    """
    parts = [part for number, history in enumerate(series) for part in _lines(number, history)]
    walk = Walk(len(parts), constants)
    verdicts: list[list[StepVerdict]] = [[] for _ in series]
    for t, night in enumerate(nights([part.series for part in parts], constants)):
        result = walk.step(night)
        has = np.isfinite(night.logs).sum(axis=1) > 0
        speaks = np.ones(len(parts), dtype=bool) if everything else result.speaks() | ~has
        for row in np.flatnonzero(speaks).tolist():
            part = parts[row]
            if part.begins <= t < len(part.runs):
                step = verdict(part.series, t, result, row, bool(has[row]))
                since = None if step.since is None else part.runs[step.since]
                verdicts[part.number].append(evolve(step, run=part.runs[t], since=since))
    return [sorted(steps, key=lambda step: step.run) for steps in verdicts]


@frozen
class _Line:
    """A line of a series.

    Attributes:
        number: of its series.
        runs: the indices of its runs there.
        begins: the first of its own among them.
    """

    number: int
    series: Series
    runs: Sequence[int]
    begins: int


def _lines(number: int, series: Series) -> Iterator[_Line]:
    """The lines of a series; usually one goes on from the other."""
    lines, own = Lines(), dict[str, list[int]]()
    for t, run in enumerate(series.runs):
        label = run.provenance.get("release") or run.provenance.get("image") or lines.last or ""
        own.setdefault(lines.add(label), []).append(t)
    spans = sorted(own.values())
    if all(before[-1] < other[0] for before, other in pairwise(spans)):  # none is measured again after another
        yield _Line(number, series, range(len(series.runs)), 0)
        return
    for line, indices in own.items():
        runs = lines.runs[line]
        yield _Line(number, evolve(series, runs=tuple(series.runs[t] for t in runs)), runs, len(runs) - len(indices))


def verdict(series: Series, t: int, result: StepResult, row: int, has: bool) -> StepVerdict:
    """The verdict on one run of a series."""
    step = outcome(series.name, t, result, row, has, higher_is_better=series.higher_is_better)
    if step.since is None:
        return step
    n = sum(len(run.samples) for run in series.runs[step.since : t + 1])
    if step.crept or step.since == 0:
        return evolve(step, n=n)
    before, after = series.runs[step.since - 1 : step.since + 1]
    return evolve(step, n=n, differs=dict(changes(before.provenance, after.provenance)))


def outcome(name: str, t: int, result: StepResult, row: int, has: bool, *, higher_is_better: bool) -> StepVerdict:
    """The verdict without sample count and differences.

    Args:
        has: the run has a number.
    """
    reruns = int(result.reruns[row])
    if not result.level[row]:
        kind = Outcome.UNCHANGED
        if not has:
            kind = Outcome.NO_SAMPLES
        elif result.young[row]:
            kind = Outcome.NO_HISTORY
        elif result.unsure[row]:
            kind = Outcome.UNSURE
        return StepVerdict(name, t, kind, reruns)
    effect, error = float(result.effect[row]), float(result.error[row])
    worse = (result.level[row] > 0) != higher_is_better
    kind = Outcome.REGRESSION if worse else Outcome.IMPROVEMENT
    if result.environment[row]:
        kind = Outcome.ENVIRONMENT
    mode = bool(result.mode[row])
    return StepVerdict(
        name,
        t,
        kind,
        reruns,
        since=int(result.since[row]),
        effect=_relative(effect),
        low=None if mode else _relative(effect - error),
        high=None if mode else _relative(effect + error),
        mode=mode,
        crept=bool(result.crept[row]),
    )


def _relative(difference: float) -> float:
    """Convert a difference of logarithms to a finite relative change."""
    return math.expm1(min(difference, _MOST))
