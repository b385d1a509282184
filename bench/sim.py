"""Boot times of many simulated boards at once: within their ± of the truth? Beside labgrid and grabserial.

    uv run python bench/sim.py [--boards 16 64] [--cycles 20] [--time-scale 0.1] [--peers boardlab labgrid grabserial]
    uv run python bench/sim.py --boards 64 --ports 4 --peers boardlab bare labgrid

Brings up a bench with `lab virtual up sim`, and lets each peer in turn read all of its consoles while every board is
power-cycled at its own pace. What a peer says is compared with the boards' truth logs:

- a boot time ("Starting kernel" to the login prompt) with the time between the same bytes at the UART, and with the ±
  that boardlab states for it; the peers state none;
- a stamp with the time at which its marker left the UART.

`bare` is a loop of epoll_wait(2), read(2) and the clock (stamps_bare.py): what it is late by is the machine's own.
grabserial stamps the first character of a marker's line, and is compared with that. The boards have the first core for
themselves, below everything that the kernel wants to do there, since real boards need no processor of the host. The
peers have the other cores and SCHED_FIFO 10 where that is permitted. `--time-scale` shortens what a board waits for besides
its UART: at 0.1 a boot takes some four seconds, and the lines are five times as busy as at 1.

The boards' own process may be held up between the time that it notes and its write(2): the last columns count from the write's
return, so that what is late by the console server alone lies between the two.

`--ports` gives each board so many UARTs: on one it boots, the others are silent, and the peers read all of them.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil
from aside import Core, stand_aside
from attrs import frozen
from stamps_compare import places, prepare, print_table, share, share_of_core, spread, watch
from stamps_peers import BENCH, PEERS, Peer, Stamp, Task

from lab.host.clock import MonotonicRaw
from lab.virtual.state import BenchState, expect
from lab.virtual.truth import Truth, read_truth

LAB = Path(sys.executable).with_name("lab")
START, END = "starting_kernel", "login"
# Each comes once in a boot of a K3 board, in this order. The prompt ends no line.
MARKERS = {
    "tfa": r"NOTICE:  BL31: v",
    "uboot": r"(?<!SPL )U-Boot 20\d\d\.\d\d",
    "autoboot": r"Hit any key to stop autoboot",
    START: r"Starting kernel \.\.\.",
    "first_printk": r"\[ +0\.000000\] Booting Linux",
    "init": r"Run /sbin/init as init process",
    END: r"-evm login: ",
}
LATEST_NS = 2_000_000_000  # a stamp later than that is of another boot, or none
IDLE_S = 10.0
TARGETS = (
    "targets on an idle machine: boot times in ± at least 99 %, stamps p99 at most 0.2 ms with 16 boards; "
    "console server at most 0.3 and simulation at most 1 core with 64; with 256 ports stamps p99 at most 0.1, p99.9 at most 0.5 ms, "
    "console server at most 0.5 core, memory flat"
)
HEADER = (
    *("peer", "boards", "boots", "boot time p50 ms", "p99 ms", "max ms", "in ±"),
    *("stamps", "missed", "p50 ms", "p99 ms", "p99.9 ms", "max ms", "early", "in ±", "CPU", "CPU of the boards"),
    *("ports", "memory MB", "grown MB", "p99 ms since the board's write", "p99.9 ms"),
)


@frozen
class Error:
    """Of a stamp or a time: how far it is from the truth, and what the peer says that it may be."""

    ns: int
    uncertainty_ns: int | None

    @property
    def stated(self) -> bool:
        """Whether it is within what the peer says."""
        return self.uncertainty_ns is not None and abs(self.ns) <= self.uncertainty_ns


@frozen
class Pair:
    """A marker of one boot: when it left the UART, and what the peer says of it; None: it was missed.

    Attributes:
        held_ns: so much later at most the board may have handed it on: its process, which stands for hardware, was held up.
    """

    true_ns: int
    held_ns: int
    stamp: Stamp | None


def main() -> int:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--boards", type=int, nargs="+", default=[16, 64], help="how many at once")
    parser.add_argument("--cycles", type=int, default=20, help="of each board, for each peer")
    parser.add_argument("--ports", type=int, default=1, help="UARTs of each board, of which one is busy")
    parser.add_argument(
        "--busy", action="store_true", help="the machine has other work; absolute times mean little then"
    )
    parser.add_argument("--time-scale", type=float, default=0.1)
    parser.add_argument("--board-type", default="am62xx_sk", help="one of the K3 boards")
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=list(PEERS))
    options = parser.parse_args()
    core = Core(prepare(), options.busy)
    rows = []
    for boards in options.boards:
        with (
            bench(options.board_type, boards, options.time_scale, core) as (folder, state),
            silent_ports(boards * (options.ports - 1)) as silent,
        ):
            report_idle(folder, state, core)
            for name in options.peers:
                rows.append(measure(name, folder, state, options.cycles, core, silent))
                print("  ".join(rows[-1]), file=sys.stderr, flush=True)
    print_table(HEADER, rows)
    print(TARGETS)
    return 0


@contextmanager
def bench(board_type: str, boards: int, time_scale: float, core: Core) -> Iterator[tuple[Path, BenchState]]:
    """A bench with these boards, on its core; taken down at the end."""
    home = Path(tempfile.mkdtemp(prefix="sim-"))
    folder = home / "bench"
    words = (
        *("--type", board_type, "--count", str(boards), "--time-scale", str(time_scale)),
        *("--pdu-port", "0", "--switch-port", "0"),
    )
    try:
        subprocess.run([LAB, "virtual", "up", "sim", *words, "--dir", folder], check=True, stdout=subprocess.DEVNULL)
        state = expect(folder)
        stand_aside(core, state.pid)
        yield folder, state
    finally:
        subprocess.run([LAB, "virtual", "down", "--dir", folder], check=True, stdout=subprocess.DEVNULL)
        shutil.rmtree(home)


@contextmanager
def silent_ports(count: int) -> Iterator[list[Path]]:
    """Ports on which nothing comes."""
    boards, paths = [], []
    try:
        for _ in range(count):
            board, port = os.openpty()
            boards.append(board)
            paths.append(Path(os.ttyname(port)))
            os.close(port)
        yield paths
    finally:
        for board in boards:
            os.close(board)


def report_idle(folder: Path, state: BenchState, core: Core) -> None:
    """Print what the boards cost while they are off, and while they wait at their login prompts."""
    off = share_of_core(state.pid, IDLE_S)
    with driver(folder, 1, core, "--leave-on") as drive:
        assert drive.stdout is not None
        assert drive.stdout.readline() == "done\n"
    on = share_of_core(state.pid, IDLE_S)
    print(f"{len(state.boards)} boards: {off:.2%} of a core off, {on:.2%} at the login prompt", flush=True)


@contextmanager
def driver(folder: Path, cycles: int, core: Core, *more: str) -> Iterator[subprocess.Popen[str]]:
    """The hand on the power switch, at work."""
    command = [sys.executable, str(BENCH / "sim_drive.py"), str(folder), "--cycles", str(cycles)]
    with subprocess.Popen([*command, *more], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n", "the hand on the power switch did not start"
        stand_aside(core, process.pid)  # a hand takes no time from the kernel either
        process.stdin.write("go\n")
        process.stdin.flush()
        yield process


def measure(
    name: str, folder: Path, state: BenchState, cycles: int, core: Core, silent: Sequence[Path] = ()
) -> list[str]:
    """Let one peer read all consoles while the boards boot; its row of the table."""
    clock = MonotonicRaw()
    own = Path(tempfile.mkdtemp(prefix=f"sim-{name}-"))
    peer = PEERS[name](Task(own, MARKERS))
    begin_ns = clock.now_ns()
    try:
        peer.start([Path(next(iter(board.uarts.values()))) for board in state.boards], cycles, silent)
        before_bytes = memory_bytes(peer.pids())
        with driver(folder, cycles, core) as drive:
            assert drive.stdout is not None
            output = drive.stdout
            os.set_blocking(output.fileno(), False)
            reading, boards = watch(peer, lambda: not output.readline(), state.pid)
        end_ns = clock.now_ns()
        after_bytes = memory_bytes(peer.pids())
        stamps = peer.stamps()
    finally:
        peer.stop()
        shutil.rmtree(own)
    truths = [read_truth(Path(board.truth)) for board in state.boards]
    lost = sum(truth.lost for truth in truths)
    if lost:  # in a pty that nobody read in time: boots and stamps cannot be paired
        missing = ["-"] * (len(HEADER) - 10)
        cpu = f"{reading:.1%}", f"{boards:.1%}"
        return [
            peer.name,
            str(len(truths)),
            f"{lost} bytes lost",
            *missing,
            *cpu,
            str(len(truths) + len(silent)),
            *4 * ["-"],
        ]
    pairs = {
        marker: [
            pair
            for found, truth in zip(stamps[: len(truths)], truths, strict=True)
            for pair in paired(found, truth, marker, peer, (begin_ns, end_ns))
        ]
        for marker in MARKERS
    }
    memory = [f"{size / 1e6:.1f}" for size in (after_bytes, after_bytes - before_bytes)]
    return [
        *row(peer, len(truths), pairs, reading, boards),
        str(len(truths) + len(silent)),
        *memory,
        *since_write(pairs),
    ]


def memory_bytes(pids: Sequence[int]) -> int:
    """What these processes have of their own, and their share of what they have together (proportional set size)."""
    return sum(psutil.Process(pid).memory_full_info().pss for pid in pids)


def paired(found: Sequence[Stamp], truth: Truth, marker: str, peer: Peer, span: tuple[int, int]) -> list[Pair]:
    """Each time that a marker came, with the peer's stamp of it."""
    found_at = places(truth, MARKERS[marker].encode(), peer.first_character, *span)
    own = [stamp for stamp in found if stamp.marker == marker]
    times = [(truth.left_ns(place), truth.delay_ns(place)) for place in found_at]
    return [Pair(*at, nearest(own, at[0])) for at in times]


