"""What a farm's runs cost a host, and how long a board stands idle between two jobs.

    uv run python bench/farm.py [--boards 16] [--cycles 20] [--media sd,emmc,ospi] [--time-scale 1]

Simulated boards, each with a `lab run` of its own, as timers start them, and one console server for all. With `--time-scale 1` boards boot as
slowly as real ones, and the bench takes about 45 s a cycle and medium, twice; 3 cycles of one medium say the same of the costs.

1. Queue to start: from the end of a board's job until the next one that waits has it, by the store, and until its first attempt begins. Aim: 2 s.
2. Orchestration: CPU time of a board's `lab run` and pytest, what their start takes left out, beside the time. Aim: 2 % of a core a board.
3. Side by side: the time of all boards at once against that of the slowest of them alone. Aim: 1.05 with 16 boards.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from attrs import field, frozen

from lab.host.clock import utc_now
from lab.results import Store, joblist, open_store

LAB = Path(sys.executable).with_name("lab")
TYPE = "am62xx_sk"
ALONE = 3  # boards that are measured alone; all are alike


@frozen
class Ended:
    """A `lab run` that has ended. cpu_s: of it and its pytest."""

    wall_s: float
    cpu_s: float


@frozen
class Farm:
    """Simulated boards in a folder, and what measures them."""

    folder: Path
    environ: dict[str, str] = field(init=False)

    @environ.default
    def _environ(self) -> dict[str, str]:
        own = {"BOARDLAB_RUNTIME": str(self.folder / "run"), "LAB_DB": f"sqlite:///{self.folder / 'results.db'}"}
        return {**os.environ, **own}

    def start(self, board: int, cycles: int, media: str) -> tuple[int, float]:
        """Begin a run as a timer does: its process, and when."""
        env = self.folder / "bench" / f"{TYPE}-{board}" / "env.yaml"
        words = ["--scheduled", "--wait", "3600", "--env", str(env), "--cycles", str(cycles), "--medium", media]
        with (self.folder / f"run-{board}.log").open("ab") as log:
            began_s = time.monotonic()
            process = subprocess.Popen([LAB, "run", *words], env=self.environ, stdout=log, stderr=log, cwd=self.folder)
        return process.pid, began_s

    def measured(self, boards: Sequence[int], cycles: int, media: str) -> list[Ended]:
        """All of these at once."""
        begun = dict(self.start(board, cycles, media) for board in boards)
        ended = []
        while begun:
            pid, status, used = os.wait4(-1, 0)
            if pid in begun:
                assert status == 0, f"a run failed; see {self.folder}/run-*.log"
                ended.append(Ended(time.monotonic() - begun.pop(pid), used.ru_utime + used.ru_stime))
        return ended


def queue_to_start(store: Store) -> list[tuple[float, float]]:
    """Of each job that waited for another one: until it had the board, and until its first attempt began."""
    every = (view.job for view in joblist.jobs(store, 10_000, utc_now()))
    jobs = sorted(
        (job for job in every if job.started_at is not None), key=lambda job: job.started_at or job.queued_at
    )
    runs = {run.job_id: run.id for run in store.runs(limit=10_000)}
    found = []
    for before, after in itertools.pairwise(jobs):
        if before.finished_at is None or after.started_at is None or before.board != after.board:
            continue
        if after.queued_at < before.finished_at:
            first = store.attempts(runs[after.id])[0].started_at
            ended = before.finished_at
            found.append(((after.started_at - ended).total_seconds(), (first - ended).total_seconds()))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--boards", type=int, default=16)
    parser.add_argument("--cycles", type=int, default=20)
    parser.add_argument("--media", default="sd,emmc,ospi")
    parser.add_argument("--time-scale", type=float, default=1.0)
    options = parser.parse_args()
    every = range(1, options.boards + 1)
    with tempfile.TemporaryDirectory(prefix="f") as name:
        farm = Farm(Path(name))
        bench = str(farm.folder / "bench")
        scale, ports = str(options.time_scale), ("--pdu-port", "0", "--switch-port", "0")
        up = [str(LAB), "virtual", "up", "sim", "--type", TYPE, "--count", str(options.boards), "--time-scale", scale]
        subprocess.run([*up, "--dir", bench, *ports], check=True, env=farm.environ, stdout=subprocess.DEVNULL)
        try:
            with open_store(farm.environ["LAB_DB"]) as store:
                report(farm, store, list(every), options.cycles, options.media)
        finally:
            subprocess.run([LAB, "console", "stop"], check=False, env=farm.environ, stdout=subprocess.DEVNULL)
            subprocess.run(
                [LAB, "virtual", "down", "--dir", bench], check=True, env=farm.environ, stdout=subprocess.DEVNULL
            )


def report(farm: Farm, store: Store, boards: list[int], cycles: int, media: str) -> None:
    medium = media.split(",", maxsplit=1)[0]
    farm.measured([1, 1, 1, 1], 1, medium)
    waits = queue_to_start(store)
    had, began = (max(each[n] for each in waits) for n in (0, 1))
    print(
        f"queue to start: the board after {had:.2f} s at most, the first attempt after {began:.2f} s ({len(waits)} jobs)"
    )
    short = farm.measured(boards, 1, medium)
    alone = [farm.measured([board], cycles, media)[0] for board in boards[:ALONE]]
    beside = farm.measured(boards, cycles, media)
    start_cpu_s = statistics.mean(each.cpu_s for each in short)
    start_wall_s = statistics.mean(each.wall_s for each in short)
    shares = [(each.cpu_s - start_cpu_s) / (each.wall_s - start_wall_s) for each in beside]
    print(
        f"orchestration: {statistics.mean(shares):.2%} of a core a board (at most {max(shares):.2%}) with {len(boards)} boards; "
        f"a run's start and first cycle {start_cpu_s:.1f} s of CPU"
    )
    slowest, all_s = max(each.wall_s for each in alone), max(each.wall_s for each in beside)
    print(
        f"side by side: {len(boards)} boards {all_s:.1f} s, the slowest of {len(alone)} alone {slowest:.1f} s: {all_s / slowest:.3f}"
    )


if __name__ == "__main__":
    main()
