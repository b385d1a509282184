"""How U-Boot writes and reads each kind of medium, as text. Offsets and counts are bytes; each medium says what they must be multiples of.

The commands for SK-AM62 are those of TI's SDK ("Flash and boot" pages): `mmc` for eMMC, `sf` for OSPI NOR, `mtd` for NAND.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Protocol

from attrs import field, frozen, validators

from lab.errors import ConfigurationError
from lab.provision.ways import ubootanswers as answers
from lab.provision.ways import ubootsizes
from lab.provision.ways.command import Command, fits, limit_s
from lab.provision.ways.ubootflash import MOST, NAME, Cfi, Mtd, SpiFlash
from lab.provision.ways.ubootsizes import BLOCK_BYTES

HARDWARE: Final = {"user": 0, "boot0": 1, "boot1": 2}


class Medium(Protocol):
    """A medium as U-Boot sees it. align: offsets and counts of writes are multiples of it. size: what asks for its size, or None."""

    @property
    def align(self) -> int: ...

    def select(self) -> list[Command]:
        """Make it the one that the following commands are for."""

    def size(self) -> Command | None:
        """What asks for its size; None: nothing does."""

    def sized(self, lines: Sequence[str]) -> int | None:
        """Bytes of it, of what that answered; None: it does not say.

        Raises:
            MediaMissingError, ConfigurationError: it is not there, or is erased in other blocks than the env says.
        """

    def before(self, offset: int, count: int, /) -> list[Command]:
        """What comes before all writes of a part, e.g. an erase."""

    def write(self, address: int, offset: int, count: int) -> list[Command]:
        """From memory at `address` to the medium at `offset`."""

    def read(self, address: int, offset: int, count: int) -> list[Command]:
        """From the medium to memory."""

    def finish(self) -> list[Command]:
        """After the last write."""


def _number(_instance: object, _attribute: object, value: int) -> None:
    fits(value, 31)


@frozen
class Blocks:
    """A block device: an eMMC or SD card (`mmc`), NVMe, virtio.

    Attributes:
        interface: "mmc", "nvme" or "virtio". number: of the device. hardware: eMMC hardware partition ("mmc" only).
    """

    interface: str = field(validator=validators.in_(("mmc", "nvme", "virtio")))
    number: int = field(validator=_number)
    hardware: str = field(default="user", validator=validators.in_(tuple(HARDWARE)))
    align: int = BLOCK_BYTES

    def select(self) -> list[Command]:
        """See `Medium`."""
        if self.interface == "mmc":
            text = f"mmc dev {self.number} {HARDWARE[self.hardware]}"
            good = rf"switch to partitions #{HARDWARE[self.hardware]}, OK|is current device"
            return [Command(text, answers.says(good, text))]
        scan = ["pci enum", "nvme scan"] if self.interface == "nvme" else ["virtio scan"]
        text = f"{self.interface} device {self.number}"
        return [
            *(Command(each, answers.done(each)) for each in scan),
            Command(text, answers.says("is now current device", text)),
        ]

    def size(self) -> Command | None:
        """See `Medium`."""
        text = f"{self.interface} info"
        return Command(text, answers.done(text))

    def sized(self, lines: Sequence[str]) -> int | None:
        """See `Medium`."""
        return ubootsizes.block_device(lines, self.number)

    def partition(self, number: int) -> list[Command]:
        """What asks where a partition begins, and how large it is (cmd/part.c)."""
        texts = [f"part {what} {self.interface} {self.number} {number:x}" for what in ("start", "size")]
        return [Command(text, answers.says(r"^\s*[0-9a-f]+\s*$", text)) for text in texts]

    def before(self, _offset: int, _count: int, /) -> list[Command]:
        """See `Medium`."""
        return []

    def write(self, address: int, offset: int, count: int) -> list[Command]:
        """See `Medium`."""
        return [self._move("write", address, offset, count)]

    def read(self, address: int, offset: int, count: int) -> list[Command]:
        """See `Medium`."""
        return [self._move("read", address, offset, count)]

    def finish(self) -> list[Command]:
        """See `Medium`: later commands find the user area again."""
        if self.hardware == "user":
            return []
        text = f"mmc dev {self.number} 0"
        return [Command(text, answers.says("OK|is current device", text))]

    def _move(self, verb: str, address: int, offset: int, count: int) -> Command:
        wanted = -(-count // BLOCK_BYTES)
        text = f"{self.interface} {verb} {fits(address, MOST):#x} {fits(offset // BLOCK_BYTES, MOST):#x} {wanted:#x}"
        return Command(text, answers.blocks(wanted, text, offset // BLOCK_BYTES), limit_s(count))


def parse(text: str, *, erase_bytes: int = 128 * 1024) -> Medium:
    """A medium as environments name it: "mmc 0", "nvme 0", "virtio 0", "sf", "sf 0:0", "mtd NAME", "cfi 0x4000000".

    Raises:
        ConfigurationError: it is none of these.
    """
    match text.split():
        case ["mmc" | "nvme" | "virtio" as interface, number] if number.isdigit() and int(number) < 32:
            return Blocks(interface, int(number))
        case ["sf"]:
            return SpiFlash()
        case ["sf", device] if re.fullmatch(r"\d+(:\d+)?", device):
            return SpiFlash(device)
        case ["mtd", name] if NAME.fullmatch(name):
            return Mtd(name, erase_bytes)
        case ["cfi", base] if re.fullmatch(r"0x[0-9a-fA-F]+", base):
            return Cfi(int(base, 16), erase_bytes)
    raise ConfigurationError(
        f'{text!r:.60} names no medium of U-Boot; expected e.g. "mmc 0", "nvme 0", "virtio 0", "sf", "mtd ospi.rootfs" or "cfi 0x4000000"'
    )
