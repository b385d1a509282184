"""Cost of a farm's runs on a host, and idle time between two jobs.

    uv run python bench/farm.py [--boards 16] [--cycles 20] [--media sd,emmc,ospi] [--time-scale 0.2] [--alone 1] [--without-queue]

Simulated boards, each with a `lab run` of its own, as timers start them, and one console server for all. With `--time-scale 1` boards boot as
slowly as real ones. The bench says first how long it will take: a run alone, and all at once.

1. Queue to start: from the end of a board's job until the next one that waits has it, by the store, and until its first attempt begins. Aim: 2 s.
2. Orchestration: CPU time of a board's `lab run` and pytest while they measure, beside that time. What their start takes is left out: it is known
   from runs of one cycle. Aim: 2 % of a core a board.
3. Side by side: the time of all boards at once against that of the slowest of those alone; of the whole, and from the first attempt's beginning to
   the last one's end. Aim: 1.05 with 16 boards, 1.15 with 64.

The rest of the machine's time is the simulation, which on a lab host would be hardware, and the console server.
"""

from __future__ import annotations

import datetime as dt
import itertools
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from attrs import field, frozen
from common import LAB, parser, print_table
from support.virtual_bench import running_bench

from lab.host.clock import utc_now
from lab.jobs import listing
from lab.results import Store, open_store

TYPE = "am62xx_sk"
QUEUED = 4  # jobs of one board
# Without a plugin of our own tests, which no lab host has, and which is a sixth of what a start of pytest takes.
LEAN = "-p no:schemathesis"


@frozen
class Ended:
    """A `lab run` that has ended.

    Attributes:
        cpu_s: of it and its pytest. wall_s: from its start to its end. span_s: from its first attempt's beginning to its last one's end.
    """

    wall_s: float
    span_s: float
    cpu_s: float


@frozen
class Farm:
    """Simulated boards in a folder, and what measures them."""

    folder: Path
    environ: dict[str, str] = field(init=False)

    @environ.default
    def _environ(self) -> dict[str, str]:
        own = {
            "BOARDLAB_RUNTIME": str(self.folder / "run"),
            "LAB_DB": f"sqlite:///{self.folder / 'results.db'}",
            "PYTEST_ADDOPTS": LEAN,
        }
        # As on a lab host, where pytest keeps the modules that it compiles.
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        return {**kept, **own}

    @property
    def bench(self) -> Path:
        """The folder of the boards."""
        return self.folder / "bench"

    def start(self, board: int, cycles: int, media: str) -> tuple[int, float]:
        """Begin a run as a timer does: its process, and when."""
        env = self.bench / f"{TYPE}-{board}" / "env.yaml"
        words = ["--scheduled", "--wait", "3600", "--env", str(env), "--cycles", str(cycles)]
        words += [word for medium in media.split(",") for word in ("--medium", medium)]
        with (self.folder / f"run-{board}.log").open("ab") as log:
            began_s = time.monotonic()
            process = subprocess.Popen([LAB, "run", *words], env=self.environ, stdout=log, stderr=log, cwd=self.folder)
        return process.pid, began_s

    def measured(self, store: Store, boards: Sequence[int], cycles: int, media: str) -> list[Ended]:
        """All of these at once."""
        known = {run.id for run in store.runs()}
        begun = dict(self.start(board, cycles, media) for board in boards)
        ended = []
        while begun:
            pid, status, used = os.wait4(-1, 0)
            if pid in begun:
                assert status == 0, self._failed()
                ended.append((time.monotonic() - begun.pop(pid), used.ru_utime + used.ru_stime))
        spans = [span_s(store, run.id) for run in store.runs() if run.id not in known]
        assert len(spans) == len(boards), f"{len(spans)} runs of {len(boards)} boards"
        return [Ended(wall_s, span, cpu_s) for (wall_s, cpu_s), span in zip(ended, spans, strict=True)]

    def _failed(self) -> str:
        logs = {log.name: log.read_text()[-2000:] for log in self.folder.glob("run-*.log")}
        return "\n".join(
            ["a run failed", *(f"{name}: {text}" for name, text in logs.items() if "error" in text.lower())]
        )


def span_s(store: Store, run: int) -> float:
    """From the first attempt's beginning to the last one's end."""
    attempts = store.attempts(run)
    ends = [each.started_at + dt.timedelta(seconds=each.duration_s) for each in attempts]
    return (max(ends) - min(each.started_at for each in attempts)).total_seconds()


def queue_to_start(store: Store) -> list[tuple[float, float]]:
    """Of each job that waited for another one: until it had the board, and until its first attempt began."""
    every = (view.job for view in listing.jobs(store, 10_000, utc_now()))
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
    """The program."""
    options = parser(__doc__)
    options.add_argument("--boards", type=int, default=16)
    options.add_argument("--cycles", type=int, default=20)
    options.add_argument("--media", default="sd,emmc,ospi")
    options.add_argument("--time-scale", type=float, default=0.2, help="of all waiting but that for the UARTs")
    options.add_argument("--alone", type=int, default=1, help="boards that are measured alone; all are alike")
    options.add_argument("--without-queue", action="store_true")
    given = options.parse_args()
    words = ("--type", TYPE, "--count", str(given.boards), "--time-scale", str(given.time_scale))
    with tempfile.TemporaryDirectory(prefix="f") as name:
        farm = Farm(Path(name))
        with running_bench(farm.bench, "sim", *words), open_store(farm.environ["LAB_DB"]) as store:
            try:
                rows = [] if given.without_queue else queue(farm, store, given.media)
                rows += costs(farm, store, given.boards, given.cycles, given.media, given.alone)
            finally:
                subprocess.run([LAB, "console", "stop"], check=False, env=farm.environ, stdout=subprocess.DEVNULL)
    print_table(("", "measured", "aim"), rows)


def queue(farm: Farm, store: Store, media: str) -> list[list[str]]:
    """Jobs of one board, one after the other."""
    farm.measured(store, [1] * QUEUED, 1, media.split(",", maxsplit=1)[0])
    had, began = map(max, zip(*queue_to_start(store), strict=True))
    return [
        ["end of a job until the next one has the board", f"{had:.2f} s", "2 s"],
        ["until its first attempt", f"{began:.2f} s", ""],
    ]


def costs(farm: Farm, store: Store, count: int, cycles: int, media: str, alone: int) -> list[list[str]]:
    """One board, and all of them."""
    boards = range(1, count + 1)
    (first,) = farm.measured(store, boards[:1], 1, media)
    start_s = first.wall_s - first.span_s
    expected_s = start_s + first.span_s * cycles
    print(f"to come: {alone} x {expected_s:.0f} s alone, and {count} boards at once", flush=True)
    single = [farm.measured(store, [board], cycles, media)[0] for board in boards[:alone]]
    beside = farm.measured(store, boards, cycles, media)
    shares = [(each.cpu_s - first.cpu_s) / (each.span_s - first.span_s) for each in beside]
    span, whole = (
        max(getattr(each, name) for each in beside) / max(getattr(each, name) for each in single)
        for name in ("span_s", "wall_s")
    )
    return [
        ["a run's start and end", f"{start_s:.1f} s", ""],
        ["CPU of a run of one cycle of each medium", f"{first.cpu_s:.1f} s", ""],
        [f"{count} boards, first to last attempt, against the slowest of {alone} alone", f"{span:.3f}", "1.15"],
        [f"whole runs of {count} boards, against the slowest of {alone} alone", f"{whole:.3f}", ""],
        ["`lab run` and pytest, of a core for a board", f"{statistics.mean(shares):.2%}", "2 %"],
    ]


if __name__ == "__main__":
    main()
