"""The eMMC of the QEMU board, written by its own U-Boot or its own Linux: the part of bench/provision.py that needs a board."""

from __future__ import annotations

import hashlib
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from attrs import define, evolve, field

from lab.console.client import ConsoleClient
from lab.env.power_state import parts
from lab.errors import LabTransientError
from lab.host.runtime import socket_path
from lab.provision.release import Content, Image
from lab.provision.writer import WriteTarget
from lab.provision.writers.command import CommandPrompt
from lab.shown import echo, table

MIB: Final = 1 << 20
LOAD: Final = "tftpboot"
WRITE: Final = "nvme write"
OTHER: Final = "other commands"
STREAM: Final = "{ wget"  # of Linux: fetch and write
FLUSH: Final = "dd if=/dev/null"
COMMANDS: Final = (LOAD, WRITE, "crc32", STREAM, FLUSH)
DEVICE: Final = "/dev/nvme0n1"
LIMIT_S: Final = 1200.0
LAB: Final = Path(sys.executable).with_name("lab")


BEFORE: Final = (
    "      - VirtualSDMuxDriver"  # of the board's environment; the first driver that offers a medium writes it
)
FROM_LINUX: Final = f"""\
      - LinuxWriterDriver:
          media: {{emmc: {DEVICE}}}
          boot_from: sd
          server: 10.0.2.2
          port: 0
          prepare: /etc/init.d/network
"""


@contextmanager
def qemu_board(folder: Path, emmc_bytes: int, driver: str = "") -> Iterator[Any]:
    """The strategy of a QEMU board with a network, whose eMMC has at least so many bytes: the image of its releases has 48 MiB.

    Args:
        driver: of the environment, before those that it has.
    """
    where = folder / "bench"
    up = [LAB, "virtual", "up", "--network", "--dir", where, "--pdu-port", "0"]
    os.environ["BOARDLAB_RUNTIME"] = str(folder / "runtime")
    subprocess.run(up, check=True, stdout=subprocess.DEVNULL)
    disk = next(where.rglob("emmc.img"))
    os.truncate(disk, max(emmc_bytes, disk.stat().st_size))  # the board is off
    env = where / "env.yaml"
    text = env.read_text(encoding="utf-8")
    assert BEFORE in text
    env.write_text(text.replace(BEFORE, driver + BEFORE, 1), encoding="utf-8")
    try:
        yield parts(str(env), "ConsoleProtocol", "console", "console")[1]
    finally:
        subprocess.run([LAB, "virtual", "down", "--dir", where], check=True, stdout=subprocess.DEVNULL)
        with suppress(LabTransientError), ConsoleClient(socket_path(folder / "runtime")) as client:
            client.stop()


@define
class Timed:
    """A prompt of U-Boot or Linux, and the seconds that each command took."""

    prompt: CommandPrompt
    seconds: dict[str, float] = field(factory=dict)

    def run(self, cmd: str, timeout: float = 30.0) -> tuple[list[str], list[str], int]:
        began = time.monotonic()
        answer = self.prompt.run(cmd, timeout=timeout)
        what = next((name for name in COMMANDS if cmd.startswith(name)), OTHER)
        self.seconds[what] = self.seconds.get(what, 0.0) + time.monotonic() - began
        return answer


def emmc(folder: Path, mib: int, times: int, aim: float) -> bool:
    image = folder / "image.wic"
    data = os.urandom(mib * MIB)
    image.write_bytes(data)
    content = Content(Image(source=str(image), sha256=hashlib.sha256(data).hexdigest(), size=mib * MIB))
    shares = []
    with qemu_board(folder, mib * MIB) as strategy:
        given = strategy.writers()["emmc"]
        plan = given.plan(content, WriteTarget("bench", strategy.type.name, "emmc"))
        for _ in range(times):
            timed = Timed(given.begin())
            writer = evolve(given, begin=lambda timed=timed: timed)
            began = time.monotonic()
            writer.write(plan, lambda _progress: None)
            total = time.monotonic() - began
            rows = {**timed.seconds, "lab provision": total}
            shares.append((timed.seconds[LOAD] + timed.seconds[WRITE]) / total)
            echo(
                *table(
                    ["what", "s", "MiB/s"], [[name, f"{s:.2f}", f"{mib / s:.1f}"] for name, s in rows.items()], "<>>"
                )
            )
            echo(f"{shares[-1]:.0%} of it is U-Boot's own {LOAD} and {WRITE} (aim: {aim:.0%})")
        began = time.monotonic()
        verified = given.verify(plan)
        echo(f"read back and compared in {time.monotonic() - began:.1f} s: {verified.bytes == mib * MIB}")
    return max(shares) >= aim


def linux(folder: Path, mib: int, times: int, aim: float) -> bool:
    image = folder / "image.wic"
    data = os.urandom(mib * MIB)
    image.write_bytes(data)
    content = Content(Image(source=str(image), sha256=hashlib.sha256(data).hexdigest(), size=mib * MIB))
    shares = []
    with qemu_board(folder, mib * MIB, FROM_LINUX) as strategy:
        writer = strategy.writers()["emmc"]
        plan = writer.plan(content, WriteTarget("bench", strategy.type.name, "emmc"))
        prompt = writer.begin()
        with writer.carrier.server.offered_file("alone", image) as url:
            for _ in range(times):
                began = time.monotonic()
                _, _, status = prompt.run(
                    f"wget -q -O - {url} | dd of={DEVICE} bs=1M conv=notrunc,fsync", timeout=LIMIT_S
                )
                alone = time.monotonic() - began
                assert status == 0
                timed = Timed(prompt)
                began = time.monotonic()
                evolve(writer, begin=lambda timed=timed: timed).write(plan, lambda _progress: None)
                ours = time.monotonic() - began
                shares.append(alone / ours)
                rows = {"wget | dd": alone, **timed.seconds, "lab provision": ours}
                echo(
                    *table(
                        ["what", "s", "MiB/s"],
                        [[name, f"{s:.2f}", f"{mib / s:.1f}"] for name, s in rows.items()],
                        "<>>",
                    )
                )
                share = (timed.seconds[STREAM] + timed.seconds[FLUSH]) / ours
                echo(f"{shares[-1]:.0%} of wget | dd (aim: {aim:.0%}); {share:.0%} of the write is its own wget | dd")
        began = time.monotonic()
        verified = writer.verify(plan)
        echo(f"read back and compared in {time.monotonic() - began:.1f} s: {verified.bytes == mib * MIB}")
    used_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    echo(f"median {statistics.median(shares):.0%}; at most {used_mib:.0f} MiB of memory")
    return statistics.median(shares) >= aim
