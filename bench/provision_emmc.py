"""The eMMC of the QEMU board, written by its own U-Boot: the part of bench/provision.py that needs a board."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from attrs import define, evolve, field
from provision import AIM, MIB, sha256

from lab.console.client import ConsoleClient
from lab.env.target import parts
from lab.errors import LabTransientError
from lab.host.runtime import socket_path
from lab.provision.release import Content, Image
from lab.provision.way import Target
from lab.provision.ways.command import Prompt
from lab.shown import echo, table

LOAD: Final = "tftpboot"
WRITE: Final = "nvme write"
OTHER: Final = "other commands"
COMMANDS: Final = (LOAD, WRITE, "crc32")
LAB: Final = Path(sys.executable).with_name("lab")


@contextmanager
def qemu_board(folder: Path, emmc_bytes: int) -> Iterator[Any]:
    """The strategy of a QEMU board with a network, whose eMMC has at least so many bytes: the image of its releases has 48 MiB."""
    where = folder / "bench"
    up = [LAB, "virtual", "up", "--network", "--dir", where, "--pdu-port", "0"]
    os.environ["BOARDLAB_RUNTIME"] = str(folder / "runtime")
    subprocess.run(up, check=True, stdout=subprocess.DEVNULL)
    disk = next(where.rglob("emmc.img"))
    os.truncate(disk, max(emmc_bytes, disk.stat().st_size))  # the board is off
    try:
        yield parts(str(where / "env.yaml"), "ConsoleProtocol", "console", "console")[1]
    finally:
        subprocess.run([LAB, "virtual", "down", "--dir", where], check=True, stdout=subprocess.DEVNULL)
        with suppress(LabTransientError), ConsoleClient(socket_path(folder / "runtime")) as client:
            client.stop()


@define
class Timed:
    """A prompt of U-Boot, and the seconds that each command took."""

    prompt: Prompt
    seconds: dict[str, float] = field(factory=dict)

    def run(self, cmd: str, timeout: float = 30.0) -> tuple[list[str], list[str], int]:
        began = time.monotonic()
        answer = self.prompt.run(cmd, timeout=timeout)
        what = next((name for name in COMMANDS if cmd.startswith(name)), OTHER)
        self.seconds[what] = self.seconds.get(what, 0.0) + time.monotonic() - began
        return answer


def emmc(folder: Path, mib: int, times: int) -> bool:
    image = folder / "image.wic"
    image.write_bytes(os.urandom(mib * MIB))
    content = Content(Image(source=str(image), sha256=sha256(image), size=mib * MIB))
    shares = []
    with qemu_board(folder, mib * MIB) as strategy:
        given = strategy.ways()["emmc"]
        plan = given.plan(content, Target("bench", strategy.type.name, "emmc"))
        for _ in range(times):
            timed = Timed(given.begin())
            way = evolve(given, begin=lambda timed=timed: timed)
            began = time.monotonic()
            way.write(plan, lambda _progress: None)
            total = time.monotonic() - began
            rows = {**timed.seconds, "lab provision": total}
            shares.append((timed.seconds[LOAD] + timed.seconds[WRITE]) / total)
            echo(
                *table(
                    ["what", "s", "MiB/s"], [[name, f"{s:.2f}", f"{mib / s:.1f}"] for name, s in rows.items()], "<>>"
                )
            )
            echo(f"{shares[-1]:.0%} of it is U-Boot's own {LOAD} and {WRITE} (aim: {AIM:.0%})")
        began = time.monotonic()
        verified = given.verify(plan)
        echo(f"read back and compared in {time.monotonic() - began:.1f} s: {verified.bytes == mib * MIB}")
    return max(shares) >= AIM
