"""How U-Boot writes and reads flash memories, as text: NOR behind `sf`, NAND and NOR behind `mtd`, parallel NOR by `cp.b`, UBI."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from attrs import field, frozen, validators

from lab.errors import ConfigurationError
from lab.provision.ways import ubootanswers as answers
from lab.provision.ways import ubootsizes
from lab.provision.ways.command import Command, Judge, fits, limit_s

MOST: Final = (1 << 48) - 1
NAME: Final = re.compile(r"[\w.+-]+")


def _name(_instance: object, _attribute: object, value: str) -> None:
    if not NAME.fullmatch(value):
        raise ConfigurationError(
            f"{value!r:.60}: expected the name of an MTD or UBI part: letters, digits and . + - _"
        )


@frozen
class SpiFlash:
    """A NOR flash behind `sf`. device: bus and chip select, e.g. "0:0"; empty: U-Boot's usual one."""

    device: str = field(default="", validator=validators.matches_re(r"|\d+(:\d+)?"))
    align: int = 1

    def select(self) -> list[Command]:
        """See `Medium`."""
        text = f"sf probe {self.device}".strip()
        return [Command(text, answers.says("SF: Detected", text))]

    def size(self) -> Command | None:
        """See `Medium`: `sf probe` tells it."""
        return self.select()[0]

    def sized(self, lines: Sequence[str]) -> int | None:
        """See `Medium`."""
        return ubootsizes.spi_flash(lines)

    def before(self, _offset: int, _count: int, /) -> list[Command]:
        """See `Medium`: `sf update` erases what it must, and keeps what shares a block with it."""
        return []

    def write(self, address: int, offset: int, count: int) -> list[Command]:
        """See `Medium`."""
        text = f"sf update {fits(address, MOST):#x} {fits(offset, MOST):#x} {count:#x}"
        return [Command(text, _updated(offset, count, text), limit_s(2 * count))]

    def read(self, address: int, offset: int, count: int) -> list[Command]:
        """See `Medium`."""
        text = f"sf read {fits(address, MOST):#x} {fits(offset, MOST):#x} {count:#x}"
        return [Command(text, answers.says(rf"SF: {count} bytes @ (?:0x)?{offset:x} Read: OK", text), limit_s(count))]

    def finish(self) -> list[Command]:
        """See `Medium`."""
        return []


