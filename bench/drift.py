"""How often is a run called "moved within the run" that did not move, and how much must one move to be called?

    uv run python bench/drift.py HISTORY.jsonl.gz

HISTORY has real runs, one series a line: {"runs": [{"samples": [...]}, ...]}. Each run is judged as it was measured (some of them
did move), and with its samples shuffled: then nothing in it moves, and the noise is still real. What must be called is added to
the shuffled ones: a step, or a climb to the run's end, from the tenth sample on, in units of the run's own spread.
"""

from __future__ import annotations

import argparse
import gzip
import json
from pathlib import Path

import numpy as np

from lab.metrics import Sample
from lab.metrics.drift import CHANCE, FEWEST, drift

FROM, SPREAD = 9, 1.4826
CHANGES = {
    "a step of 1.5 spreads": lambda n: 1.5 * (n >= FROM),
    "a step of 2 spreads": lambda n: 2.0 * (n >= FROM),
    "a climb of 0.25 spreads a cycle": lambda n: 0.25 * np.maximum(0, n - FROM + 1),
    "a climb of 0.4 spreads a cycle": lambda n: 0.4 * np.maximum(0, n - FROM + 1),
}


def called(runs: list[np.ndarray]) -> float:
    """The share of runs that are called."""
    found = [drift([Sample(value, 0.0, cycle) for cycle, value in enumerate(run, 1)]) for run in runs]
    return sum(each is not None for each in found) / len(found)


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("history", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    runs = []
    with gzip.open(given.history, "rt", encoding="utf-8") as file:
        for line in file:
            runs += [np.array(run["samples"]) for run in json.loads(line)["runs"] if len(run["samples"]) >= FEWEST]
    dice = np.random.default_rng(given.seed)
    still = [dice.permutation(run) for run in runs]
    print(f"{len(runs)} runs of {len(runs[0])} samples; called by chance, as it is meant: {100 * CHANCE:.1f} %")
    print(f"shuffled, so that nothing moves: {100 * called(still):.2f} %")
    print(f"as they were measured: {100 * called(runs):.2f} %")
    for name, shape in CHANGES.items():
        moved = [run + shape(np.arange(len(run))) * SPREAD * np.median(np.abs(run - np.median(run))) for run in still]
        noisy = [run for run, plain in zip(moved, still, strict=True) if np.std(plain) > 0.005 * np.median(plain)]
        print(
            f"{name}: {100 * called(moved):.0f} % of all, {100 * called(noisy):.0f} % of runs that spread by more than 0.5 %"
        )


if __name__ == "__main__":
    main()
