"""Boot times of many simulated boards at once, beside labgrid and grabserial.

    uv run python bench/sim.py [--boards 16 64] [--cycles 20] [--time-scale 0.1] [--peers boardlab labgrid grabserial]
    uv run python bench/sim.py --boards 64 --ports 4 --peers boardlab labgrid

Brings up a bench with `lab virtual up sim`, and lets each peer in turn read all of its consoles while every board is
power-cycled at its own pace. What a peer says is compared with the boards' truth logs:

- a boot time ("Starting kernel" to the login prompt) with the time between the same bytes at the UART, and with the ±
  that boardlab states for it; the peers state none;
- a stamp with the time at which its marker left the UART.

grabserial stamps the first character of a marker's line, and is compared with that. The boards have the first core for
themselves, below everything that the kernel wants to do there, since real boards need no processor of the host. The
peers have the other cores and SCHED_FIFO 10 where that is permitted. `--time-scale` shortens what a board waits for besides
its UART: at 0.1 a boot takes some four seconds, and the lines are five times as busy as at 1.

`--ports` gives each board so many UARTs: on one it boots, the others are silent, and the peers read all of them.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import psutil
from attrs import define, frozen
from common import BUSY, Core, go, parser, player, prepare, print_table, share, spread, stand_aside
from stamps_peers import PEERS, Peer, Stamp, Task, truth_ns, watch
from support.virtual_bench import running_bench

from lab.host.clock import MonotonicRaw
from lab.virtual.state import BenchBoard, BenchState, expect
from lab.virtual.tasmota import PATH
from lab.virtual.truth_log import Truth, read_truth

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
LOGIN_NOTE = b" stage=login"
DWELL_S = (0.2, 1.2)  # off; drawn anew each time, so that the boards do not march in step
LINGER_S = 0.3  # on, behind the note: the prompt still has to be sent, logged and stamped
POLL_S = 0.1  # the truth is written every tenth of a second
TARGETS = (
    "targets on an idle machine: boot times in ± at least 99 %, stamps p99 at most 0.2 ms with 16 boards; "
    "console server at most 0.3 and simulation at most 1 core with 64; with 256 ports stamps p99 at most 0.1, p99.9 at most 0.5 ms, "
    "console server at most 0.5 core, memory flat"
)
HEADER = (
    *("peer", "boards", "ports", "boots", "boot time p50 ms", "p99 ms", "max ms", "in ±"),
    *("stamps", "missed", "p50 ms", "p99 ms", "p99.9 ms", "max ms", "early", "in ±"),
    *("CPU", "CPU of the boards", "memory MB", "grown MB"),
)


@frozen
class Error:
    """Of a stamp or a time: how far it is from the truth, and what the peer says that it may be."""

    ns: int
    uncertainty_ns: int | None


@frozen
class Pair:
    """A marker of one boot: when it left the UART, and the peer's stamp; None: it was missed."""

    true_ns: int
    stamp: Stamp | None


