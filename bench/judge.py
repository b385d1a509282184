"""False alarms and caught changes of the history's judge, beside others.

    uv run python bench/judge.py [--seed N] [--series 40] [--peer-series 20] [--real FILE.jsonl.gz] [--skip-otava]

Ours is judged on --series per kind of change and four times as many without one; the others, which are slow and ask for no rerun, on --peer-series.
docs/judge-method.md has a table of it. Exit status 3 when an aim of the judge is missed. Apache Otava comes from an environment of its own (`uv run`).
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from attrs import evolve, frozen
from common import MISSED, parser, print_table
from judge_farm import Change, Farm, Truth, made, real
from scipy import stats

from lab.judge.history import CONSTANTS, Outcome, Series, StepVerdict, judge
from lab.judge.history.table import nights
from lab.judge.history.walk import Walk
from lab.judge.replay import replay

Pairs = list[tuple[Series, Truth]]
Judge = Callable[[Sequence[Series]], Sequence[Sequence[StepVerdict]]]
Calls = list[tuple[int, int]]  # (run, 1 or -1)
QUIET = Change("none")
CHANGES = {
    "+5 %": Change("step", 0.05),
    "+2 %": Change("step", 0.02),
    "-2 %": Change("step", -0.02),
    "+1 %": Change("step", 0.01),
    "+0.7 %": Change("step", 0.007),
    "new mode": Change("mode", 0.10),
    "silent +2 %": Change("silent", 0.02),
}
HEADER = (
    "judge",
    "false a year",
    "+5 in 1",
    "+2 in 1",
    "+2 in 3",
    "+1 in 3",
    "+1 in 6",
    "+.7 in 6",
    "mode in 10",
    "silent in 6",
    "reruns",
)
SHOWN = (
    ("+5 %", 1),
    ("+2 %", 1),
    ("+2 %", 3),
    ("+1 %", 3),
    ("+1 %", 6),
    ("+0.7 %", 6),
    ("new mode", 10),
    ("silent +2 %", 6),
)

AGAIN = 7  # runs after which an alarm that still stands disturbs again
CALLS = {Outcome.REGRESSION, Outcome.IMPROVEMENT}
OTAVA = """
# stdin: series of numbers, as JSON; stdout: the calls [run, 1 or -1] of each. Otava analyses a whole series, so it is given what was known
# that night; a change point is called when it is first seen, and not again where it moves by a few runs.
import json, logging, sys
from otava.series import AnalysisOptions, Metric, Series

LOOKS_BACK, NEAR = 90, 5  # runs; longer series take longer and give the same
options = AnalysisOptions()  # whose defaults, 50 and 1e-3, alarm twice as often
options.window_len, options.max_pvalue, options.min_magnitude = 30, 1e-4, 0.0

def calls(values):
    seen, found = [], []
    for night in range(10, len(values)):
        first = max(0, night + 1 - LOOKS_BACK)
        part = values[first : night + 1]
        series = Series("series", None, list(range(len(part))), {"m": Metric(1, 1.0, "")}, {"m": part}, {})
        for point in series.analyze(options).change_points["m"]:
            where = first + point.index
            if all(abs(where - other) > NEAR for other in seen):
                found.append((night, 1 if point.stats.mean_2 > point.stats.mean_1 else -1))
            seen.append(where)
    return found

