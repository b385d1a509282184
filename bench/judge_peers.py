"""How others judge a history, as far as a function can say it, for bench/judge.py. None of them asks for a rerun.

Each takes a series and gives its calls as (run, 1 or -1); none looks ahead.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from scipy import stats

from lab.judge.history import Outcome, Series, StepVerdict

Calls = list[tuple[int, int]]
OTAVA = Path(__file__).with_name("judge_otava.py")


def verdicts(series: Series, calls: Calls) -> list[StepVerdict]:
    """Calls as our verdicts."""
    return [
        StepVerdict(series.name, run, Outcome.REGRESSION if sign > 0 else Outcome.IMPROVEMENT, since=run)
        for run, sign in calls
    ]


def fixed(series: Series, bound: float = 0.02, window: int = 7) -> Calls:
    """The run's median is further than the bound from the median of the last week's."""
    medians = np.array([np.median(run.samples) for run in series.runs])
    moved = [(t, medians[t] / np.median(medians[t - window : t]) - 1) for t in range(window, len(medians))]
    return [(t, int(np.sign(by))) for t, by in moved if abs(by) > bound]


def perfherder(series: Series, fore: int = 12, back: int = 12, bound: float = 7.0) -> Calls:
    """Welch's t of the runs before and after, the nearer weighing more, over Perfherder's alert threshold of 7."""
    values = np.array([np.mean(run.samples) for run in series.runs])
    calls: Calls = []
    for t in range(back + fore - 1, len(values)):
        after, before = values[t - fore + 1 : t + 1], values[t - fore - back + 1 : t - fore + 1]
        heavy_after, heavy_before = np.arange(fore, 0, -1), np.arange(1, back + 1)
        distance = np.average(after, weights=heavy_after) - np.average(before, weights=heavy_before)
        error = np.sqrt(after.var(ddof=1) / fore + before.var(ddof=1) / back)
        alarmed = calls and t - calls[-1][0] < fore
        if not alarmed and error > 0 and abs(distance) / error > bound:
            calls.append((t, int(np.sign(distance))))
    return calls


def lnt(series: Series, p: float = 0.05, least: float = 0.01) -> Calls:
    """LNT's rule: Mann and Whitney's test of a run's samples against the run's before, and a change of at least 1 %."""
    runs = [run.samples for run in series.runs]
    pairs = zip(runs[1:], runs[:-1], strict=True)
    found = [stats.mannwhitneyu(now, before, method="asymptotic").pvalue for now, before in pairs]
    medians = np.array([np.median(run) for run in runs])
    moved = medians[1:] / medians[:-1] - 1
    return [
        (t, int(np.sign(by)))
        for t, (by, chance) in enumerate(zip(moved, found, strict=True), 1)
        if chance < p and abs(by) > least
    ]


PEERS: dict[str, Callable[[Series], Calls]] = {
    "fixed 2 %": fixed,
    "Perfherder, fore window 12": perfherder,
    "Perfherder, fore window 3": lambda series: perfherder(series, fore=3),
    "LNT, Mann-Whitney": lnt,
}


def otava(series: Sequence[Series]) -> list[Calls]:
    """Apache Otava's calls, from an environment of its own.

    Raises:
        RuntimeError: it cannot be had.
    """
    uv = shutil.which("uv")
    if uv is None:
        raise RuntimeError("uv is not installed")
    given = json.dumps([[float(np.median(run.samples)) for run in one.runs] for one in series])
    command = [
        uv,
        "run",
        "--quiet",
        "--no-project",
        "--python",
        "3.11",
        "--with",
        "apache-otava",
        "python",
        str(OTAVA),
    ]
    done = subprocess.run(command, input=given, text=True, capture_output=True, check=False, cwd="/")
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or ["it said nothing"])[-1])
    return [[(t, sign) for t, sign in calls] for calls in json.loads(done.stdout)]
