"""Sensitivity of the judge on a board: its own runs, redrawn, with and without an added step."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import numpy as np
from attrs import frozen

from lab.errors import ConfigurationError
from lab.judge.causes import CAUSES, causes, causes_at
from lab.judge.history import HistoryRun, Outcome, Series, StepVerdict, judge
from lab.judge.run_judge import CONFIRMS
from lab.judge.store import reviews
from lab.metrics.uncertainty import NORMAL_95, wilson
from lab.results import Store
from lab.results.formatting import label
from lab.results.history import MeasuredNumber, RunNumbers, read_numbers, run_heads

EFFECTS: Final = (0.005, 0.01, 0.02, 0.05)
BOOTS: Final = (3, 5, 10, 20)
NIGHTS: Final = 14  # after a step, in which it counts as found
LEAST_RUNS: Final = 60  # of a history: twenty without a step, fourteen with one, and some between
_BEFORE: Final = 20  # runs before a step
_WEEK: Final = 7  # runs of an image
_COPIES: Final = 30
_YEAR: Final = 365  # runs
_LATEST: Final = 366  # runs that are used
_CALLS: Final = (Outcome.REGRESSION, Outcome.IMPROVEMENT)
_Judged: TypeAlias = tuple[Sequence[StepVerdict], int]  # the verdicts on a copy, and the run of its step


@frozen
class StepFinds:
    """The share of redrawn histories in which a step was found.

    Attributes:
        share: of the copies with the step found within NIGHTS.
        low, high: at 95 %, of as many copies as the history has independent weeks.
        nights: until it was found in half of all copies; None: in fewer.
    """

    effect: float
    share: float
    low: float
    high: float
    nights: int | None


@frozen
class BootsSensitivity:
    """The findings of a number of boots a night.

    Attributes:
        false_alarms, low, high: a year of 365 runs, at 95 %; `high` tells how short the history is.
    """

    boots: int
    false_alarms: float
    low: float
    high: float
    steps: tuple[StepFinds, ...]


@frozen
class NumberSensitivity:
    """The sensitivity of a number's judge.

    Attributes:
        runs: of the history.
        removed: changes that the judge calls in it, which were taken out.
    """

    metric: str
    params: Mapping[str, str]
    runs: int
    removed: int
    boots: tuple[BootsSensitivity, ...]


def board_sensitivity(store: Store, board: str, kind: str, metric: str) -> list[NumberSensitivity]:
    """The sensitivity of a board's numbers of one metric, by its latest runs of a kind.

    Raises:
        ConfigurationError: there are too few runs.
    """
    newest = next(iter(store.runs(1, board=board, kind=kind)), None)
    if newest is None:
        raise ConfigurationError(f"no {kind} run of board {board!r}; `lab results list` shows the runs")
    # the latest runs that count, oldest first, without those that confirm another
    rejected = {review.run_id for review in reviews(store).values() if review.decision == "rejected"}
    ids = [head.id for head in run_heads(store, newest) if head.id not in rejected]
    runs = read_numbers(store, ids[-_LATEST:])
    simulated = runs[-1].simulated
    runs = [run for run in runs if run.simulated == simulated and CONFIRMS not in run.run.provenance]
    numbers = {number for run in runs for number in run.numbers if number.metric == metric}
    histories = {number: _history(runs, number) for number in sorted(numbers, key=lambda number: number.params)}
    longest = max(map(len, histories.values()), default=0)
    if longest < LEAST_RUNS:
        raise ConfigurationError(
            f"{metric} of {board} has {longest} {kind} runs; its own false alarms need {LEAST_RUNS}: measure on"
        )
    return [_sensitivity(number, history) for number, history in histories.items() if len(history) >= LEAST_RUNS]


def _history(runs: Sequence[RunNumbers], number: MeasuredNumber) -> list[HistoryRun]:
    history = []
    for run in runs:
        readings = run.numbers.get(number)
        values = np.array([value for value in (readings.values if readings else ()) if value > 0])
        if readings is not None and len(values):
            run_causes = causes_at(causes(run), readings.item)
            setup = {name: value for name, value in run_causes.items() if CAUSES[name].kind == "setup"}
            history.append(HistoryRun(values, setup))
    return history


def _sensitivity(number: MeasuredNumber, history: Sequence[HistoryRun]) -> NumberSensitivity:
    quiet, removed = _without_changes(history)
    rng = np.random.default_rng(1)
    cases = [(boots, effect) for boots in BOOTS for effect in (0.0, *EFFECTS)]
    copies = [_copy(quiet, boots, rng, effect) for boots, effect in cases for _ in range(_COPIES)]
    judged = iter(judge([series for series, _ in copies], everything=False))  # at once: numpy's calls cost most
    places = iter([at for _, at in copies])
    verdicts = {case: [(next(judged), next(places)) for _ in range(_COPIES)] for case in cases}
    rows = tuple(
        _of_boots(boots, len(quiet), {effect: verdicts[boots, effect] for effect in (0.0, *EFFECTS)})
        for boots in BOOTS
    )
    return NumberSensitivity(number.metric, dict(number.params), len(history), removed, rows)


def _without_changes(history: Sequence[HistoryRun]) -> tuple[list[HistoryRun], int]:
    """The history without the steps that the judge calls in it, and their number."""
    labelled = tuple(HistoryRun(run.samples, {**run.provenance, "image": str(t)}) for t, run in enumerate(history))
    (verdicts,) = judge([Series("", labelled)], everything=False)
    steps = [
        (verdict.since, 1 + verdict.effect)
        for verdict in verdicts
        if verdict.since is not None and verdict.effect is not None and not (verdict.mode or verdict.crept)
    ]
    quiet = []
    for t, run in enumerate(history):
        factor = math.prod(step for since, step in steps if since <= t)
        quiet.append(HistoryRun(run.samples / factor, run.provenance))
    return quiet, len(steps)


def _of_boots(boots: int, runs: int, judged: Mapping[float, Sequence[_Judged]]) -> BootsSensitivity:
    """The result for so many boots; `judged`: copies by the size of their step."""
    alarms = sum(verdict.outcome in _CALLS for verdicts, _ in judged[0.0] for verdict in verdicts) / _COPIES
    years = runs / _YEAR
    reach = NORMAL_95 * math.sqrt(alarms + NORMAL_95**2 / 4)  # score interval of a Poisson count
    middle = alarms + NORMAL_95**2 / 2
    low = max(0.0, middle - reach) if alarms else 0.0
    steps = tuple(_of_step(effect, runs, judged[effect]) for effect in EFFECTS)
    return BootsSensitivity(boots, alarms / years, low / years, (middle + reach) / years, steps)


def _of_step(effect: float, runs: int, judged: Sequence[_Judged]) -> StepFinds:
    delays = []  # nights until the step was called; infinite: never
    for verdicts, at in judged:
        rises = (step.run - at + 1 for step in verdicts if step.outcome is Outcome.REGRESSION and step.run >= at)
        delays.append(next(rises, math.inf))
    delays.sort()
    hits = sum(delay <= NIGHTS for delay in delays)
    weeks = min(_COPIES, (runs - _BEFORE - NIGHTS) // _WEEK)
    low, high = wilson(round(hits / _COPIES * weeks), weeks)
    median = delays[(_COPIES - 1) // 2]
    return StepFinds(effect, hits / _COPIES, low, high, int(median) if median <= NIGHTS else None)


def _copy(quiet: Sequence[HistoryRun], boots: int, rng: np.random.Generator, effect: float) -> tuple[Series, int]:
    """The history with boots drawn anew from each run, a new image a week, and a step with one of these; its run."""
    phase = int(rng.integers(_WEEK))
    starts = [t for t in range(_BEFORE, len(quiet) - NIGHTS + 1) if (t + phase) % _WEEK == 0]
    at = int(rng.choice(starts))
    runs = (
        HistoryRun(
            rng.choice(run.samples, boots) * (1 + effect * (t >= at)),
            {**run.provenance, "image": str((t + phase) // _WEEK)},
        )
        for t, run in enumerate(quiet)
    )
    return Series("", tuple(runs)), at


def sentence(number: NumberSensitivity) -> str:
    """A line of the steps found with the most boots, and of false alarms."""
    row = number.boots[-1]
    steps = ", ".join(
        f"{100 * step.effect:+g} % in {100 * step.share:.0f} % ({100 * step.low:.0f} to {100 * step.high:.0f})"
        for step in row.steps
    )
    return (
        f"{number.metric} {label(number.params)}: the judge would find {steps} of cases within {NIGHTS} nights by "
        f"{row.boots} boots, with {row.false_alarms:.1f} ({row.low:.1f} to {row.high:.1f}) false alarms a year, by "
        f"its own {number.runs} runs"
    )


def lines(number: NumberSensitivity) -> Iterator[list[str]]:
    """Rows of a table: boots, false alarms a year, and a cell per step."""
    for row in number.boots:
        alarms = f"{row.false_alarms:.1f} ({row.low:.1f} to {row.high:.1f})"
        cells = (
            f"{'-' if step.nights is None else step.nights}, {100 * step.share:.0f} % "
            f"({100 * step.low:.0f} to {100 * step.high:.0f})"
            for step in row.steps
        )
        yield [str(row.boots), alarms, *cells]
