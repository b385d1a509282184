"""Lateness of console stamps, beside labgrid's and grabserial's.

    uv run python bench/stamps.py [--consoles 1 16] [--boots 500] [--peers boardlab labgrid grabserial]

A process of its own plays boots at the full speed of 115200 Bd through the virtual boards' UART adapters (FIFO of 16
bytes, adapter latency 0) and logs when each byte left the UART. The error of a stamp is the peer's time of a marker
less that truth. Each boot has nine markers. `--boots` is the number for all consoles together: 500 boots take 7
minutes on one console and half a minute on 16. The line has the first core for itself; the peers, and this program,
have the others.

The console server stamps reads and puts moments back by the bytes behind the marker; labgrid is stamped when `expect`
returns; grabserial stamps the first character of a marker's line, and is compared with that one. All peers run with the
same priority, SCHED_FIFO 10 where that is permitted.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from attrs import frozen
from common import BUSY, Core, go, parser, player, prepare, print_table, spread
from stamps_peers import PEERS, Peer, Stamp, Task, truth_ns, watch

from lab.host.clock import MonotonicRaw
from lab.virtual.truth_log import Truth, TruthLog, read_truth
from lab.virtual.uart import Pacer, UartAdapter

SPEED_BD = 115200
FIFO_BYTES = 16
PAUSE_S = (0.02, 0.08)  # between two boots: a prompt is followed by silence

# Each comes once a boot. The prompt ends no line.
MARKERS = {
    "spl": r"U-Boot SPL 20\d\d\.\d\d",
    "tfa": r"NOTICE:  BL31: v",
    "uboot": r"(?<!SPL )U-Boot 20\d\d\.\d\d",
    "autoboot": r"Hit any key to stop autoboot",
    "starting_kernel": r"Starting kernel \.\.\.",
    "first_printk": r"\[ +0\.000000\] Booting Linux",
    "mid_kernel": r"device 60 is ready",
    "init": r"Run /init as init process",
    "login": r"bench login: ",
}
TARGETS_MS = "targets of the console server on an idle machine: p50 0.05, p99 0.2, p99.9 1"


@frozen
class Result:
    """What one peer did with one number of consoles.

    Attributes:
        errors_ms: stamp less truth, of every marker that was stamped.
        missed: markers without a stamp.
        cpu: of the reading processes, share of one core.
        early: stamps before the truth. covered: share of errors within the stated ±; None where there is none.
    """

    peer: str
    consoles: int
    errors_ms: list[float]
    missed: int
    cpu: float
    early: int
    covered: float | None

    def row(self) -> list[str]:
        """The result as cells of the table."""
        within = "-" if self.covered is None else f"{self.covered:.2%}"
        counts = [str(self.consoles), str(len(self.errors_ms)), str(self.missed)]
        times = spread(self.errors_ms, [50, 99, 99.9])
        return [self.peer, *counts, *times, str(self.early), within, f"{self.cpu:.1%}"]


HEADER = ["peer", "consoles", "markers", "missed", "p50 ms", "p99 ms", "p99.9 ms", "max ms", "early", "in ±", "CPU"]


def main() -> int:
    """The program."""
    options = parser(__doc__)
    options.add_argument("--consoles", type=int, nargs="+", default=[1, 16], help="how many stream at once")
    options.add_argument("--boots", type=int, default=500, help="for all consoles together")
    options.add_argument("--peers", nargs="+", choices=PEERS, default=list(PEERS))
    options.add_argument("--busy", action="store_true", help=BUSY)
    options.add_argument("--play", type=Path, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.play:
        asyncio.run(line(given.play, given.consoles[0], given.boots))
        return 0
    core = prepare(busy=given.busy)
    rows = []
    for consoles in given.consoles:
        for peer in given.peers:
            result = measure(peer, consoles, -(-given.boots // consoles), core)
            rows.append(result.row())
            print("  ".join(rows[-1]), file=sys.stderr, flush=True)
    print_table(HEADER, rows)
    print(TARGETS_MS)
    return 0


def measure(name: str, consoles: int, boots: int, core: Core) -> Result:
    """Play `boots` boots on each of `consoles` consoles to one peer; the line runs on `core`."""
    with tempfile.TemporaryDirectory(prefix="stamps-") as made:
        folder = Path(made)
        peer = PEERS[name](Task(folder, MARKERS, FIFO_BYTES))
        try:
            with player(core, *line_words(folder, consoles, boots)) as playing:
                peer.start([folder / f"uart{number}" for number in range(consoles)], boots)
                cpu = watch(peer, go(playing))[0]
                stamps = peer.stamps()
            return compare(peer, stamps, truths(folder, consoles), cpu)
        finally:
            peer.stop()


def line_words(folder: Path, consoles: int, boots: int) -> list[str | Path]:
    """The command of the line."""
    return [__file__, "--play", folder, "--consoles", str(consoles), "--boots", str(boots)]


def truths(folder: Path, consoles: int) -> list[Truth]:
    """The line's own times of its bytes, by console."""
    return [read_truth(folder / f"truth{number}.log") for number in range(consoles)]


