"""./run simulate [--seed N] [--seeds COUNT] [--from N]: schedules of a simulated lab; the first that fails is told, shrunk."""

from __future__ import annotations

import argparse
import hashlib
import sys
import time
from collections import Counter

from support.simulation.choices import Choices
from support.simulation.database import results
from support.simulation.simulate import hushed, simulate, story


def main() -> int:
    """The program."""
    parser = argparse.ArgumentParser(prog="./run simulate", description=__doc__)
    parser.add_argument("--seed", type=int, help="only this one, with its whole story")
    parser.add_argument("--seeds", type=int, default=1000, help="so many, from --first on")
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--raw", action="store_true", help="do not shrink a story")
    options = parser.parse_args()
    began = time.process_time()
    first, count = (options.first, options.seeds) if options.seed is None else (options.seed, 1)
    steps, digest, felt = 0, hashlib.sha256(), Counter[str]()
    with hushed(), results() as found:
        for seed in range(first, first + count):
            outcome = simulate(found, Choices.of(seed))
            steps += outcome.steps
            felt.update(outcome.felt)
            digest.update("\n".join(outcome.trace).encode())
            if outcome.name or options.seed is not None:
                told = story(found, outcome.taken, outcome.name) if outcome.name and not options.raw else outcome
                print("\n".join(told.trace))
                print(f"seed {seed}: {told.seen or 'everything holds'} ({outcome.steps} steps)")
            if outcome.name:
                return 1
    print("\n".join(f"{number:7} {name}" for name, number in sorted(felt.items())))
    print(f"{count} seeds, {steps} steps, digest of their events {digest.hexdigest()[:16]}")
    print(f"{time.process_time() - began:.1f} s of a core", file=sys.stderr)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