def nearest(stamps: Sequence[Stamp], true_ns: int) -> Stamp | None:
    """The stamp of what left the UART then; none where the nearest is of another boot."""
    found = min(stamps, key=lambda stamp: abs(stamp.t_ns - true_ns), default=None)
    return found if found is not None and abs(found.t_ns - true_ns) < LATEST_NS else None


def row(peer: Peer, boards: int, pairs: dict[str, list[Pair]], reading: float, simulation: float) -> list[str]:
    """The cells of a peer."""
    boots = list(zip(pairs[START], pairs[END], strict=True))
    times = [error for start, end in boots if (error := boot_error(start, end)) is not None]
    stamps = [pair for marker in pairs.values() for pair in marker]
    errors = [Error(pair.stamp.t_ns - pair.true_ns, pair.stamp.uncertainty_ns) for pair in stamps if pair.stamp]
    return [
        *(peer.name, str(boards), str(len(boots)), *spread([abs(e.ns) / 1e6 for e in times], [50, 99]), within(times)),
        *(str(len(stamps)), str(len(stamps) - len(errors)), *spread([e.ns / 1e6 for e in errors], [50, 99, 99.9])),
        *(str(sum(error.ns < 0 for error in errors)), within(errors), f"{reading:.1%}", f"{simulation:.1%}"),
    ]