def compare(peer: Peer, stamps: Sequence[Sequence[Stamp]], truths: Sequence[Truth], cpu: float) -> Result:
    errors_ns: list[int] = []
    covered: list[bool] = []
    missed = 0
    for found, truth in zip(stamps, truths, strict=True):
        assert truth.lost == 0, f"{truth.lost} bytes were lost in the pty: nobody read it in time"
        for name, pattern in MARKERS.items():
            left_ns = truth_ns(truth, pattern, first_character=peer.first_character)
            own = [stamp for stamp in found if stamp.marker == name]
            missed += len(left_ns) - len(own)
            for stamp, true_ns in zip(own, left_ns, strict=False):
                errors_ns.append(stamp.t_ns - true_ns)
                if stamp.uncertainty_ns is not None:
                    covered.append(0 <= stamp.t_ns - true_ns <= stamp.uncertainty_ns)
    return Result(
        peer=peer.name,
        consoles=len(truths),
        errors_ms=[error / 1e6 for error in errors_ns],
        missed=missed,
        cpu=cpu,
        early=sum(error < 0 for error in errors_ns),
        covered=sum(covered) / len(covered) if covered else None,
    )


def boot_text() -> bytes:
    """A boot of about 8 kB: banners, a countdown, a kernel log, a prompt."""
    kernel = b"".join(
        b"[%5d.%06d] platform 2800000.serial: device %d is ready, version %d\r\n" % (n // 40, n * 25_000 % 10**6, n, n)
        for n in range(1, 110)
    )
    return (
        b"\r\nU-Boot SPL 2023.01 (Jan 09 2023 - 16:07:33 +0000)\r\nTrying to boot from MMC2\r\n"
        b"NOTICE:  BL31: v2.7(release):v2.7.0\r\nNOTICE:  BL31: Built : 11:48:12, Dec 14 2022\r\n"
        b"\r\n\nU-Boot 2023.01 (Jan 09 2023 - 16:07:33 +0000)\r\n\r\nDRAM:  512 MiB\r\nNet:   eth0: ethernet@8000000\r\n"
        b"Hit any key to stop autoboot:  1 \x08\x08\x08 0 \r\n28311552 bytes read in 12 ms (2.2 GiB/s)\r\n"
        b"\r\nStarting kernel ...\r\n\r\n"
        b"[    0.000000] Booting Linux on physical CPU 0x0000000000 [0x410fd034]\r\n"
        + kernel
        + b"[    2.801000] Run /init as init process\r\n\r\nbench login: "
    )


async def play(adapter: UartAdapter, boots: int, dice: random.Random) -> None:
    """Play the boots one after the other, at full speed."""
    sent = asyncio.Event()
    text = boot_text()

    def when_idle() -> None:
        if not adapter.queued:
            sent.set()

    adapter.room_hook = when_idle
    for _ in range(boots):
        await asyncio.sleep(dice.uniform(*PAUSE_S))
        sent.clear()
        adapter.transmit(text)
        await sent.wait()


async def line(folder: Path, consoles: int, boots: int) -> None:
    """Virtual UART adapters that play boots at full speed and log the truth: a process that takes the place of hardware."""
    pacer = Pacer(MonotonicRaw(), asyncio.get_running_loop())
    adapters = [
        UartAdapter(
            folder / f"uart{number}",
            pacer,
            TruthLog(folder / f"truth{number}.log", SPEED_BD),
            speed_bd=SPEED_BD,
            fifo_bytes=FIFO_BYTES,
        )
        for number in range(consoles)
    ]
    print("ready", flush=True)
    sys.stdin.readline()
    dice = random.Random(1)  # noqa: S311  (pauses, not keys)
    await asyncio.gather(*(play(adapter, boots, dice) for adapter in adapters))
    print("done", flush=True)
    sys.stdin.read()
    for adapter in adapters:
        adapter.close()


if __name__ == "__main__":
    sys.exit(main())
