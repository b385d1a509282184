"""Overhead of measuring a boot, beside labgrid's own way.

    uv run python bench/overhead.py [--cycles 20]
    uv run python bench/overhead.py --attempts 20 200 600

Both boot the same virtual board from SD through pdudaemon, and log in. The board's own time of a cycle is, by the
bench's truth log, from the power switch's order (QEMU starts, as supplies would ramp up) until the last byte of its
first shell prompt left its UART, and the discharge time of its type before that. A second table says where the rest of
boardlab's cycle goes.
labgrid's way (UBootStrategy with SerialDriver, UBootDriver, ShellDriver, PDUDaemonDriver) stops autoboot and logs in;
boardlab's way verifies off and the medium, logs in, asks the board about its boot, judges, and commits samples and
recordings.

`--attempts` measures the judgement alone: the CPU of a cycle of a simulated board, without the board's, in a run that has
so many good boots already, and in one of the fewest. Aim: with 600 at most 1.5 times that with 20.
"""

from __future__ import annotations

import datetime as dt
import functools
import os
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

from attrs import define, evolve, field, fields
from common import LAB, parser, print_table
from labgrid import Target
from labgrid.driver import PDUDaemonDriver, SerialDriver, ShellDriver, UBootDriver
from labgrid.environment import Environment
from labgrid.resource import PDUDaemonPort, RawSerialPort
from labgrid.strategy import UBootStrategy
from support.virtual_bench import BenchProcess, running_bench

import lab.rails.process
import lab.run.boot
from lab import boards
from lab.host.clock import MonotonicRaw
from lab.results import AttemptRecord, open_store
from lab.run.boot import BootRun
from lab.run.engine import RunEngine
from lab.run.progress import Progress
from lab.virtual.truth_log import Truth

TYPE = boards.load("qemu-virt")
SHELL = rb"root@qemu-virt:[^ ]*# "
FURTHER = 7  # cycles, of which the first reads the run
STEPS = {  # of a cycle, and the function that takes them; of the strategy, where no owner is named
    "off, verified": (None, "off"),
    "discharge, switch on": (None, "switch_on"),
    "boot until the login prompt": (None, "boot"),
    "power sampler": (lab.rails.process, "_start"),
    "login by name": (None, "_log_in_by_name"),
    "login of labgrid, once": (None, "_log_in"),
    "identity, once": (None, "identify"),
    "questions at the shell": (None, "asked"),
    "off, ordered": (None, "order_off"),
    "clocks": (lab.run.boot, "compare_clocks"),
    "judgement": (lab.run.boot, "judge_boot"),
    "recording": (lab.run.boot, "store_recording"),
    "samples": (RunEngine, "store_attempt"),
}
HEADER = ("", "cycles", "wall s", "board s", "dwell s", "overhead", "with dwell")


@define
class Laps:
    """Wall time of steps, each without the steps within it."""

    clock: MonotonicRaw
    spent_ns: Counter[str] = field(factory=Counter)
    _steps: list[str] = field(factory=list)
    _since_ns: int = 0

    def timed(self, step: str, function: Callable[..., object]) -> Callable[..., object]:
        """The function, its time counted as a step's."""

        @functools.wraps(function)
        def call(*args: Any, **options: Any) -> object:
            self._turn()
            self._steps.append(step)
            try:
                return function(*args, **options)
            finally:
                self._turn()
                self._steps.pop()

        return call

    def _turn(self) -> None:
        now_ns = self.clock.now_ns()
        if self._steps:
            self.spent_ns[self._steps[-1]] += now_ns - self._since_ns
        self._since_ns = now_ns


def board_seconds(truth: Truth, start_ns: int, end_ns: int) -> tuple[float, int]:
    """The board's own time, from power on to the shell's first prompt, and cycles."""
    edges = [e for e in truth.power if start_ns <= e.t_ns < end_ns]
    total_ns = cycles = started_ns = 0
    for edge, after in zip(edges, [*edges[1:], None], strict=True):
        if edge.state == "starting":
            started_ns = edge.t_ns
        if edge.state != "on":
            continue
        total_ns += truth.find(SHELL, edge.t_ns, after.t_ns if after else end_ns)[0] - started_ns
        cycles += 1
    return total_ns / 1e9, cycles


def measured(name: str, cycles: int, bench: BenchProcess, dwell_s: float, run: Callable[[], None]) -> list[str]:
    """Run so many cycles; a row of the table."""
    clock = MonotonicRaw()
    start_ns = clock.now_ns()
    run()
    end_ns = clock.now_ns()
    time.sleep(0.5)  # the truth log is written behind the line by 0.1 s
    board_s, found = board_seconds(bench.truth(), start_ns, end_ns)
    assert found == cycles, f"{name}: the truth log has {found} boots, not {cycles}"
    wall_s, dwell_s = (end_ns - start_ns) / 1e9, dwell_s * cycles
    shares = (wall_s - board_s - dwell_s) / wall_s, (wall_s - board_s) / wall_s
    return [name, str(cycles), *(f"{s:.2f}" for s in (wall_s, board_s, dwell_s)), *(f"{s:.1%}" for s in shares)]


