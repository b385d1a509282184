"""What a Linux on the board is told to write a flash, and what mtd-utils answer. The texts: mtd-utils 2.1.5 on Linux 6.1, recorded on
the QEMU board (tests/unit/provision/test_linux_flash.py); those of a worn flash are of its sources.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from attrs import frozen

from lab.errors import ConfigurationError
from lab.provision.failures import MediaVerifyFailedError, TargetRefusedError
from lab.provision.release import Place
from lab.provision.ways.command import Command, limit_s, said
from lab.provision.ways.linuxanswers import SPOOL, done, refuse

DEVICE: Final = re.compile(r"/dev/mtd\d+")
NOR: Final = "nor"
_LOG: Final = f"{SPOOL}.log"
_PROGRAMS: Final = (
    ("flash_erase", "dd"),
    ("flashcp",),
    ("ubiattach", "ubiformat", "ubimkvol", "ubiupdatevol"),
)  # by offset, by the name of an MTD, into a UBI volume
_SHOWN_LINES: Final = 4
_MTD: Final = re.compile(r'mtd(\d+): ([0-9a-f]+) ([0-9a-f]+) "([^"]+)"')
_TYPE: Final = re.compile(r"mtd(\d+)/type:(\w+)")
_VERIFIED: Final = re.compile(r"Verifying data: \d+k/\d+k \(100%\)")


@frozen
class Partition:
    """An MTD. device: "/dev/mtdN". kind: as /sys/class/mtd says it, "nor" or "nand"."""

    number: int
    name: str
    size_bytes: int
    erase_bytes: int
    kind: str

    @property
    def device(self) -> str:
        """As mtd-utils call it."""
        return f"/dev/mtd{self.number}"


def list_partitions() -> Command:
    """What asks for all MTDs and their types."""
    text = "cat /proc/mtd; grep -H . /sys/class/mtd/mtd*/type 2>/dev/null; true"
    return Command(text, done(text))


def partitions(lines: Sequence[str]) -> list[Partition]:
    """All MTDs, of `list_partitions`; two may have one name."""
    text = "\n".join(lines)
    kinds = dict(_TYPE.findall(text))
    return [
        Partition(int(number), name, int(size, 16), int(erase, 16), kinds.get(number, ""))
        for number, size, erase, name in _MTD.findall(text)
    ]


def used() -> Command:
    """What asks for all that is mounted, and for the MTDs that UBI has."""
    text = "cat /proc/mounts; grep -H . /sys/class/ubi/ubi*/mtd_num 2>/dev/null; true"
    return Command(text, done(text))


def expect_unused(lines: Sequence[str], on: Partition, *, whole: bool) -> None:
    """Whether nothing of an MTD is mounted, of `used`.

    Args:
        whole: it is written by offsets, so nothing on any flash may be in use: partitions have numbers of their own.

    Raises:
        TargetRefusedError: something is.
    """
    ubis = dict(re.findall(r"/ubi(\d+)/mtd_num:(\d+)", "\n".join(lines)))
    for name, *where in (line.split() for line in lines if line.split()):
        block = re.fullmatch(r"(?:/dev/)?mtd(?:block)?(\d+)", name)
        ubi = re.match(r"(?:/dev/)?ubi(\d+)[:_]", name)
        number = block[1] if block else ubis.get(ubi[1], "") if ubi else ""
        if number and (whole or int(number) == on.number):
            raise TargetRefusedError(
                f"{on.device}: the board's Linux has mounted {name} ({where[0] if where else ''}) from there; nothing was written. Let it "
                "run from another medium, or from memory (`boot_from: ram`)"
            )
    if whole and ubis:
        raise TargetRefusedError(
            f"{on.device}: UBI has attached a flash of this board; nothing was written. Run a Linux that does not"
        )


def erase(on: Partition, offset: int, count: int) -> Command:
    """Erase the blocks of a range."""
    text = f"flash_erase -q {on.device} {offset:#x} {-(-count // on.erase_bytes)}"
    return Command(text, done(text), limit_s(count))


def copy(device: str, count: int) -> Command:
    """Write the piece in memory to the start of an MTD, which is read back at once; only the end of what it says comes over the console."""
    text = f"flashcp -v {SPOOL} {device}"
    whole = f"{text} >{_LOG} 2>&1; s=$?; tr '\\r' '\\n' <{_LOG} | tail -n {_SHOWN_LINES}; (exit $s)"

    def judge(lines: Sequence[str], status: int) -> None:
        refuse(lines, status, text)
        if not _VERIFIED.search("\n".join(lines)):
            raise MediaVerifyFailedError(f"{text}: it did not read back what it wrote: {said(lines)}")

    return Command(whole, judge, limit_s(3 * count))


def ask(place: Place | None) -> Command:
    """Whether the board has what writes such a place.

    Raises (its judge):
        ConfigurationError: it has not.
    """
    programs = _PROGRAMS[bool(place and place.mtd) + bool(place and place.volume)]
    text = f'for p in {" ".join(programs)}; do command -v $p >/dev/null || echo "no program $p"; done'

    def judge(lines: Sequence[str], _status: int) -> None:
        if absent := [line.split()[-1] for line in lines if line.strip().startswith("no program ")]:
            raise ConfigurationError(
                f"the board's Linux has no {' and no '.join(absent)}; nothing was written. Install mtd-utils there, run a Linux in memory "
                "(`boot_from: ram`), or write this medium from U-Boot"
            )

    return Command(text, judge)
