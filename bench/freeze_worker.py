"""Measures the boot time of one simulated board, cycle by cycle, for bench/freeze.py; a process of its own.

It is what `pytest tests_perf/test_boot.py` does, without pytest: labgrid's target, BoardStrategy, BootRun and a results
store. A line on stdin is a command: `boot` measures one more cycle and prints the attempt as a line of JSON; `leave`
gives the console back, and `enter` takes it again, from a console server that it finds or starts.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from attrs import evolve
from labgrid.environment import Environment

from lab.errors import BoardlabError
from lab.host.clock import MonotonicRaw
from lab.results import Attempt, Store, open_store
from lab.run.bootrun import BootRun
from lab.run.progress import Progress

OFF_SILENCE_S = 0.1  # a simulated board is off when it is told so
MEDIUM = "sd"


def main() -> int:
    """The program: `freeze_worker.py ENV DATABASE`."""
    env = Environment(config_file=sys.argv[1])
    database = Path(sys.argv[2])
    strategy: Any = env.get_target().get_strategy()
    limits = evolve(strategy.type.timeouts, off_silence_s=OFF_SILENCE_S, discharge_s=OFF_SILENCE_S)
    strategy.type = evolve(strategy.type, timeouts=limits)
    strategy.shell = None  # nobody logs in to see which board it is: that is after the boot
    with open_store(f"sqlite:///{database}") as store:
        strategy.check_lab()
        print("ready", flush=True)
        for command in sys.stdin:
            if command == "leave\n":
                strategy.target.deactivate(strategy.console)
                print("left", flush=True)
            elif command == "enter\n":
                strategy.check_lab()
                print("entered", flush=True)
            else:
                print(json.dumps(_described(_boot(store, strategy))), flush=True)
    env.cleanup()
    return 0


def _boot(store: Store, strategy: Any) -> Attempt:
    """One attempt at one cycle, in a run of its own: what another one did is no reason to refuse this one."""
    clock = MonotonicRaw()
    plan = {"cycles": 1, "media": [MEDIUM]}
    run = store.begin_run("boot", strategy.board_type, strategy.board, "", plan=plan, provenance={"virtual": True})
    progress = Progress(lambda _line: None, clock, total=1)
    try:
        BootRun(store, run, strategy, progress, clock, time.sleep, 0).measure(MEDIUM)
    except BoardlabError as error:
        if not store.attempts(run.id):
            raise AssertionError(f"an attempt was not recorded: {error}") from error
    (attempt,) = store.attempts(run.id)
    return attempt


def _described(attempt: Attempt) -> dict[str, object]:
    return {
        "outcome": attempt.outcome,
        "message": attempt.message,
        "clocks": {name: value for name, value in attempt.details.items() if name.startswith("clock_")},
        "numbers": [
            {
                "metric": sample.metric,
                "stage": sample.params.get("stage", ""),
                "value_s": sample.value,
                "uncertainty_s": sample.uncertainty,
                "flags": sorted(sample.flags),
            }
            for sample in attempt.samples
        ],
    }


if __name__ == "__main__":
    sys.exit(main())
