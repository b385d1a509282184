"""The eMMC of the QEMU board, written by its own U-Boot: the part of bench/provision.py that needs a board."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from provision import AIM, MIB, fastest, sha256

from lab.console.client import ConsoleClient
from lab.env.target import parts
from lab.errors import LabTransientError
from lab.host.runtime import socket_path
from lab.provision.release import Content, Image
from lab.provision.way import Target
from lab.provision.ways import planning
from lab.provision.ways.ubootsession import Session
from lab.shown import echo, table

LAB: Final = Path(sys.executable).with_name("lab")


@contextmanager
def qemu_board(folder: Path) -> Iterator[Any]:
    """The strategy of a QEMU board with a network."""
    where = folder / "bench"
    up = [LAB, "virtual", "up", "--network", "--dir", where, "--pdu-port", "0"]
    os.environ["BOARDLAB_RUNTIME"] = str(folder / "runtime")
    subprocess.run(up, check=True, stdout=subprocess.DEVNULL)
    try:
        yield parts(str(where / "env.yaml"), "ConsoleProtocol", "console", "console")[1]
    finally:
        subprocess.run([LAB, "virtual", "down", "--dir", where], check=True, stdout=subprocess.DEVNULL)
        with suppress(LabTransientError), ConsoleClient(socket_path(folder / "runtime")) as client:
            client.stop()


def emmc(folder: Path, mib: int, times: int) -> bool:
    image = folder / "image.wic"
    image.write_bytes(os.urandom(mib * MIB))
    content = Content(Image(source=str(image), sha256=sha256(image), size=mib * MIB))
    with qemu_board(folder) as strategy:
        way = strategy.ways()["emmc"]
        plan = way.plan(content, Target("bench", strategy.type.name, "emmc"))
        session = Session.begin(way.begin())
        way.loader.prepare(session.prompt)
        pieces = list(planning.pieces(plan.steps, session.most(way.medium.align)))

        def load() -> None:
            for piece in pieces:
                way.loader.load(session.prompt, session.address, piece.data, "piece")

        def write() -> None:
            for piece in pieces:
                session.run(way.medium.write(session.address, piece.offset, len(piece.data)))

        def digest(*, quick: bool) -> None:  # of the last piece, which is in memory, for each
            for _ in pieces:
                session.compare(pieces[-1].data, "piece", quick=quick)

        def alone() -> None:
            for piece in pieces:
                way.loader.load(session.prompt, session.address, piece.data, "piece")
                session.run(way.medium.write(session.address, piece.offset, len(piece.data)))

        works: dict[str, Callable[[], None]] = {
            "tftpboot": load,
            "crc32": lambda: digest(quick=True),
            "sha256": lambda: digest(quick=False),
            "nvme write": write,
            "both alone": alone,
            "lab provision": lambda: way.write(plan, lambda _progress: None),
        }
        seconds = fastest(works, times)
        began = time.monotonic()
        verified = way.verify(plan)
        seconds["read back and compared"] = time.monotonic() - began
    share = seconds["both alone"] / seconds["lab provision"]
    rows = [[name, f"{each:.2f}", f"{mib / each:.1f}"] for name, each in seconds.items()]
    echo(*table(["what", "s", "MiB/s"], rows, "<>>"))
    echo(
        f"{share:.0%} of the rate of U-Boot's own commands (aim: {AIM:.0%}); read back: {verified.bytes == mib * MIB}"
    )
    return share >= AIM