def main() -> int:
    """The program."""
    options = parser(__doc__)
    options.add_argument("--boards", type=int, nargs="+", default=[16, 64], help="how many at once")
    options.add_argument("--cycles", type=int, default=20, help="of each board, for each peer")
    options.add_argument("--ports", type=int, default=1, help="UARTs of each board, of which one is busy")
    options.add_argument("--time-scale", type=float, default=0.1)
    options.add_argument("--peers", nargs="+", choices=PEERS, default=list(PEERS))
    options.add_argument("--busy", action="store_true", help=BUSY)
    options.add_argument("--drive", type=Path, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.drive:
        asyncio.run(drive(given.drive, given.cycles))
        return 0
    core = prepare(busy=given.busy)
    rows = []
    for boards in given.boards:
        words = ("--type", "am62xx_sk", "--count", str(boards), "--time-scale", str(given.time_scale))
        with (
            tempfile.TemporaryDirectory(prefix="sim-") as folder,
            running_bench(Path(folder) / "bench", "sim", *words) as bench,
            silent_ports(boards * (given.ports - 1)) as silent,
        ):
            stand_aside(core, bench.state.pid)
            for name in given.peers:
                rows.append(measure(name, bench.folder, bench.state, given.cycles, core, silent))
                print("  ".join(rows[-1]), file=sys.stderr, flush=True)
    print_table(HEADER, rows)
    print(TARGETS)
    return 0


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


def measure(name: str, folder: Path, state: BenchState, cycles: int, core: Core, silent: Sequence[Path]) -> list[str]:
    """Let one peer read all consoles while the boards boot; its row of the table."""
    clock = MonotonicRaw()
    with tempfile.TemporaryDirectory(prefix=f"sim-{name}-") as own:
        peer = PEERS[name](Task(Path(own), MARKERS))
        begin_ns = clock.now_ns()
        try:
            peer.start([Path(next(iter(board.uarts.values()))) for board in state.boards], cycles, silent)
            before_bytes = memory_bytes(peer.pids())
            with player(core, __file__, "--drive", folder, "--cycles", str(cycles)) as hand:
                cpu = watch(peer, go(hand), state.pid)
            end_ns = clock.now_ns()
            after_bytes = memory_bytes(peer.pids())
            stamps = peer.stamps()
        finally:
            peer.stop()
    truths = [read_truth(Path(board.truth)) for board in state.boards]
    head = [peer.name, str(len(truths)), str(len(truths) + len(silent))]
    tail = [*(f"{each:.1%}" for each in cpu), *(f"{n / 1e6:.1f}" for n in (after_bytes, after_bytes - before_bytes))]
    if lost := sum(
        truth.lost for truth in truths
    ):  # in a pty that nobody read in time: boots and stamps cannot be paired
        return [*head, f"{lost} bytes lost", *["-"] * (len(HEADER) - len(head) - len(tail) - 1), *tail]
    pairs = {
        marker: [
            pair
            for found, truth in zip(stamps[: len(truths)], truths, strict=True)
            for pair in paired(found, truth, marker, peer, (begin_ns, end_ns))
        ]
        for marker in MARKERS
    }
    return [*head, *row(pairs), *tail]


def memory_bytes(pids: Sequence[int]) -> int:
    """Memory of these processes, with their share of the memory that they share (proportional set size)."""
    return sum(psutil.Process(pid).memory_full_info().pss for pid in pids)


def paired(found: Sequence[Stamp], truth: Truth, marker: str, peer: Peer, span: tuple[int, int]) -> list[Pair]:
    """Each time that a marker came, with the peer's stamp of it."""
    first = peer.first_character
    left_ns = truth_ns(truth, MARKERS[marker], first_character=first, start_ns=span[0], end_ns=span[1])
    own = [stamp for stamp in found if stamp.marker == marker]
    return [Pair(t_ns, nearest(own, t_ns)) for t_ns in left_ns]


def nearest(stamps: Sequence[Stamp], true_ns: int) -> Stamp | None:
    """The stamp of what left the UART then; none where the nearest is of another boot."""
    found = min(stamps, key=lambda stamp: abs(stamp.t_ns - true_ns), default=None)
    return found if found is not None and abs(found.t_ns - true_ns) < LATEST_NS else None


def row(pairs: dict[str, list[Pair]]) -> list[str]:
    """The cells of a peer's boot times and stamps."""
    boots = list(zip(pairs[START], pairs[END], strict=True))
    times = [error for start, end in boots if (error := boot_error(start, end)) is not None]
    stamps = [pair for marker in pairs.values() for pair in marker]
    errors = [Error(pair.stamp.t_ns - pair.true_ns, pair.stamp.uncertainty_ns) for pair in stamps if pair.stamp]
    return [
        *(str(len(boots)), *spread([abs(e.ns) / 1e6 for e in times], [50, 99]), within(times)),
        *(str(len(stamps)), str(len(stamps) - len(errors)), *spread([e.ns / 1e6 for e in errors], [50, 99, 99.9])),
        *(str(sum(error.ns < 0 for error in errors)), within(errors)),
    ]


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
    return share(sum(abs(error.ns) <= (error.uncertainty_ns or 0) for error in errors), len(errors))


@define
class Driver:
    """The hand on a board's power switch.

    A boot has ended when the board's own truth log says so, since a peer that is measured tells nothing while it runs.
    """

    switch: str
    board: BenchBoard
    dice: random.Random

    async def cycle(self, times: int) -> None:
        """Boot it so many times."""
        truth = Path(self.board.truth)
        for _ in range(times):
            await self._switch("Off")
            await asyncio.sleep(self.dice.uniform(*DWELL_S))
            start = truth.stat().st_size
            await self._switch("On")
            seen = b""
            while LOGIN_NOTE not in seen:
                await asyncio.sleep(POLL_S)
                with truth.open("rb") as file:
                    file.seek(start)
                    more = file.read()
                start += len(more)
                seen = seen[-len(LOGIN_NOTE) :] + more
            await asyncio.sleep(LINGER_S)
        await self._switch("Off")

    async def _switch(self, state: str) -> None:
        host, _, port = self.switch.partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        command = quote(f"Power{self.board.outlet} {state}")
        writer.write(f"GET {PATH}?cmnd={command} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        answer = await reader.read()
        writer.close()
        assert b" 200 " in answer.split(b"\r\n", 1)[0], answer


async def drive(folder: Path, cycles: int) -> None:
    """Boot every board of a bench again and again, each in its own rhythm: a process of its own, as a hand is."""
    print("ready", flush=True)
    sys.stdin.readline()
    bench = expect(folder)
    dice = random.Random(1)  # noqa: S311  (pauses, not keys)
    drivers = [Driver(bench.http, board, random.Random(dice.random())) for board in bench.boards]  # noqa: S311
    await asyncio.gather(*(driver.cycle(cycles) for driver in drivers))
    print("done", flush=True)


if __name__ == "__main__":
    sys.exit(main())
