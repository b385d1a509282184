"""Histories built on purpose, for the tests of the judge."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from attrs import evolve

from lab.judge.history import HistoryRun, Series, StepVerdict, judge

NIGHTS, WEEK = 120, 7
Change = Callable[[int, np.random.Generator], float]  # run, chance -> relative size
CALLED = {"regression", "improvement", "environment"}


def history(
    seed: int = 1,
    *,
    nights: int = NIGHTS,
    boots: int = 20,
    jitter: float = 0.006,
    step: float = 0.0,
    at: int = 0,
    reruns: int | None = 3,
) -> Series:
    """A year's part of a quiet metric with an image a week; `step`: relative, from run `at` on."""
    rng = np.random.default_rng(seed)

    def samples(night: int) -> np.ndarray:
        level = 1e6 * (1 + step * (night >= at and step != 0)) * np.exp(rng.normal(0, 0.0015))
        return np.rint(level * np.exp(rng.normal(0, jitter, boots)))

    runs = tuple(
        HistoryRun(
            samples(night),
            {"image": f"image {night // WEEK}", "board": "A", "host": "lab1"},
            None if reruns is None else tuple(samples(night) for _ in range(reruns)),
        )
        for night in range(nights)
    )
    return Series(f"series {seed}", runs)


def mapped(series: Series, change: Callable[[np.ndarray], np.ndarray]) -> Series:
    """Every run's and rerun's samples changed in the same way."""
    runs = tuple(
        evolve(run, samples=change(run.samples), reruns=None if run.reruns is None else tuple(map(change, run.reruns)))
        for run in series.runs
    )
    return evolve(series, runs=runs)


def with_cause(series: Series, cause: str, value: str, since: int) -> Series:
    """The same history, where a run's provenance has another value from some run on."""
    runs = (
        evolve(run, provenance={**run.provenance, cause: value}) if night >= since else run
        for night, run in enumerate(series.runs)
    )
    return evolve(series, runs=tuple(runs))


def calls(series: Series) -> list[StepVerdict]:
    """The verdicts that call something."""
    return [verdict for verdict in judge([series], everything=False)[0] if verdict.outcome in CALLED]


def told(verdicts: Sequence[StepVerdict]) -> list[tuple[int, str, int | None, int]]:
    """What must be the same whatever the unit: run, outcome, since, reruns."""
    return [(verdict.run, str(verdict.outcome), verdict.since, verdict.reruns) for verdict in verdicts]
