"""Boot of a board with blank media over its console.

    ROM  "CCC"  <── XMODEM   tiboot3.bin       (TI: AM62x TRM, "UART boot"; U-Boot: doc/board/ti/k3.rst)
    SPL  "CCC"  <── YMODEM   tispl.bin
    SPL  "CCC"  <── YMODEM   u-boot.img

Nothing is written to any medium.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from attrs import frozen

from lab.errors import ConfigurationError
from lab.provision.image import read_whole
from lab.provision.release import Recovery
from lab.provision.writer import Report, WriteProgress
from lab.provision.ymodem import Sending, YmodemLine

ROM_ASKS_S: Final = 20.0  # after power on; it looks at its other boot devices first
MOST_BYTES: Final = 64 * 1024 * 1024  # of a stage; at the console's speed these would take hours
STAGE_ASKS_S: Final = 30.0  # SPL sets up the memory before it asks


@frozen
class RomImage:
    """A stage in memory: some hundred KiB, at most a few MiB."""

    name: str
    data: bytes


def stages(recovery: Recovery) -> list[RomImage]:
    """Read and check the stages for UART, in their order.

    Raises:
        ConfigurationError: the release has none.
        BoardlabError: one cannot be read (see `lab.provision.image.read_whole`).
    """
    if not recovery.uart:
        raise ConfigurationError(
            "the release has no `recovery: uart:` stages: add tiboot3.bin, tispl.bin and u-boot.img of a build that boots over UART"
        )
    return [RomImage(stage.name, read_whole(stage, MOST_BYTES)) for stage in recovery.uart]


def send(line: YmodemLine, images: Sequence[RomImage], report: Report) -> None:
    """Send the stages to a board in UART boot mode.

    It has just got its power; its U-Boot starts at the end.

    Raises:
        RecoveryFailedError, WriteStalledError: see `lab.provision.ymodem`. A power cycle begins anew, whatever was
            sent.
    """
    total, before, begun_ns = sum(len(image.data) for image in images), 0, line.now_ns()
    for number, image in enumerate(images):
        done_before = before

        def sent(count: int, name: str = image.name, done: int = done_before) -> None:
            report(WriteProgress(name, done + count, total, line.now_ns() - begun_ns))

        sending = Sending(line, image.data, image.name, batch=number > 0)
        sending.send(STAGE_ASKS_S if number else ROM_ASKS_S, sent)
        before += len(image.data)
