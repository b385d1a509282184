"""The line of bench/stamps.py: virtual UART adapters that play boots at the full speed of 115200 Bd, and log the truth.

A process of its own. It takes the place of hardware, which needs no processor of the host: whoever starts it gives it a core
for itself, where it makes way at once for everything that the kernel wants to do there. It makes the ptys, prints "ready", plays
when it gets a line on stdin, prints "done", and unplugs at the end of stdin.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
from pathlib import Path

from lab.host.clock import MonotonicRaw
from lab.virtual.truth import TruthLog
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


async def main() -> None:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--consoles", type=int, required=True)
    parser.add_argument("--boots", type=int, required=True)
    options = parser.parse_args()
    pacer = Pacer(MonotonicRaw(), asyncio.get_running_loop())
    adapters = [
        UartAdapter(
            options.folder / f"uart{number}",
            pacer,
            TruthLog(options.folder / f"truth{number}.log", SPEED_BD),
            speed_bd=SPEED_BD,
            fifo_bytes=FIFO_BYTES,
        )
        for number in range(options.consoles)
    ]
    print("ready", flush=True)
    sys.stdin.readline()
    dice = random.Random(1)  # noqa: S311  (pauses, not keys)
    await asyncio.gather(*(play(adapter, options.boots, dice) for adapter in adapters))
    print("done", flush=True)
    sys.stdin.read()
    for adapter in adapters:
        adapter.close()


if __name__ == "__main__":
    asyncio.run(main())
