"""How long a person waits for a command: the starts of `lab`, on a store of many runs.

    uv run python bench/cli.py [--runs 60] [--times 15]

Writes runs of 60 cycles (3 media x 20) into a new store, and starts each command so often, one after the other in turns, so
that all meet the same machine. Aims, for the fastest start, since a busy machine only adds to it: `lab --help` 0.3 s,
`lab results list` 0.5 s, `lab report` of 60 cycles 2 s. Exit status 1 when one is missed. The processor's time says what a
start costs where other programs have the machine; it is at most the fastest start's time on an idle one.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from attrs import frozen

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support.recorded_run import record

from lab.results import open_store
from lab.shown import bad, echo, table

PROGRAM = "import sys; from lab.cli import main; sys.exit(main())"
ON_PATH = Path(sys.executable).with_name("lab")


@frozen
class Command:
    """A command, and how long its fastest start may take; None: nobody has said."""

    words: Sequence[str]
    aim_s: float | None = None

    @property
    def name(self) -> str:
        """As a person types it."""
        return " ".join(["lab", *self.words])


COMMANDS = (
    Command(["--help"], 0.3),
    Command(["--version"]),
    Command(["results", "--help"]),
    Command(["results", "list"], 0.5),
    Command(["results", "list", "--board", "qemu-*", "--status", "completed", "--since", "7d"], 0.5),
    Command(["results", "show", "1"]),
    Command(["report", "1", "-o", "report.html"], 2.0),
    Command(["status"]),
    Command(["boards"]),
    Command(["console", "attach", "nowhere"]),
)
COMPLETED = Command(["results", "show", "<TAB>"])


@frozen
class Start:
    """One start of a command: seconds from its start to its end, and of a processor's time."""

    wall_s: float
    cpu_s: float


def started(command: Command, folder: Path, environ: Mapping[str, str]) -> Start:
    """Start a command, and wait for its end."""
    given = [str(ON_PATH)] if ON_PATH.exists() else [sys.executable, "-c", PROGRAM]
    words = [] if command is COMPLETED else list(command.words)
    before, begun = _cpu_s(), time.perf_counter()
    subprocess.run(
        [*given, *words], check=False, cwd=folder, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    return Start(time.perf_counter() - begun, _cpu_s() - before)


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--times", type=int, default=15)
    options = parser.parse_args()
    commands = (*COMMANDS, COMPLETED)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        environ = {**os.environ, "LAB_DB": str(folder / "results.db"), "BOARDLAB_RUNTIME": str(folder / "run")}
        asked = {"_LAB_COMPLETE": "complete_bash", "COMP_WORDS": "lab results show ", "COMP_CWORD": "3"}
        with open_store(environ["LAB_DB"]) as store:
            for _ in range(options.runs):
                record(store)
        taken: dict[str, list[Start]] = {}
        for _ in range(options.times):
            for command in commands:
                its = {**environ, **asked} if command is COMPLETED else environ
                taken.setdefault(command.name, []).append(started(command, folder, its))
    rows, missed = [], 0
    for command in commands:
        seconds = [start.wall_s for start in taken[command.name]]
        cpu_s = min(start.cpu_s for start in taken[command.name])
        over = command.aim_s is not None and min(seconds) > command.aim_s
        missed += over
        fastest = f"{min(seconds):.2f}"
        aim = "-" if command.aim_s is None else f"{command.aim_s:g}"
        rows.append(
            [command.name, bad(fastest) if over else fastest, f"{statistics.median(seconds):.2f}", f"{cpu_s:.2f}", aim]
        )
    echo(f"{options.runs} runs of 60 cycles, {options.times} starts of each command, in turns")
    echo(*table(["command", "fastest s", "median s", "processor s", "aim s"], rows, "<>>>>"))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
