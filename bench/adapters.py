"""What the virtual serial adapters cost: their share of a core when all of them send at full speed.

    uv run python bench/adapters.py [--adapters 1 16 64] [--fifo 16 62] [--seconds 10]

This process paces the adapters; a child reads the ptys. "rate" is what came through, of what the lines could carry: less
than 100 % means that the pacing fell behind, and that the lines slipped.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import select
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from stamps_compare import print_table
from stamps_line import boot_text

from lab.host.clock import MonotonicRaw
from lab.virtual.line import BITS_PER_BYTE
from lab.virtual.truth import TruthLog
from lab.virtual.uart import Pacer, UartAdapter

SPEED_BD = 115200
HEADER = ("adapters", "FIFO", "deliveries per s", "CPU", "rate")


async def measure(adapters: int, fifo_bytes: int, seconds: float) -> list[str]:
    """A row of the table."""
    with tempfile.TemporaryDirectory(prefix="adapters-") as name:
        folder = Path(name)
        pacer = Pacer(MonotonicRaw(), asyncio.get_running_loop())
        made = [
            UartAdapter(folder / f"uart{n}", pacer, TruthLog(folder / f"{n}.log", SPEED_BD), fifo_bytes=fifo_bytes)
            for n in range(adapters)
        ]
        reader = subprocess.Popen([sys.executable, __file__, "--read", *(str(adapter.path) for adapter in made)])
        await asyncio.sleep(1.0)
        text = boot_text() * round(SPEED_BD / BITS_PER_BYTE * seconds * 2 / len(boot_text()))
        for number, adapter in enumerate(made):
            adapter.transmit(text[number * 101 :])  # no two adapters deliver in step
        await asyncio.sleep(1.0)
        before, cpu_s, begin_s = sent(made, len(text)), time.process_time(), time.monotonic()
        await asyncio.sleep(seconds)
        span_s = time.monotonic() - begin_s
        cpu, count = (time.process_time() - cpu_s) / span_s, sent(made, len(text)) - before
        reader.kill()
        reader.wait()
        for adapter in made:
            adapter.close()
        pacer.close()
    possible = adapters * SPEED_BD / BITS_PER_BYTE * span_s
    row = [
        str(adapters),
        str(fifo_bytes),
        f"{count / fifo_bytes / span_s:.0f}",
        f"{cpu:.1%}",
        f"{count / possible:.1%}",
    ]
    print("  ".join(row), file=sys.stderr, flush=True)
    return row


def sent(adapters: list[UartAdapter], of: int) -> int:
    """Bytes that have been delivered by now; the adapters have the rest of their texts."""
    return sum(of - number * 101 - adapter.queued for number, adapter in enumerate(adapters))


def read_all(paths: list[str]) -> None:
    """Read and forget."""
    poll = select.epoll()
    for path in paths:
        poll.register(os.open(path, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK), select.EPOLLIN)
    while True:
        for fd, _ in poll.poll():
            with contextlib.suppress(BlockingIOError):
                os.read(fd, 4096)


def main() -> int:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--adapters", type=int, nargs="+", default=[1, 16, 64])
    parser.add_argument("--fifo", type=int, nargs="+", default=[16, 62])
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--read", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.read:
        read_all(options.read)
    with contextlib.suppress(PermissionError):  # as the virtual bench does
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(1))
    rows = [
        asyncio.run(measure(adapters, fifo, options.seconds)) for adapters in options.adapters for fifo in options.fifo
    ]
    print_table(HEADER, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
