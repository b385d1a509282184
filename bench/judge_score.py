"""What a judge's calls are worth against the truth, for bench/judge.py."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen
from judge_farm import Truth

from lab.judge.history import Outcome, Series, StepVerdict

AGAIN = 7  # runs after which an alarm that still stands disturbs again
CALLS = {Outcome.REGRESSION, Outcome.IMPROVEMENT}


@frozen
class Score:
    """Of one scenario.

    Attributes:
        false_a_year: false alarms per metric-year. reruns_a_year: reruns used.
        within: runs -> share of the changes that were called within so many; of silent ones, called environment.
    """

    false_a_year: float
    reruns_a_year: float
    within: dict[int, float]


def score(pairs: Sequence[tuple[Series, Truth]], said: Sequence[Sequence[StepVerdict]]) -> Score:
    """The figures of a judge's verdicts on these series."""
    years = false = reruns = length = 0.0
    delays: list[float] = []
    for (series, truth), verdicts in zip(pairs, said, strict=True):
        reruns += sum(verdict.reruns for verdict in verdicts)
        length += len(series.runs) / 365
        silent = truth.change.kind == "silent"
        quiet = len(series.runs) if truth.begins is None or silent else truth.begins
        years += quiet / 365
        false += _alarms([v.run for v in verdicts if v.outcome in CALLS and v.run < quiet])
        if truth.begins is None:
            continue
        right = Outcome.IMPROVEMENT if truth.change.size < 0 else Outcome.REGRESSION
        wanted = Outcome.ENVIRONMENT if silent else right
        hits = [v.run for v in verdicts if v.outcome is wanted and v.run >= truth.begins]
        delays.append(hits[0] - truth.begins + 1 if hits else float("inf"))
    within = {runs: sum(delay <= runs for delay in delays) / len(delays) for runs in (1, 3, 6, 10)} if delays else {}
    return Score(false / years, reruns / length, within)


def _alarms(runs: Sequence[int]) -> int:
    count, last = 0, -AGAIN
    for run in runs:
        if run - last >= AGAIN:
            count, last = count + 1, run
    return count
