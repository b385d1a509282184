"""What a Linux on the board is told to write a flash, and what mtd-utils answer. The texts: mtd-utils 2.1.5 on Linux 6.1, recorded on
the QEMU board (tests/unit/provision/test_linux_flash.py); those of a worn flash are of its sources.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from attrs import frozen

from lab.errors import ConfigurationError
from lab.provision.failures import MediaVerifyFailedError, MediaWriteFailedError, TargetRefusedError
from lab.provision.release import Place
from lab.provision.ways.command import Command, limit_s, said
from lab.provision.ways.linuxanswers import SPOOL, digest_is, done, refuse

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
_ATTACHED: Final = re.compile(r"UBI device number \d+|error 17 \(File exists\)")
_NO_UBI: Final = re.compile(r"error 22 \(Invalid argument\)")
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


@frozen
class Volumes:
    """What lies in an attached UBI. ubi: its number. devices: name of a volume -> its device."""

    ubi: int
    devices: dict[str, str]


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


def attach(on: Partition, *, must: bool = False) -> Command:
    """Have UBI take an MTD; one that it has already is good. must: an MTD without UBI is a failure."""
    text = f"ubiattach -p {on.device}"

    def judge(lines: Sequence[str], status: int) -> None:
        if not attached(lines) and (must or not _NO_UBI.search("\n".join(lines))):
            refuse(lines, status or 1, text)

    return Command(text, judge, limit_s(on.size_bytes))


def detach(on: Partition) -> Command:
    """Have UBI let go of an MTD that nothing is mounted from."""
    text = f"ubidetach -p {on.device} 2>/dev/null; true"
    return Command(text, done(text))


def attached(lines: Sequence[str]) -> bool:
    """Whether UBI has it, of `attach`."""
    return _ATTACHED.search("\n".join(lines)) is not None


def expect_no_ubi(on: Partition) -> Command:
    """Whether an MTD that does not attach never had UBI: then nothing is lost by formatting it.

    Every erase block of a UBI begins with `UBI#` (drivers/mtd/ubi/ubi-media.h); one that cannot be read may have been such a block.
    """
    blocks, words = on.size_bytes // on.erase_bytes, on.erase_bytes // 4
    block = f"dd if={on.device} bs=4 skip=$((i * {words})) count=1 2>/dev/null || echo 'UBI#'; echo"
    text = f"i=0; while [ $i -lt {blocks} ]; do {block}; i=$((i + 1)); done | grep -c '^UBI#'"

    def judge(lines: Sequence[str], _status: int) -> None:
        if [line.strip() for line in lines if line.strip()] != ["0"]:
            raise MediaWriteFailedError(
                f"{on.device}: it has UBI, and does not attach (of its {blocks} erase blocks, those that have UBI or cannot be read: "
                f"{said(lines)}). Format it by hand (ubiformat), or write it from U-Boot"
            )

    return Command(text, judge, limit_s(on.size_bytes))


def format_ubi(on: Partition) -> Command:
    """Make an MTD a UBI without volumes."""
    text = f"ubiformat {on.device} -y -q"
    return Command(text, done(text), limit_s(on.size_bytes))


def make_volume(ubi: int, name: str) -> Command:
    """A volume of all the room that is left."""
    text = f"ubimkvol /dev/ubi{ubi} -N {name} -m"

    def judge(lines: Sequence[str], status: int) -> None:
        refuse(lines, status, text)
        if f'name "{name}"' not in "\n".join(lines):
            raise MediaWriteFailedError(f"{text}: {said(lines)}. Look at what else lies in this UBI (`ubinfo -a`)")

    return Command(text, judge)


def list_volumes() -> Command:
    """What asks for all UBIs, their volumes, and how large these are."""
    more = "/sys/class/ubi/ubi*_*/reserved_ebs /sys/class/ubi/ubi*_*/usable_eb_size"
    text = f"grep -H . /sys/class/ubi/ubi*/mtd_num /sys/class/ubi/ubi*_*/name {more} 2>/dev/null; true"
    return Command(text, done(text))


def volumes(lines: Sequence[str], on: Partition) -> Volumes:
    """The volumes of an MTD, of `list_volumes`.

    Raises:
        MediaWriteFailedError: it is not attached.
    """
    text = "\n".join(lines)
    ubi = next((int(ubi) for ubi, mtd in re.findall(r"/ubi(\d+)/mtd_num:(\d+)", text) if int(mtd) == on.number), None)
    if ubi is None:
        raise MediaWriteFailedError(f"{on.device}: UBI does not have it: {said(lines)}. Try again")
    names = re.findall(rf"/(ubi{ubi}_\d+)/name:(\S+)", text)
    return Volumes(ubi, {name: f"/dev/{device}" for device, name in names})


def volume_bytes(lines: Sequence[str], on: Partition) -> dict[str, int]:
    """What each volume of an MTD can hold, of `list_volumes`; empty: UBI has not attached it (Documentation/ABI/stable/sysfs-class-ubi)."""
    text = "\n".join(lines)
    ubi = next((ubi for ubi, mtd in re.findall(r"/ubi(\d+)/mtd_num:(\d+)", text) if int(mtd) == on.number), None)
    blocks = dict(re.findall(rf"/(ubi{ubi}_\d+)/reserved_ebs:(\d+)", text))
    sizes = dict(re.findall(rf"/(ubi{ubi}_\d+)/usable_eb_size:(\d+)", text))
    return {
        name: int(blocks[volume]) * int(sizes[volume])
        for volume, name in re.findall(rf"/(ubi{ubi}_\d+)/name:(\S+)", text)
        if volume in blocks and volume in sizes
    }


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


def update(device: str, count: int) -> Command:
    """Replace the content of a volume by the piece in memory; UBI counts it as whole only when all of it came."""
    text = f"ubiupdatevol {device} {SPOOL}"
    return Command(text, done(text), limit_s(2 * count))


def compare(device: str, count: int, sha256: str, what: str) -> Command:
    """Read a volume back and compute the digest."""
    text = f"head -c {count} {device} | sha256sum"
    return Command(text, digest_is(sha256, what), limit_s(count))
