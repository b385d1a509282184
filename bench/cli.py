"""Starts of `lab` commands on a store of many runs.

    uv run python bench/cli.py [--runs 60] [--times 15]

Writes runs of 60 cycles (3 media x 20) into a new store, and starts each command so often, in turns, so that all meet the same machine. Aims, for
the fastest start, since a busy machine only adds to it: `lab --help` 0.3 s, `lab results list` 0.5 s, `lab report` of 60 cycles 2 s. Exit status 3
when one is missed. The processor's time is at most the fastest start's time on an idle machine.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from common import LAB, MISSED, parser, print_table
from support.recorded_run import record

from lab.results import open_store

AIMS_S = {
    "--help": 0.3,
    "results list": 0.5,
    "results list --board qemu-* --status completed --since 7d": 0.5,
    "report 1 -o report.html": 2.0,
    "status": None,
    "boards": None,
    "console attach nowhere": None,
}
COMPLETION = {"_LAB_COMPLETE": "complete_bash", "COMP_WORDS": "lab results show ", "COMP_CWORD": "3"}
COMPLETED = "results show <TAB>"


def main() -> int:
    """The program."""
    options = parser(__doc__)
    options.add_argument("--runs", type=int, default=60)
    options.add_argument("--times", type=int, default=15)
    given = options.parse_args()
    commands = (*AIMS_S, COMPLETED)
    taken: dict[str, list[tuple[float, float]]] = {command: [] for command in commands}
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        environ = {**os.environ, "LAB_DB": str(folder / "results.db"), "BOARDLAB_RUNTIME": str(folder / "run")}
        with open_store(environ["LAB_DB"]) as store:
            for _ in range(given.runs):
                record(store)
        for _ in range(given.times):
            for command in commands:
                tab = command == COMPLETED
                taken[command].append(
                    start([] if tab else command.split(), folder, environ | (COMPLETION if tab else {}))
                )
    rows, missed = [], False
    for command, starts in taken.items():
        walls, cpus = zip(*starts, strict=True)
        aim_s = AIMS_S.get(command)
        over = aim_s is not None and min(walls) > aim_s
        missed |= over
        aim = "-" if aim_s is None else f"{aim_s:g}{' MISSED' if over else ''}"
        rows.append([f"lab {command}", *(f"{s:.2f}" for s in (min(walls), statistics.median(walls), min(cpus))), aim])
    print(f"{given.runs} runs of 60 cycles, {given.times} starts of each command, in turns")
    print_table(("command", "fastest s", "median s", "processor s", "aim s"), rows)
    return MISSED if missed else 0


def start(words: list[str], folder: Path, environ: dict[str, str]) -> tuple[float, float]:
    """Start a command; seconds until its end, and of a processor."""
    before_s, begun_s = _cpu_s(), time.perf_counter()
    null = subprocess.DEVNULL
    subprocess.run([LAB, *words], check=False, cwd=folder, env=environ, stdout=null, stderr=null)
    return time.perf_counter() - begun_s, _cpu_s() - before_s


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    sys.exit(main())
