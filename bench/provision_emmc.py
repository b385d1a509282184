"""Provisioning the eMMC of the QEMU board by its U-Boot or Linux, for provision.py."""

from __future__ import annotations

import hashlib
import os
import statistics
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from attrs import define, evolve, field
from common import LAB, print_table
from support.virtual_bench import running_bench

from lab.env.power_state import parts
from lab.provision.release import Content, Image
from lab.provision.writer import WriteTarget
from lab.provision.writers.command import CommandPrompt
from lab.terminal import echo

MIB: Final = 1 << 20
LOAD: Final = "tftpboot"
WRITE: Final = "nvme write"
OTHER: Final = "other commands"
STREAM: Final = "{ wget"  # of Linux: fetch and write
FLUSH: Final = "dd if=/dev/null"
COMMANDS: Final = (LOAD, WRITE, "crc32", STREAM, FLUSH)
DEVICE: Final = "/dev/nvme0n1"
LIMIT_S: Final = 1200.0
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
    os.environ["BOARDLAB_RUNTIME"] = str(folder / "runtime")
    with running_bench(folder / "bench", "--network") as bench:
        disk = next(bench.folder.rglob("emmc.img"))
        os.truncate(disk, max(emmc_bytes, disk.stat().st_size))  # the board is off
        env = bench.folder / "env.yaml"
        text = env.read_text(encoding="utf-8")
        assert BEFORE in text
        env.write_text(text.replace(BEFORE, driver + BEFORE, 1), encoding="utf-8")
        try:
            yield parts(str(env), "ConsoleProtocol", "console", "console")[1]
        finally:
            subprocess.run([LAB, "console", "stop"], check=False, stdout=subprocess.DEVNULL)


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


def written(folder: Path, mib: int) -> tuple[Path, Content]:
    """An image of random bytes."""
    image, data = folder / "image.wic", os.urandom(mib * MIB)
    image.write_bytes(data)
    return image, Content(Image(source=str(image), sha256=hashlib.sha256(data).hexdigest(), size=mib * MIB))


def timed_write(writer: Any, plan: Any, prompt: Any) -> tuple[dict[str, float], float]:
    """Write; the seconds of each command, and of all."""
    timed = Timed(prompt)
    began = time.monotonic()
    evolve(writer, begin=lambda: timed).write(plan, lambda _progress: None)
    return timed.seconds, time.monotonic() - began


def report(seconds: dict[str, float], mib: int) -> None:
    """Print a table."""
    print_table(("what", "s", "MiB/s"), [[name, f"{s:.2f}", f"{mib / s:.1f}"] for name, s in seconds.items()])


def verify(writer: Any, plan: Any, mib: int) -> None:
    """Read back."""
    began = time.monotonic()
    verified = writer.verify(plan)
    echo(f"read back and compared in {time.monotonic() - began:.1f} s: {verified.bytes == mib * MIB}")


def emmc(folder: Path, mib: int, times: int, aim: float) -> bool:
    """Write by U-Boot; whether its own commands take enough of the time."""
    _, content = written(folder, mib)
    shares = []
    with qemu_board(folder, mib * MIB) as strategy:
        writer = strategy.writers()["emmc"]
        plan = writer.plan(content, WriteTarget("bench", strategy.type.name, "emmc"))
        for _ in range(times):
            seconds, total_s = timed_write(writer, plan, writer.begin())
            shares.append((seconds[LOAD] + seconds[WRITE]) / total_s)
            report({**seconds, "lab provision": total_s}, mib)
            echo(f"{shares[-1]:.0%} of it is U-Boot's own {LOAD} and {WRITE} (aim: {aim:.0%})")
        verify(writer, plan, mib)
    return max(shares) >= aim


def linux(folder: Path, mib: int, times: int, aim: float) -> bool:
    """Return whether Linux' writer reaches the aim against `wget | dd`."""
    image, content = written(folder, mib)
    shares = []
    with qemu_board(folder, mib * MIB, FROM_LINUX) as strategy:
        writer = strategy.writers()["emmc"]
        plan = writer.plan(content, WriteTarget("bench", strategy.type.name, "emmc"))
        prompt = writer.begin()
        with writer.carrier.server.offer_file("alone", image) as url:
            for _ in range(times):
                began = time.monotonic()
                alone = f"wget -q -O - {url} | dd of={DEVICE} bs=1M conv=notrunc,fsync"
                _, _, status = prompt.run(alone, timeout=LIMIT_S)
                alone_s = time.monotonic() - began
                assert status == 0
                seconds, ours_s = timed_write(writer, plan, prompt)
                shares.append(alone_s / ours_s)
                report({"wget | dd": alone_s, **seconds, "lab provision": ours_s}, mib)
                echo(f"{shares[-1]:.0%} of wget | dd (aim: {aim:.0%})")
        verify(writer, plan, mib)
    echo(f"median {statistics.median(shares):.0%}")
    return statistics.median(shares) >= aim
