"""The history's judge beside others, on a made-up farm with fresh seeds and on measured histories: false alarms and what is caught.

    python bench/judge.py [--seed N] [--series 40] [--peer-series 20] [--real FILE.jsonl.gz] [--skip-otava]

Ours is judged on --series per kind of change and four times as many without one; the others, which are slow, on --peer-series.
docs/judge-method.md has a table of it. Exit 1 when an aim of the judge is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from attrs import evolve, frozen
from judge_farm import Change, Farm, Truth, made, real
from judge_peers import PEERS, otava, verdicts
from judge_score import Score, score
from stamps_compare import print_table

from lab.judge.history import CONSTANTS, Series, StepVerdict, judge
from lab.judge.history.table import nights
from lab.judge.history.walk import Walk
from lab.judge.replay import replay

Pairs = list[tuple[Series, Truth]]
Judge = Callable[[Sequence[Series]], Sequence[Sequence[StepVerdict]]]
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


def judges(skip_otava: bool) -> Iterator[tuple[str, Judge, bool]]:
    """(name, judge, it is a peer)."""
    yield "boardlab", ours, False
    yield "boardlab, no reruns", without_reruns, False
    for name, peer in PEERS.items():
        yield name, (lambda series, peer=peer: [verdicts(one, peer(one)) for one in series]), True
    if not skip_otava:
        yield "Apache Otava, window 30, p 1e-4", _otava, True


def _otava(series: Sequence[Series]) -> list[list[StepVerdict]]:
    return [verdicts(one, calls) for one, calls in zip(series, otava(series), strict=True)]


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
    pairs = made(Farm(), QUIET, min(count, 200), seed)
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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6), help="default: a fresh one")
    parser.add_argument("--series", type=int, default=40)
    parser.add_argument("--peer-series", type=int, default=20)
    parser.add_argument("--boots", type=int, default=20)
    parser.add_argument("--real", type=Path, action="append", default=[], metavar="FILE.jsonl.gz")
    parser.add_argument("--speed", type=int, default=1000, help="series of the timing")
    parser.add_argument("--skip-otava", action="store_true")
    asked = parser.parse_args()
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
    return int(not all(aim.met for aim in reached))


if __name__ == "__main__":
    sys.exit(main())
