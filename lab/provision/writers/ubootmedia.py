"""Media as U-Boot writes and reads them, as command texts.

Offsets and counts are bytes, multiples of the medium's `align`.

The commands for SK-AM62 are those of TI's SDK ("Flash and boot" pages): `mmc` for eMMC, `sf` for OSPI NOR, `mtd` for
NAND.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Protocol

from attrs import field, frozen, validators

from lab.errors import ConfigurationError
from lab.provision.errors import MediaMissingError
from lab.provision.writers import ubootanswers as answers
from lab.provision.writers.command import Command, fits, limit_s, quote

# The texts: U-Boot's lib/display_options.c (print_size), cmd/mmc.c, cmd/nvme.c, drivers/mtd/spi/spi-nor-core.c,
# cmd/mtd.c, drivers/mtd/cfi_flash.c and cmd/ubi.c of v2023.01 to v2025.01.


BLOCK_BYTES: Final = 512
MOST: Final = (1 << 48) - 1
NAME: Final = re.compile(r"[\w.+-]+")
_EXACT: Final = re.compile(r"Capacity: .*\((\d+) x (\d+)\)")
_DEVICE: Final = re.compile(r"^\s*Device (\d+): ", re.MULTILINE)
_ROUNDED: Final = re.compile(r"^Capacity: (\d+(?:\.\d)?) (KiB|MiB|GiB|TiB)", re.MULTILINE)
_SPI: Final = re.compile(r"total (\d+(?:\.\d)?) (Bytes|KiB|MiB|GiB)")
_BANK: Final = re.compile(r"Size: (\d+) (kB|MB) in (\d+) Sectors(.*?)(?=Bank #|\Z)", re.DOTALL)
_SECTOR: Final = re.compile(r"^ +([0-9A-F]{8,16}) ", re.MULTILINE)
_MTD_DEVICE: Final = re.compile(r"^\* ", re.MULTILINE)
_MTD_BLOCK: Final = re.compile(r"block size: (0x[0-9a-f]+) bytes")
_UBI_VOLUME: Final = re.compile(r"reserved_pebs\s+(\d+).*?usable_leb_size\s+(\d+).*?\bname\s+(\S+)", re.DOTALL)
_UNITS: Final = {
    "Bytes": 1,
    "KiB": 1 << 10,
    "kB": 1 << 10,
    "MiB": 1 << 20,
    "MB": 1 << 20,
    "GiB": 1 << 30,
    "TiB": 1 << 40,
}


def block_device(lines: Sequence[str], number: int = 0) -> int | None:
    """Bytes of a block device; None: the answer lacks them.

    The answer is that of `nvme info`, `virtio info` or `mmc info`.

    The first two list all devices. `mmc info` rounds to a tenth of its unit; this is the upper limit, and only a read
    tells the rest.

    Raises:
        ConfigurationError: its blocks are not of 512 bytes: U-Boot counts in the device's own (drivers/nvme,
            drivers/virtio).
    """
    text = "\n".join(lines)
    _, *listed = _DEVICE.split(text)
    text = dict(zip(listed[::2], listed[1::2], strict=True)).get(str(number), text)
    if exact := _EXACT.search(text):
        if int(exact[2]) != BLOCK_BYTES:
            raise ConfigurationError(
                f"device {number}: its blocks have {exact[2]} bytes, and only media with blocks of {BLOCK_BYTES} "
                "bytes are written from U-Boot: write it from Linux, by the env"
            )
        return int(exact[1]) * BLOCK_BYTES
    rounded = _ROUNDED.search(text)
    return round((float(rounded[1]) + 0.05) * _UNITS[rounded[2]]) if rounded else None


def spi_flash(lines: Sequence[str]) -> int | None:
    """Bytes of a flash, of `sf probe`; None: it does not say."""
    size = _SPI.search("\n".join(lines))
    return round(float(size[1]) * _UNITS[size[2]]) if size else None


def mtd(lines: Sequence[str], name: str, erase_bytes: int) -> int | None:
    """Bytes of an MTD or its part, from `mtd list`.

    None: the answer lacks them.

    Raises:
        MediaMissingError: it is not in the list.
        ConfigurationError: it is erased in blocks that `erase_bytes` is no multiple of.
    """
    for device in _MTD_DEVICE.split("\n".join(lines))[1:]:
        span = re.search(rf'- (0x[0-9a-f]+)-(0x[0-9a-f]+) : "{re.escape(name)}"', device)
        if span is None and device.split("\n", 1)[0].strip() != name:
            continue
        if block := _MTD_BLOCK.search(device):
            _check_erased(name, int(block[1], 16), erase_bytes)
        return int(span[2], 16) - int(span[1], 16) if span else None
    raise MediaMissingError(
        f"MTD {name}: this U-Boot has no such device or part: {quote(lines)}. Mend the "
        "release file, the env, or U-Boot's mtdparts"
    )


def cfi(lines: Sequence[str], base: int, erase_bytes: int) -> int | None:
    """Bytes of a parallel flash from an address on, from `flinfo`.

    None: the answer lacks them.

    Raises:
        ConfigurationError: its sectors are such that `erase_bytes` is no multiple of them.
    """
    for count, unit, sectors, rest in _BANK.findall("\n".join(lines)):
        first, size = _SECTOR.search(rest), int(count) * _UNITS[unit]
        if first and int(first[1], 16) <= base < int(first[1], 16) + size:
            _check_erased(f"flash at {base:#x}", size // int(sectors), erase_bytes)
            return int(first[1], 16) + size - base
    return None


def ubi_volume(lines: Sequence[str], name: str) -> int | None:
    """Bytes of a UBI volume, from `ubi info l`.

    None: the answer lacks them.
    """
    sizes = {volume: int(blocks) * int(size) for blocks, size, volume in _UBI_VOLUME.findall("\n".join(lines))}
    return sizes.get(name)


def _check_erased(what: str, block: int, erase_bytes: int) -> None:
    if block and erase_bytes % block:
        raise ConfigurationError(
            f"{what}: it is erased in blocks of {block} bytes, and the env says "
            f"{erase_bytes}: set erase_kib to {block / 1024:g} there"
        )


# The commands for SK-AM62 are those of TI's SDK ("Flash and boot" pages): `mmc` for eMMC, `sf` for OSPI NOR, `mtd` for
# NAND.


HARDWARE: Final = {"user": 0, "boot0": 1, "boot1": 2}


class UBootMedium(Protocol):
    """A medium as U-Boot sees it.

    align: offsets and counts of writes are multiples of it. size: the command for its size, or None.
    """

    @property
    def align(self) -> int: ...

    def select(self) -> list[Command]:
        """Make it the one that the following commands are for."""

    def size(self) -> Command | None:
        """Command for the size; None: there is none."""

    def parse_size(self, lines: Sequence[str]) -> int | None:
        """Bytes of it, of what that answered; None: it does not say.

        Raises:
            MediaMissingError, ConfigurationError: it is not there, or is erased in other blocks than the env says.
        """

    def before(self, offset: int, count: int, /) -> list[Command]:
        """Commands before all writes of a part, e.g. an erase."""

    def write(self, address: int, offset: int, count: int) -> list[Command]:
        """From memory at `address` to the medium at `offset`."""

    def read(self, address: int, offset: int, count: int) -> list[Command]:
        """From the medium to memory."""

    def finish(self) -> list[Command]:
        """After the last write."""


def _number(_instance: object, _attribute: object, value: int) -> None:
    fits(value, 31)


@frozen
class UBootBlocks:
    """A block device: an eMMC or SD card (`mmc`), NVMe, virtio.

    Attributes:
        interface: "mmc", "nvme" or "virtio".
        number: of the device.
        hardware: eMMC hardware partition ("mmc" only).
    """

    interface: str = field(validator=validators.in_(("mmc", "nvme", "virtio")))
    number: int = field(validator=_number)
    hardware: str = field(default="user", validator=validators.in_(tuple(HARDWARE)))
    align: int = BLOCK_BYTES

    def select(self) -> list[Command]:
        if self.interface == "mmc":
            text = f"mmc dev {self.number} {HARDWARE[self.hardware]}"
            good = rf"switch to partitions #{HARDWARE[self.hardware]}, OK|is current device"
            return [Command(text, answers.says(good, text))]
        scan = ["pci enum", "nvme scan"] if self.interface == "nvme" else ["virtio scan"]
        text = f"{self.interface} device {self.number}"
        return [
            *(Command(command, answers.done(command)) for command in scan),
            Command(text, answers.says("is now current device", text)),
        ]

    def size(self) -> Command | None:
        text = f"{self.interface} info"
        return Command(text, answers.done(text))

    def parse_size(self, lines: Sequence[str]) -> int | None:
        return block_device(lines, self.number)

    def partition(self, number: int) -> list[Command]:
        """Ask for begin and size of a partition (cmd/part.c)."""
        texts = [f"part {what} {self.interface} {self.number} {number:x}" for what in ("start", "size")]
        return [Command(text, answers.says(r"^\s*[0-9a-f]+\s*$", text)) for text in texts]

    def before(self, _offset: int, _count: int, /) -> list[Command]:
        return []

    def write(self, address: int, offset: int, count: int) -> list[Command]:
        return [self._move("write", address, offset, count)]

    def read(self, address: int, offset: int, count: int) -> list[Command]:
        return [self._move("read", address, offset, count)]

    def finish(self) -> list[Command]:
        """Select the user area again for later commands."""
        if self.hardware == "user":
            return []
        text = f"mmc dev {self.number} 0"
        return [Command(text, answers.says("OK|is current device", text))]

    def _move(self, verb: str, address: int, offset: int, count: int) -> Command:
        block_count = -(-count // BLOCK_BYTES)
        text = (
            f"{self.interface} {verb} {fits(address, MOST):#x} {fits(offset // BLOCK_BYTES, MOST):#x} {block_count:#x}"
        )
        return Command(text, answers.blocks(block_count, text, offset // BLOCK_BYTES), limit_s(count))


def parse(text: str, *, erase_bytes: int = 128 * 1024) -> UBootMedium:
    """Parse the environment's name of a medium.

    "mmc 0", "nvme 0", "virtio 0", "sf", "sf 0:0", "mtd NAME", "cfi 0x4000000".

    Raises:
        ConfigurationError: it is none of these.
    """
    match text.split():
        case ["mmc" | "nvme" | "virtio" as interface, number] if number.isdigit() and int(number) < 32:
            return UBootBlocks(interface, int(number))
        case ["sf"]:
            return SpiFlash()
        case ["sf", device] if re.fullmatch(r"\d+(:\d+)?", device):
            return SpiFlash(device)
        case ["mtd", name] if NAME.fullmatch(name):
            return Mtd(name, erase_bytes)
        case ["cfi", base] if re.fullmatch(r"0x[0-9a-fA-F]+", base):
            return Cfi(int(base, 16), erase_bytes)
    raise ConfigurationError(
        f'{text!r:.60} names no medium of U-Boot; expected e.g. "mmc 0", "nvme 0", "virtio 0", "sf", '
        '"mtd ospi.rootfs" or "cfi 0x4000000"'
    )


def _name(_instance: object, _attribute: object, value: str) -> None:
    if not NAME.fullmatch(value):
        raise ConfigurationError(
            f"{value!r:.60}: expected the name of an MTD or UBI part: letters, digits and . + - _"
        )


@frozen
class SpiFlash:
    """A NOR flash behind `sf`.

    device: bus and chip select, e.g. "0:0"; empty: U-Boot's usual one.
    """

    device: str = field(default="", validator=validators.matches_re(r"|\d+(:\d+)?"))
    align: int = 1

    def select(self) -> list[Command]:
        text = f"sf probe {self.device}".strip()
        return [Command(text, answers.says("SF: Detected", text))]

    def size(self) -> Command | None:
        """Command for the size: `sf probe` prints it."""
        return self.select()[0]

    def parse_size(self, lines: Sequence[str]) -> int | None:
        return spi_flash(lines)

    def before(self, _offset: int, _count: int, /) -> list[Command]:
        """Do nothing: `sf update` erases and keeps the other data of blocks."""
        return []

    def write(self, address: int, offset: int, count: int) -> list[Command]:
        text = f"sf update {fits(address, MOST):#x} {fits(offset, MOST):#x} {count:#x}"

        def judge(lines: Sequence[str], status: int) -> None:
            output = "\n".join(lines)
            place = re.search(r"\boffset 0x([0-9a-f]+), size 0x([0-9a-f]+)", output)
            if place and (int(place[1], 16), int(place[2], 16)) != (offset, count):
                raise answers.misread(lines, text)
            answers.refuse(lines, status, text)
            counts = re.search(r"(\d+) bytes written, (\d+) bytes skipped", output)
            if counts is None or int(counts[1]) + int(counts[2]) != count:
                answers.says("bytes written", text)([], 1)

        return [Command(text, judge, limit_s(2 * count))]

    def read(self, address: int, offset: int, count: int) -> list[Command]:
        text = f"sf read {fits(address, MOST):#x} {fits(offset, MOST):#x} {count:#x}"
        return [Command(text, answers.says(rf"SF: {count} bytes @ (?:0x)?{offset:x} Read: OK", text), limit_s(count))]

    def finish(self) -> list[Command]:
        return []


@frozen
class Mtd:
    """A NAND or NOR flash, or its part, behind `mtd`.

    name: as in `mtd list`. erase_bytes: of an erase block.
    """

    name: str = field(validator=_name)
    erase_bytes: int = field(default=128 * 1024, validator=validators.gt(0))
    align: int = field(init=False)

    @align.default
    def _align(self) -> int:
        return self.erase_bytes

    def select(self) -> list[Command]:
        return [
            Command(
                "mtd list",
                answers.says(rf'^\s*(\* {re.escape(self.name)}$|- 0x.* : "{re.escape(self.name)}")', "mtd list"),
            )
        ]

    def size(self) -> Command | None:
        return Command("mtd list", answers.done("mtd list"))

    def parse_size(self, lines: Sequence[str]) -> int | None:
        return mtd(lines, self.name, self.erase_bytes)

    def before(self, offset: int, count: int, /) -> list[Command]:
        whole = -(-count // self.erase_bytes) * self.erase_bytes
        text = f"mtd erase {self.name} {fits(offset, MOST):#x} {whole:#x}"
        return [Command(text, answers.says("^Erasing ", text), limit_s(whole))]

    def write(self, address: int, offset: int, count: int) -> list[Command]:
        return [self._move("write", "Writing", address, offset, count)]

    def read(self, address: int, offset: int, count: int) -> list[Command]:
        return [self._move("read", "Reading", address, offset, count)]

    def finish(self) -> list[Command]:
        return []

    def _move(self, verb: str, says: str, address: int, offset: int, count: int) -> Command:
        text = f"mtd {verb} {self.name} {fits(address, MOST):#x} {fits(offset, MOST):#x} {count:#x}"

        def judge(lines: Sequence[str], status: int) -> None:
            output = "\n".join(lines)
            rounded = re.search(r"Size not on a page boundary \(0x[0-9a-f]+\), rounding to 0x([0-9a-f]+)", output)
            place = re.search(
                rf"^{says} (\d+) byte\(s\)(?: \(\d+ page\(s\)\))? at offset 0x([0-9a-f]+)", output, re.MULTILINE
            )
            if place and (int(place[1]), int(place[2], 16)) != (int(rounded[1], 16) if rounded else count, offset):
                raise answers.misread(lines, text)
            answers.says(f"^{says} ", text)(lines, status)

        return Command(text, judge, limit_s(count))


@frozen
class Cfi:
    """A parallel NOR flash in the address space.

    It is written by `erase` and `cp.b`. base: its address. erase_bytes: of a sector.
    """

    base: int = field(validator=validators.ge(0))
    erase_bytes: int = field(default=128 * 1024, validator=validators.gt(0))
    align: int = field(init=False)

    @align.default
    def _align(self) -> int:
        return self.erase_bytes

    def select(self) -> list[Command]:
        return [Command("flinfo", answers.says("CFI conformant", "flinfo"))]

    def size(self) -> Command | None:
        return self.select()[0]

    def parse_size(self, lines: Sequence[str]) -> int | None:
        return cfi(lines, self.base, self.erase_bytes)

    def before(self, offset: int, count: int, /) -> list[Command]:
        whole = -(-count // self.erase_bytes) * self.erase_bytes
        at = f"{fits(self.base + offset, MOST):#x} +{whole:#x}"
        return [
            Command(f"protect off {at}", answers.says("Un-Protected", f"protect off {at}"), limit_s(whole)),
            Command(f"erase {at}", answers.says("Erased .* sectors", f"erase {at}"), limit_s(whole)),
        ]

    def write(self, address: int, offset: int, count: int) -> list[Command]:
        text = f"cp.b {fits(address, MOST):#x} {fits(self.base + offset, MOST):#x} {count:#x}"
        return [Command(text, answers.says(r"Copy to Flash\.\.\. done", text), limit_s(count))]

    def read(self, address: int, offset: int, count: int) -> list[Command]:
        text = f"cp.b {fits(self.base + offset, MOST):#x} {fits(address, MOST):#x} {count:#x}"
        return [Command(text, answers.done(text), limit_s(count))]

    def finish(self) -> list[Command]:
        return []


@frozen
class UbiVolume:
    """A UBI volume on an MTD part, written as a whole.

    `total` is the number of its bytes.
    """

    mtd: str = field(validator=_name)
    volume: str = field(validator=_name)
    total: int = field(validator=validators.gt(0))
    align: int = 1

    def select(self) -> list[Command]:
        text = f"ubi part {self.mtd}"
        return [Command(text, answers.says("ubi0: attached|^ubi0: volume|is already attached", text), limit_s(0))]

    def size(self) -> Command:
        return Command("ubi info l", answers.done("ubi info l"))

    def parse_size(self, lines: Sequence[str]) -> int | None:
        return ubi_volume(lines, self.volume)

    def before(self, _offset: int, _count: int, /) -> list[Command]:
        """Make sure that a volume of this name exists."""
        text = f"ubi check {self.volume}"
        return [Command(text, answers.done(text))]

    def write(self, address: int, offset: int, count: int) -> list[Command]:
        whole = f" {self.total:#x}" if offset == 0 else ""
        verb = "ubi write" if offset == 0 and count == self.total else "ubi write.part"
        text = f"{verb} {fits(address, MOST):#x} {self.volume} {count:#x}" + (whole if verb.endswith("part") else "")
        return [Command(text, answers.says(rf"{count} bytes written to volume", text), limit_s(count))]

    def read(self, address: int, offset: int, count: int) -> list[Command]:
        """Read a volume from its start up to `offset` + `count`.

        U-Boot cannot begin elsewhere, and fills so much of its memory.
        """
        whole = offset + count
        text = f"ubi read {fits(address, MOST):#x} {self.volume} {whole:#x}"
        return [Command(text, answers.says(rf"Read {whole} bytes from volume", text), limit_s(whole))]

    def finish(self) -> list[Command]:
        return []
