"""Judge histories from JSON lines to verdict lines, for external referees.

One line of the input is one series:
`{"series": ID, "runs": [{"samples": [...], "image": ..., "reruns": [[...], ...]}]}`. A run may name further causes
(`board`, `card`, `adapter`, `host`, `tester`); a series may say `"better": "higher"`. Without `reruns`, none are
possible. Other keys are ignored.
"""

from __future__ import annotations

import json
import multiprocessing
import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from lab.errors import ConfigurationError
from lab.judge.causes import CAUSES
from lab.judge.history import HistoryRun, Outcome, Series, StepVerdict, judge

AT_ONCE: Final = 250  # series: enough that numpy's calls cost little, few enough to stay in 200 MB
_BETTER: Final = {"lower": False, "higher": True}
_CALLED: Final = (Outcome.REGRESSION, Outcome.IMPROVEMENT, Outcome.ENVIRONMENT)


def replay(lines: Iterable[str], source: str, *, everything: bool = False, jobs: int | None = None) -> Iterator[str]:
    """Verdict lines of histories, series by series, as they become known.

    Args:
        lines: of JSON; empty ones do not count.
        source: the input's name in errors.
        everything: also runs without a result.
        jobs: processes; None: one per core.

    Raises:
        ConfigurationError: a line is no history; the message names it and the remedy.
    """
    numbered = ((number, line) for number, line in enumerate(lines, 1) if line.strip())
    first = list(islice(numbered, AT_ONCE + 1))
    jobs = jobs or len(os.sched_getaffinity(0))
    if len(first) <= AT_ONCE or jobs == 1:
        for part in _parts(first, numbered):
            yield from _judge_lines(part, source, everything)
        return
    # forkserver: a fork of a process with threads, as numpy has them, may hang.
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("forkserver")) as pool:
        waiting = []
        for part in _parts(first, numbered):
            waiting.append(pool.submit(_judge_lines, part, source, everything))
            if len(waiting) > jobs:
                yield from waiting.pop(0).result()
        for future in waiting:
            yield from future.result()


def _parts(first: list[tuple[int, str]], rest: Iterator[tuple[int, str]]) -> Iterator[list[tuple[int, str]]]:
    while first:
        part, first = first[:AT_ONCE], first[AT_ONCE:] + list(islice(rest, AT_ONCE))
        yield part


def _judge_lines(lines: Sequence[tuple[int, str]], source: str, everything: bool) -> list[str]:
    series = [parse(line, f"{source}, line {number}") for number, line in lines]
    judged = judge(series, everything=everything)
    return [json.dumps(as_json(verdict)) for verdicts in judged for verdict in verdicts]


def as_json(verdict: StepVerdict) -> dict[str, Any]:
    """A verdict line; `outcome` gives the reason for `none`.

    `verdict` is regression, improvement, environment or none.
    """
    called = verdict.outcome in _CALLED
    line: dict[str, Any] = {
        "series": verdict.series,
        "run": verdict.run,
        "verdict": str(verdict.outcome) if called else "none",
        "reruns": verdict.reruns,
    }
    if not called:
        return line if verdict.outcome is Outcome.UNCHANGED else line | {"outcome": str(verdict.outcome)}
    return line | {
        "outcome": str(verdict.outcome),
        "since": verdict.since,
        "n": verdict.n,
        "effect": verdict.effect,
        "low": verdict.low,
        "high": verdict.high,
        "mode": verdict.mode,
        "crept": verdict.crept,
        "differs": {cause: list(both) for cause, both in verdict.differs.items()},
    }


def parse(line: str, where: str) -> Series:
    """Parse one line to a series.

    Raises:
        ConfigurationError: the line is no series; `where` begins the message.
    """
    try:
        record = json.loads(line)
    except ValueError as error:
        raise ConfigurationError(f"{where}: no JSON ({error}); each line is one whole series") from None
    if not isinstance(record, dict) or not isinstance(record.get("runs"), list):
        raise ConfigurationError(
            f'{where}: expected {{"series": ID, "runs": [...]}}; put each series on a line of its own'
        )
    if not isinstance(record.get("series"), str):
        raise ConfigurationError(f'{where}: the series has no name; add "series": "..."')
    better = record.get("better", "lower")
    if better not in _BETTER:
        raise ConfigurationError(f'{where}: "better" is {better!r}; write "lower" or "higher"')
    runs = record["runs"]
    for index, run in enumerate(runs):
        if not isinstance(run, dict) or "samples" not in run:
            raise ConfigurationError(f'{where}: run {index} has no "samples"; a run that failed has "samples": []')
    samples = _tables([run["samples"] for run in runs], where, "samples")
    history_runs = []
    for index, run in enumerate(runs):
        causes = {cause: str(run[cause]) for cause in CAUSES if run.get(cause) is not None}
        reruns = run.get("reruns")
        if reruns is not None:
            if not isinstance(reruns, list):
                raise ConfigurationError(
                    f'{where}: "reruns" of run {index} is no list; write a list of lists of numbers'
                )
            reruns = tuple(_tables(reruns, where, f"reruns of run {index}"))
        history_runs.append(HistoryRun(samples[index], causes, reruns))
    return Series(record["series"], tuple(history_runs), _BETTER[better])


def _tables(rows: list[Any], where: str, what: str) -> Sequence[npt.NDArray[np.float64]]:
    """Lists of numbers as arrays; all at once if equal in length."""
    try:
        table = np.array(rows)
    except ValueError:
        table = np.array(None)
    if table.ndim == 2 and table.dtype.kind in "iuf":
        return list(table.astype(np.float64))
    return [_row(row, f"{where}: {what}, entry {index}") for index, row in enumerate(rows)]


def _row(row: Any, where: str) -> npt.NDArray[np.float64]:
    numbers = isinstance(row, list) and all(
        value is None or (isinstance(value, int | float) and not isinstance(value, bool)) for value in row
    )
    if not numbers:
        raise ConfigurationError(
            f"{where}: expected a list of numbers, got {json.dumps(row)[:60]}; a failed cycle is null"
        )
    try:
        return np.array([np.nan if value is None else value for value in row], dtype=np.float64)
    except OverflowError:
        raise ConfigurationError(f"{where}: a number is too large; write it as a decimal") from None
