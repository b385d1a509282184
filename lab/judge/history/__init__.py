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
from lab.judge.history.walk import Said, Walk
from lab.judge.labels import Lines

__all__ = ["CONSTANTS", "Constants", "HistoryRun", "Outcome", "Series", "StepVerdict", "judge", "outcome"]

_MOST: Final = 700.0  # exp of more is no float


def judge(
    series: Sequence[Series], known: Constants = CONSTANTS, *, everything: bool = True
) -> list[list[StepVerdict]]:
    """Judge the runs of every series; nothing later than a run counts.

    Builds of several lines, measured in turn, are judged along their lines (`lab.judge.labels.Lines`).

    Args:
        everything: a verdict for every run; else only for runs with a result or reruns.
    """
    parts = [part for number, one in enumerate(series) for part in _lines(number, one)]
    walk = Walk(len(parts), known)
    verdicts: list[list[StepVerdict]] = [[] for _ in series]
    for t, night in enumerate(nights([part.series for part in parts], known)):
        result = walk.step(night)
        has = np.isfinite(night.logs).sum(axis=1) > 0
        speaks = np.ones(len(parts), dtype=bool) if everything else result.speaks() | ~has
        for row in np.flatnonzero(speaks).tolist():
            part = parts[row]
            if part.begins <= t < len(part.runs):
                found = verdict(part.series, t, result, row, bool(has[row]))
                since = None if found.since is None else part.runs[found.since]
                verdicts[part.number].append(evolve(found, run=part.runs[t], since=since))
    return [sorted(found, key=lambda each: each.run) for found in verdicts]


@frozen
class _Line:
    """A line of a series.

    Attributes:
        number: of its series. runs: the indices of its runs there. begins: the first of its own among them.
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
    if all(one[-1] < other[0] for one, other in pairwise(spans)):  # none is measured again after another
        yield _Line(number, series, range(len(series.runs)), 0)
        return
    for line, its in own.items():
        runs = lines.runs[line]
        yield _Line(number, evolve(series, runs=tuple(series.runs[t] for t in runs)), runs, len(runs) - len(its))


def verdict(series: Series, t: int, result: Said, row: int, has: bool) -> StepVerdict:
    """The verdict on one run of a series."""
    found = outcome(series.name, t, result, row, has, higher_is_better=series.higher_is_better)
    if found.since is None:
        return found
    n = sum(len(run.samples) for run in series.runs[found.since : t + 1])
    if found.crept or found.since == 0:
        return evolve(found, n=n)
    before, after = series.runs[found.since - 1 : found.since + 1]
    return evolve(found, n=n, differs=dict(changes(before.provenance, after.provenance)))


def outcome(name: str, t: int, result: Said, row: int, has: bool, *, higher_is_better: bool) -> StepVerdict:
    """The verdict without sample count and differences.

    Args:
        has: the run has a number.
    """
    reruns = int(result.reruns[row])
    if not result.level[row]:
        found = Outcome.UNCHANGED
        if not has:
            found = Outcome.NO_SAMPLES
        elif result.young[row]:
            found = Outcome.NO_HISTORY
        elif result.unsure[row]:
            found = Outcome.UNSURE
        return StepVerdict(name, t, found, reruns)
    effect, error = float(result.effect[row]), float(result.error[row])
    worse = (result.level[row] > 0) != higher_is_better
    found = Outcome.REGRESSION if worse else Outcome.IMPROVEMENT
    if result.environment[row]:
        found = Outcome.ENVIRONMENT
    mode = bool(result.mode[row])
    return StepVerdict(
        name,
        t,
        found,
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