def since_write(pairs: Mapping[str, Sequence[Pair]]) -> list[str]:
    """How late stamps are at least: counted from the return of the write(2) with which the board handed the bytes on."""
    late_ns = [p.stamp.t_ns - p.true_ns - p.held_ns for each in pairs.values() for p in each if p.stamp]
    return spread([max(0, late) / 1e6 for late in late_ns], [99, 99.9])[:-1]


def boot_error(start: Pair, end: Pair) -> Error | None:
    """Of the boot time between two markers; its ± is the larger of theirs (lab.benchmarks.boot)."""
    if start.stamp is None or end.stamp is None:
        return None
    error_ns = (end.stamp.t_ns - start.stamp.t_ns) - (end.true_ns - start.true_ns)
    if start.stamp.uncertainty_ns is None or end.stamp.uncertainty_ns is None:
        return Error(error_ns, None)
    return Error(error_ns, max(start.stamp.uncertainty_ns, end.stamp.uncertainty_ns))


def within(errors: Sequence[Error]) -> str:
    """The share within what the peer says, as a cell; of a peer that says nothing a dash."""
    if not any(error.uncertainty_ns for error in errors):
        return "-"
    return share(sum(error.stated for error in errors), len(errors))


if __name__ == "__main__":
    sys.exit(main())