def labgrid_way(bench: BenchProcess, cycles: int) -> list[str]:
    """Boot as labgrid's own strategy does."""
    bench.set_straps(TYPE.media["sd"].boot_mode)
    target = Target("peer")
    PDUDaemonPort(target, None, host=bench.state.pdudaemon, pdu="bench", index=1)
    RawSerialPort(target, None, port=bench.board.uarts["uart0"])
    PDUDaemonDriver(target, None, delay=TYPE.timeouts.discharge_s)
    SerialDriver(target, None)
    UBootDriver(target, None, prompt=TYPE.prompts.uboot, autoboot=TYPE.prompts.autoboot)
    ShellDriver(target, None, prompt=TYPE.prompts.shell, login_prompt=TYPE.prompts.login, username="root")
    strategy = UBootStrategy(target, None)

    def run() -> None:
        for _ in range(cycles):
            strategy.transition("shell")
            strategy.transition("off")

    dwell_s = float(-(-TYPE.timeouts.discharge_s // 1))  # pdudaemon's delay is in whole seconds
    try:
        return measured("labgrid: UBootStrategy, ShellDriver", cycles, bench, dwell_s, run)
    finally:
        target.cleanup()


def our_way(bench: BenchProcess, cycles: int, laps: Laps) -> list[str]:
    """Boot as a measurement does."""
    env = Environment(config_file=str(bench.folder / "env.yaml"))
    strategy = env.get_target().get_strategy()
    clock = MonotonicRaw()
    with open_store(f"sqlite:///{bench.folder / 'results.db'}") as store:
        plan = {"cycles": cycles, "media": ["sd"]}
        run = store.begin_run("boot", TYPE.name, "qemu-1", "bench", plan=plan, provenance={})
        progress = Progress(lambda _line: None, clock, total=cycles)
        boot_run = BootRun(store, run, strategy, progress, clock, time.sleep, retries=0)
        strategy.transition("off")  # the console server starts once for all runs of a lab, not once a cycle
        with ExitStack() as patches:
            for step, (named, function) in STEPS.items():
                owner = named or type(strategy)
                patches.enter_context(patch.object(owner, function, laps.timed(step, getattr(owner, function))))
            measure = laps.timed("the rest", lambda: boot_run.measure("sd"))
            name, dwell_s = "boardlab: BoardStrategy, store", TYPE.timeouts.discharge_s
            result = measured(name, cycles, bench, dwell_s, measure)
        strategy.transition("off")
    env.cleanup()
    return result


def judgement_s(attempts: int) -> tuple[float, float]:
    """CPU seconds of a cycle in a run with so many good boots: of a session's first, and of the others."""
    from support import simruns  # noqa: PLC0415 - it registers the strategy, which an environment imports itself

    cycles_planned = attempts + FURTHER + 1  # one stays: at a run's end its first boots are judged again, once
    with tempfile.TemporaryDirectory() as folder, simruns.bench(Path(folder), cycles=cycles_planned) as made:
        board_s = [0.0]

        def without(method: Callable[..., object]) -> Callable[..., object]:
            def call(*args: Any, **options: Any) -> object:
                start_s = time.process_time()
                try:
                    return method(*args, **options)
                finally:
                    board_s[0] += time.process_time() - start_s

            return call

        made.run.measure("sd", [1])
        (first,) = made.store.attempts(made.run.run.id)
        stored = {field.name: getattr(first, field.name) for field in fields(AttemptRecord)}
        for cycle in range(2, attempts + 1):
            check = {**first.details["cross_check"], "boot_id": f"{cycle:08x}-0000-4000-8000-000000000000"}
            changed = {"cycle": cycle, "started_at": first.started_at + dt.timedelta(seconds=cycle)}
            details = {**first.details, "cross_check": check}
            made.store.record_attempt(made.run.run.id, AttemptRecord(**{**stored, **changed, "details": details}))
        for name in ("boot", "identify", "asked"):  # the simulated board takes its time in these
            setattr(made.strategy, name, without(getattr(made.strategy, name)))
        resumed = evolve(made.run)
        spent_s = []
        for cycles in ([attempts + 1], [*range(attempts + 2, attempts + FURTHER + 1)]):
            start_s, board_s[0] = time.process_time(), 0.0
            resumed.measure("sd", cycles)
            spent_s.append((time.process_time() - start_s - board_s[0]) / len(cycles))
        return spent_s[0], spent_s[1]


def main() -> None:
    """The program."""
    options = parser(__doc__)
    options.add_argument("--cycles", type=int, default=20)
    options.add_argument("--attempts", type=int, nargs="+", metavar="N")
    given = options.parse_args()
    cycles = given.cycles
    if given.attempts:
        costs = {attempts: judgement_s(attempts) for attempts in given.attempts}
        fewest_s = costs[min(costs)][1]
        table = [(n, first_s, later_s, later_s / fewest_s) for n, (first_s, later_s) in costs.items()]
        header = ("attempts before", "CPU of a session's first, s", "of a later one, s", "to the fewest")
        print_table(header, [[str(n), *(f"{value:.3f}" for value in values)] for n, *values in table])
        return
    with tempfile.TemporaryDirectory() as folder:
        os.environ["BOARDLAB_RUNTIME"] = str(Path(folder) / "runtime")
        with running_bench(Path(folder) / "bench") as bench:
            try:
                laps = Laps(MonotonicRaw())
                rows = [labgrid_way(bench, cycles), our_way(bench, cycles, laps)]
            finally:
                subprocess.run([LAB, "console", "stop"], stdout=subprocess.DEVNULL, check=False)
    print_table(HEADER, rows)
    spent = [(step, f"{laps.spent_ns[step] / cycles / 1e6:.0f}") for step in (*STEPS, "the rest")]
    print_table(("boardlab's cycle", "ms"), spent)


if __name__ == "__main__":
    main()