@frozen
class Mtd:
    """A NAND or NOR flash, or a part of one, behind `mtd`. name: as `mtd list` has it. erase_bytes: of an erase block."""

    name: str = field(validator=_name)
    erase_bytes: int = field(default=128 * 1024, validator=validators.gt(0))
    align: int = field(init=False)

    @align.default
    def _align(self) -> int:
        return self.erase_bytes

    def select(self) -> list[Command]:
        """See `Medium`."""
        return [
            Command(
                "mtd list",
                answers.says(rf'^\s*(\* {re.escape(self.name)}$|- 0x.* : "{re.escape(self.name)}")', "mtd list"),
            )
        ]

    def size(self) -> Command | None:
        """See `Medium`."""
        return Command("mtd list", answers.done("mtd list"))

    def sized(self, lines: Sequence[str]) -> int | None:
        """See `Medium`."""
        return ubootsizes.mtd(lines, self.name, self.erase_bytes)

    def before(self, offset: int, count: int, /) -> list[Command]:
        """See `Medium`."""
        whole = -(-count // self.erase_bytes) * self.erase_bytes
        text = f"mtd erase {self.name} {fits(offset, MOST):#x} {whole:#x}"
        return [Command(text, answers.says("^Erasing ", text), limit_s(whole))]

    def write(self, address: int, offset: int, count: int) -> list[Command]:
        """See `Medium`."""
        return [self._move("write", "Writing", address, offset, count)]

    def read(self, address: int, offset: int, count: int) -> list[Command]:
        """See `Medium`."""
        return [self._move("read", "Reading", address, offset, count)]

    def finish(self) -> list[Command]:
        """See `Medium`."""
        return []

    def _move(self, verb: str, says: str, address: int, offset: int, count: int) -> Command:
        text = f"mtd {verb} {self.name} {fits(address, MOST):#x} {fits(offset, MOST):#x} {count:#x}"
        return Command(text, _moved(says, offset, count, text), limit_s(count))


@frozen
class Cfi:
    """A parallel NOR flash in the address space, by `erase` and `cp.b`. base: its address. erase_bytes: of a sector."""

    base: int = field(validator=validators.ge(0))
    erase_bytes: int = field(default=128 * 1024, validator=validators.gt(0))
    align: int = field(init=False)

    @align.default
    def _align(self) -> int:
        return self.erase_bytes

    def select(self) -> list[Command]:
        """See `Medium`."""
        return [Command("flinfo", answers.says("CFI conformant", "flinfo"))]

    def size(self) -> Command | None:
        """See `Medium`."""
        return self.select()[0]

    def sized(self, lines: Sequence[str]) -> int | None:
        """See `Medium`."""
        return ubootsizes.cfi(lines, self.base, self.erase_bytes)

    def before(self, offset: int, count: int, /) -> list[Command]:
        """See `Medium`."""
        whole = -(-count // self.erase_bytes) * self.erase_bytes
        at = f"{fits(self.base + offset, MOST):#x} +{whole:#x}"
        return [
            Command(f"protect off {at}", answers.says("Un-Protected", f"protect off {at}"), limit_s(whole)),
            Command(f"erase {at}", answers.says("Erased .* sectors", f"erase {at}"), limit_s(whole)),
        ]

    def write(self, address: int, offset: int, count: int) -> list[Command]:
        """See `Medium`."""
        text = f"cp.b {fits(address, MOST):#x} {fits(self.base + offset, MOST):#x} {count:#x}"
        return [Command(text, answers.says(r"Copy to Flash\.\.\. done", text), limit_s(count))]

    def read(self, address: int, offset: int, count: int) -> list[Command]:
        """See `Medium`."""
        text = f"cp.b {fits(self.base + offset, MOST):#x} {fits(address, MOST):#x} {count:#x}"
        return [Command(text, answers.done(text), limit_s(count))]

    def finish(self) -> list[Command]:
        """See `Medium`."""
        return []


@frozen
class UbiVolume:
    """A volume in UBI on an MTD part. It is written from its start to its end: `total` bytes in all."""

    mtd: str = field(validator=_name)
    volume: str = field(validator=_name)
    total: int = field(validator=validators.gt(0))
    align: int = 1

    def select(self) -> list[Command]:
        """See `Medium`."""
        text = f"ubi part {self.mtd}"
        return [Command(text, answers.says("ubi0: attached|^ubi0: volume|is already attached", text), limit_s(0))]

    def size(self) -> Command:
        """See `Medium`."""
        return Command("ubi info l", answers.done("ubi info l"))

    def sized(self, lines: Sequence[str]) -> int | None:
        """See `Medium`."""
        return ubootsizes.ubi_volume(lines, self.volume)

    def before(self, _offset: int, _count: int, /) -> list[Command]:
        """See `Medium`: a volume of this name must be there already."""
        text = f"ubi check {self.volume}"
        return [Command(text, answers.done(text))]

    def write(self, address: int, offset: int, count: int) -> list[Command]:
        """See `Medium`."""
        whole = f" {self.total:#x}" if offset == 0 else ""
        verb = "ubi write" if offset == 0 and count == self.total else "ubi write.part"
        text = f"{verb} {fits(address, MOST):#x} {self.volume} {count:#x}" + (whole if verb.endswith("part") else "")
        return [Command(text, answers.says(rf"{count} bytes written to volume", text), limit_s(count))]

    def read(self, address: int, offset: int, count: int) -> list[Command]:
        """See `Medium`: U-Boot reads a volume from its start only, up to `offset` + `count`, and so much of its memory is written."""
        whole = offset + count
        text = f"ubi read {fits(address, MOST):#x} {self.volume} {whole:#x}"
        return [Command(text, answers.says(rf"Read {whole} bytes from volume", text), limit_s(whole))]

    def finish(self) -> list[Command]:
        """See `Medium`."""
        return []


def _updated(offset: int, count: int, what: str) -> Judge:
    """Of `sf update`, which says where first (drivers/mtd/mtd_uboot.c), and what it did in the end."""

    def judge(lines: Sequence[str], status: int) -> None:
        text = "\n".join(lines)
        place = re.search(r"\boffset 0x([0-9a-f]+), size 0x([0-9a-f]+)", text)
        if place and (int(place[1], 16), int(place[2], 16)) != (offset, count):
            raise answers.misread(lines, what)
        answers.refuse(lines, status, what)
        found = re.search(r"(\d+) bytes written, (\d+) bytes skipped", text)
        if found is None or int(found[1]) + int(found[2]) != count:
            answers.says("bytes written", what)([], 1)

    return judge


def _moved(says: str, offset: int, count: int, what: str) -> Judge:
    """Of `mtd read|write`, which says where and how much before it does it, of a NAND with its pages, to whose size it rounds (cmd/mtd.c)."""

    def judge(lines: Sequence[str], status: int) -> None:
        text = "\n".join(lines)
        rounded = re.search(r"Size not on a page boundary \(0x[0-9a-f]+\), rounding to 0x([0-9a-f]+)", text)
        found = re.search(
            rf"^{says} (\d+) byte\(s\)(?: \(\d+ page\(s\)\))? at offset 0x([0-9a-f]+)", text, re.MULTILINE
        )
        if found and (int(found[1]), int(found[2], 16)) != (int(rounded[1], 16) if rounded else count, offset):
            raise answers.misread(lines, what)
        answers.says(f"^{says} ", what)(lines, status)

    return judge
