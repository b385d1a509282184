"""What measuring costs: the time of N cycles minus the board's own time, beside labgrid's own way to boot a board.

    uv run python bench/overhead.py [--cycles 20]

Both boot the same virtual board from SD through pdudaemon. The board's own time of a cycle is, by the bench's truth
log, from the power switch's order (QEMU starts, as supplies would ramp up) until the last byte of the prompt left its
UART, and the discharge time of its type before that.
labgrid's way (UBootStrategy with SerialDriver, UBootDriver, ShellDriver, PDUDaemonDriver) stops autoboot and logs in;
boardlab's way verifies off and the medium, waits for the login prompt, judges, and commits samples and recordings.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from attrs import frozen
from labgrid import Target
from labgrid.driver import PDUDaemonDriver, SerialDriver, ShellDriver, UBootDriver
from labgrid.environment import Environment
from labgrid.resource import PDUDaemonPort, RawSerialPort
from labgrid.strategy import UBootStrategy

from lab import boards
from lab.host.clock import MonotonicRaw
from lab.results import open_store
from lab.run.bootrun import BootRun
from lab.run.progress import Progress
from lab.virtual.truth import Truth, read_truth

LAB = Path(sys.executable).with_name("lab")
TYPE = boards.load("qemu-virt")
LOGIN = rb"qemu-virt login: "
SHELL = rb"root@qemu-virt:[^ ]*# "


@frozen
class Result:
    """Seconds of all cycles together."""

    name: str
    cycles: int
    wall_s: float
    board_s: float
    dwell_s: float

    @property
    def overhead(self) -> float:
        """The share of the time that was neither the board's nor its discharge time."""
        return (self.wall_s - self.board_s - self.dwell_s) / self.wall_s

    @property
    def not_board(self) -> float:
        """The share of the time that was not the board's, the discharge time included."""
        return (self.wall_s - self.board_s) / self.wall_s


def board_seconds(truth: Truth, start_ns: int, end_ns: int, prompt: bytes) -> tuple[float, int]:
    """The board's own time between two instants: power on to the last prompt before the next power event; cycles."""
    edges = [e for e in truth.power if start_ns <= e.t_ns < end_ns]
    total_ns = cycles = started_ns = 0
    for edge, after in zip(edges, [*edges[1:], None], strict=True):
        if edge.state == "starting":
            started_ns = edge.t_ns
        if edge.state != "on":
            continue
        found = truth.find(prompt, edge.t_ns, after.t_ns if after else end_ns)
        total_ns += found[-1] - started_ns
        cycles += 1
    return total_ns / 1e9, cycles


def measured(name: str, cycles: int, folder: Path, prompt: bytes, dwell_s: float, run: Callable[[], None]) -> Result:
    clock = MonotonicRaw()
    start_ns = clock.now_ns()
    run()
    end_ns = clock.now_ns()
    time.sleep(0.5)  # the truth log is written behind the line by 0.1 s
    board_s, found = board_seconds(read_truth(folder / "qemu-1" / "truth.log"), start_ns, end_ns, prompt)
    assert found == cycles, f"{name}: the truth log has {found} boots, not {cycles}"
    return Result(name, cycles, (end_ns - start_ns) / 1e9, board_s, dwell_s * cycles)


def labgrid_way(folder: Path, address: str, cycles: int) -> Result:
    for bit in (0, 1):
        (folder / "qemu-1" / "straps" / f"bit{bit}").write_text(f"{TYPE.media['sd'].boot_mode >> bit & 1}\n")
    target = Target("peer")
    PDUDaemonPort(target, None, host=address, pdu="bench", index=1)
    RawSerialPort(target, None, port=str(folder / "qemu-1" / "uart0"))
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
        return measured("labgrid: UBootStrategy, ShellDriver", cycles, folder, SHELL, dwell_s, run)
    finally:
        target.cleanup()


def our_way(folder: Path, cycles: int) -> Result:
    env = Environment(config_file=str(folder / "env.yaml"))
    strategy = env.get_target().get_strategy()
    clock = MonotonicRaw()
    with open_store(f"sqlite:///{folder / 'results.db'}") as store:
        plan = {"cycles": cycles, "media": ["sd"]}
        run = store.begin_run("boot", TYPE.name, "qemu-1", "bench", plan=plan, provenance={})
        progress = Progress(lambda _line: None, clock, total=cycles)
        boot_run = BootRun(store, run, strategy, progress, clock, time.sleep, retries=0)
        strategy.transition("off")  # the console server starts once for all runs of a lab, not once a cycle
        result = measured(
            "boardlab: BoardStrategy, store",
            cycles,
            folder,
            LOGIN,
            TYPE.timeouts.discharge_s,
            lambda: boot_run.measure("sd"),
        )
        strategy.transition("off")
    env.cleanup()
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cycles", type=int, default=20)
    cycles = parser.parse_args().cycles
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "bench"
        os.environ["BOARDLAB_RUNTIME"] = str(Path(name) / "runtime")
        subprocess.run([LAB, "virtual", "up", "--dir", folder, "--pdu-port", "0"], check=True)
        try:
            address = json.loads((folder / "bench.json").read_text())["pdudaemon"]
            results = [labgrid_way(folder, address, cycles), our_way(folder, cycles)]
        finally:
            subprocess.run([LAB, "console", "stop"], check=False)
            subprocess.run([LAB, "virtual", "down", "--dir", folder], check=True)
    print(f"{'':38}{'cycles':>7}{'wall s':>9}{'board s':>9}{'dwell s':>9}{'overhead':>10}{'with dwell':>12}")
    for r in results:
        print(
            f"{r.name:38}{r.cycles:7}{r.wall_s:9.2f}{r.board_s:9.2f}{r.dwell_s:9.2f}{r.overhead:10.1%}{r.not_board:12.1%}"
        )


if __name__ == "__main__":
    main()