logging.disable(logging.CRITICAL)
json.dump([calls(values) for values in json.load(sys.stdin)], sys.stdout)
"""


@frozen
class Aim:
    """A figure that must be reached: at most (`at_most`) or at least `bound`."""

    what: str
    value: float
    bound: float
    at_most: bool = False

    @property
    def met(self) -> bool:
        return self.value <= self.bound if self.at_most else self.value >= self.bound


def ours(series: Sequence[Series]) -> list[list[StepVerdict]]:
    """Our verdicts, in parts that fit into memory."""
    parts = [series[first : first + 200] for first in range(0, len(series), 200)]
    return [each for part in parts for each in judge(part, everything=False)]


def without_reruns(series: Sequence[Series]) -> list[list[StepVerdict]]:
    """Ours, where nobody runs anything again."""
    return ours([evolve(one, runs=tuple(evolve(run, reruns=None) for run in one.runs)) for one in series])


def verdicts(series: Series, calls: Calls) -> list[StepVerdict]:
    """Calls as our verdicts."""
    return [
        StepVerdict(series.name, run, Outcome.REGRESSION if sign > 0 else Outcome.IMPROVEMENT, since=run)
        for run, sign in calls
    ]


def lnt(series: Sequence[Series]) -> list[list[StepVerdict]]:
    """The verdicts of LNT's rule.

    Mann and Whitney's test of a run's samples against the run's before (p 0.05), and a change of at least 1 %.
    """
    return [verdicts(one, _lnt(one)) for one in series]


def _lnt(series: Series) -> Calls:
    runs = [run.samples for run in series.runs]
    pairs = zip(runs[1:], runs[:-1], strict=True)
    chances = [stats.mannwhitneyu(now, before, method="asymptotic").pvalue for now, before in pairs]
    medians = np.array([np.median(run) for run in runs])
    moved = zip(medians[1:] / medians[:-1] - 1, chances, strict=True)
    return [(t, int(np.sign(by))) for t, (by, chance) in enumerate(moved, 1) if chance < 0.05 and abs(by) > 0.01]


def otava(series: Sequence[Series]) -> list[list[StepVerdict]]:
    """Apache Otava's calls.

    Raises:
        RuntimeError: it cannot be had.
    """
    given = json.dumps([[float(np.median(run.samples)) for run in one.runs] for one in series])
    words = [
        "uv",
        "run",
        "--quiet",
        "--no-project",
        "--python",
        "3.11",
        "--with",
        "apache-otava",
        "python",
        "-c",
        OTAVA,
    ]
    done = subprocess.run(words, input=given, text=True, capture_output=True, check=False, cwd="/")
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or ["it said nothing"])[-1])
    return [verdicts(one, calls) for one, calls in zip(series, json.loads(done.stdout), strict=True)]


def judges(skip_otava: bool) -> Iterator[tuple[str, Judge, bool]]:
    """(name, judge, it is a peer)."""
    yield "boardlab", ours, False
    yield "boardlab, no reruns", without_reruns, False
    yield "LNT, Mann-Whitney", lnt, True
    if not skip_otava:
        yield "Apache Otava, window 30, p 1e-4", otava, True


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


def farm_scores(judge_: Judge, farm: Farm, count: int, seed: int) -> dict[str, Score]:
    """Its score without a change and with each."""
    found = {}
    for name, change, share in [("none", QUIET, 4), *((name, change, 1) for name, change in CHANGES.items())]:
        pairs = made(farm, change, count * share, seed)
        found[name] = score(pairs, judge_([series for series, _ in pairs]))
    return found


def _row(name: str, found: dict[str, Score]) -> list[str]:
    caught = [f"{found[change].within[runs]:.2f}" for change, runs in SHOWN]
    return [name, f"{found['none'].false_a_year:.3f}", *caught, f"{found['none'].reruns_a_year:.0f}"]


def real_row(name: str, judge_: Judge, path: Path, seed: int) -> list[str]:
    cells = []
    for size in (0.0, 0.05, 0.02):
        pairs = real(path, size, seed)
        found = score(pairs, judge_([series for series, _ in pairs]))
        cells += [f"{found.false_a_year:.2f}"] if not size else [f"{found.within[3]:.2f}", f"{found.within[6]:.2f}"]
    return [name, *cells]


def speed(count: int, seed: int) -> tuple[float, float]:
    """(seconds of `lab judge replay` for so many series of a year, without starting Python; seconds for one more run)."""
    pairs = made(Farm(), QUIET, max(60, min(count, 200)), seed)
    lines = [
        json.dumps({"series": s.name, "runs": [{"samples": r.samples.tolist(), **r.provenance} for r in s.runs]})
        for s, _ in pairs
    ]
    with tempfile.TemporaryFile("w+") as file:
        file.writelines(lines[number % len(lines)] + "\n" for number in range(count))
        file.seek(0)
        begin = time.monotonic()
        for _ in replay(file, "bench"):
            pass
        all_s = time.monotonic() - begin
    walk, last = Walk(60, CONSTANTS), 0.0  # a run of all three media has some 60 numbers
    for night in nights([series for series, _ in pairs[:60]], CONSTANTS):
        begin = time.monotonic()
        walk.step(night)
        last = max(last, time.monotonic() - begin)
    return all_s, last


def aims(found: dict[str, Score], seconds: tuple[float, float]) -> list[Aim]:
    """The aims of docs/judge-method.md."""
    caught = [
        Aim(f"{name} in {runs}", found[name].within[runs], bound)
        for name, runs, bound in (
            ("+5 %", 1, 0.95),
            ("+2 %", 3, 0.95),
            ("new mode", 10, 0.95),
            ("silent +2 %", 6, 0.95),
            ("+1 %", 6, 0.90),
        )
    ]
    return [
        Aim("false alarms a metric-year", found["none"].false_a_year, 0.1, at_most=True),
        Aim("reruns a metric-year", found["none"].reruns_a_year, 25, at_most=True),
        *caught,
        Aim("s for 1,000 series of a year", seconds[0], 5, at_most=True),
        Aim("s for one run's numbers", seconds[1], 0.05, at_most=True),
    ]


def main() -> int:
    options = parser(__doc__)
    options.add_argument("--seed", type=int, default=secrets.randbelow(10**6), help="default: a fresh one")
    options.add_argument("--series", type=int, default=40)
    options.add_argument("--peer-series", type=int, default=20)
    options.add_argument("--boots", type=int, default=20)
    options.add_argument("--real", type=Path, action="append", default=[], metavar="FILE.jsonl.gz")
    options.add_argument("--speed", type=int, default=1000, help="series of the timing")
    options.add_argument("--skip-otava", action="store_true")
    asked = options.parse_args()
    print(f"seed {asked.seed}, {asked.series} series a change, {os.cpu_count()} cores\n", flush=True)
    farm, rows, real_rows, mine = Farm(boots=asked.boots), [], [], {}
    for name, judge_, peer in judges(asked.skip_otava):
        try:
            found = farm_scores(judge_, farm, asked.peer_series if peer else asked.series, asked.seed)
            real_rows += [real_row(f"{name}: {path.name}", judge_, path, asked.seed) for path in asked.real]
        except RuntimeError as error:
            print(f"{name}: left out: {error}")
            continue
        mine = mine or found
        rows.append(_row(name, found))
        print(name, file=sys.stderr, flush=True)
    print_table(HEADER, rows)
    if real_rows:
        print()
        print_table(("measured histories", "false a year", "+5 in 3", "+5 in 6", "+2 in 3", "+2 in 6"), real_rows)
    reached = aims(mine, speed(asked.speed, asked.seed))
    print()
    print_table(
        ("aim", "bound", "here", ""),
        [[a.what, f"{a.bound:g}", f"{a.value:.3g}", "" if a.met else "MISSED"] for a in reached],
    )
    return 0 if all(aim.met for aim in reached) else MISSED


if __name__ == "__main__":
    sys.exit(main())
