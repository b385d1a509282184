"""Flashes and UBI on them, from Linux: commands of mtd-utils and their answers.

The texts: mtd-utils 2.1.5 on Linux 6.1, recorded on the QEMU board (tests/unit/provision/test_linux_flash.py); those of
a worn flash are of its sources.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from attrs import frozen

from lab.errors import ConfigurationError
from lab.provision.errors import (
    ImageTooLargeError,
    MediaMissingError,
    MediaVerifyFailedError,
    MediaWriteFailedError,
    TargetRefusedError,
)
from lab.provision.release import PartPlace
from lab.provision.writers.command import Command, CommandPrompt, carry_out, limit_s, quote
from lab.provision.writers.linuxanswers import SPOOL, done, refuse

_ATTACHED: Final = re.compile(r"UBI device number \d+|error 17 \(File exists\)")
_NO_UBI: Final = re.compile(r"error 22 \(Invalid argument\)")
_SYSFS: Final = "/sys/class/ubi"  # Documentation/ABI/stable/sysfs-class-ubi
_EC_MAGIC, _VID_MAGIC, _MAGIC_BYTES = "UBI#", "UBI!", 4  # drivers/mtd/ubi/ubi-media.h
# Behind the first header: on NOR; on NAND a page, or a part of one
_VID_OFFSETS: Final = (64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
DEVICE: Final = re.compile(r"/dev/mtd\d+")
NOR: Final = "nor"
_LOG: Final = f"{SPOOL}.log"
# By offset, by the name of an MTD, into a UBI volume
_PROGRAMS: Final = (("flash_erase", "dd"), ("flashcp",), ("ubiattach", "ubiformat", "ubimkvol", "ubiupdatevol"))
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
    """Ask for all MTDs and their types."""
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


def ask_uses() -> Command:
    """Ask for the mounts, and for the MTDs of UBI."""
    text = "cat /proc/mounts; grep -H . /sys/class/ubi/ubi*/mtd_num 2>/dev/null; true"
    return Command(text, done(text))


def expect_unused(lines: Sequence[str], on: Partition, *, whole: bool) -> None:
    """Make sure that an MTD is not mounted.

    The lines are the answer to `ask_uses`.

    Args:
        whole: it is written by offsets, so nothing on any flash may be in use: partitions have numbers of their own.

    Raises:
        TargetRefusedError: it is mounted.
    """
    ubis = dict(re.findall(r"/ubi(\d+)/mtd_num:(\d+)", "\n".join(lines)))
    for name, *where in (line.split() for line in lines if line.split()):
        block = re.fullmatch(r"(?:/dev/)?mtd(?:block)?(\d+)", name)
        ubi = re.match(r"(?:/dev/)?ubi(\d+)[:_]", name)
        number = block[1] if block else ubis.get(ubi[1], "") if ubi else ""
        if number and (whole or int(number) == on.number):
            raise TargetRefusedError(
                f"{on.device}: the board's Linux has mounted {name} ({where[0] if where else ''}) from there; nothing "
                "was written. Let it run from another medium, or from memory (`boot_from: ram`)"
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
    """Write the piece in memory to the start of an MTD.

    `flashcp` reads it back at once. Only the end of its output comes over the console.
    """
    text = f"flashcp -v {SPOOL} {device}"
    whole = f"{text} >{_LOG} 2>&1; s=$?; tr '\\r' '\\n' <{_LOG} | tail -n {_SHOWN_LINES}; (exit $s)"

    def judge(lines: Sequence[str], status: int) -> None:
        refuse(lines, status, text)
        if not _VERIFIED.search("\n".join(lines)):
            raise MediaVerifyFailedError(f"{text}: it did not read back what it wrote: {quote(lines)}")

    return Command(whole, judge, limit_s(3 * count))


def ask(place: PartPlace | None) -> Command:
    """Ask whether the board has the programs for a place.

    Raises (its judge):
        ConfigurationError: it lacks one.
    """
    programs = _PROGRAMS[bool(place and place.mtd) + bool(place and place.volume)]
    text = f'for p in {" ".join(programs)}; do command -v $p >/dev/null || echo "no program $p"; done'

    def judge(lines: Sequence[str], _status: int) -> None:
        if absent := [line.split()[-1] for line in lines if line.strip().startswith("no program ")]:
            raise ConfigurationError(
                f"the board's Linux has no {' and no '.join(absent)}; nothing was written. Install mtd-utils there, "
                "run a Linux in memory (`boot_from: ram`), or write this medium from U-Boot"
            )

    return Command(text, judge)


@frozen
class Volumes:
    """Volumes of an attached UBI.

    ubi: its number. devices: name of a volume -> its device.
    """

    ubi: int
    devices: dict[str, str]


def attach(on: Partition, *, must: bool = False) -> Command:
    """Attach an MTD to UBI; an attached one is good.

    must: an MTD without UBI is a failure.
    """
    text = f"ubiattach -p {on.device}"

    def judge(lines: Sequence[str], status: int) -> None:
        if not is_attached(lines) and (must or not _NO_UBI.search("\n".join(lines))):
            refuse(lines, status or 1, text)

    return Command(text, judge, limit_s(on.size_bytes))


def detach(on: Partition) -> Command:
    """Have UBI let go of an MTD that nothing is mounted from."""
    text = f"ubidetach -p {on.device} 2>/dev/null; true"
    return Command(text, done(text))


def is_attached(lines: Sequence[str]) -> bool:
    """Return whether UBI has the MTD, by the answer to `attach`."""
    return _ATTACHED.search("\n".join(lines)) is not None


def count_ubi(on: Partition) -> Command:
    """Count an MTD's erase blocks with a UBI header or errors.

    The header is that of drivers/mtd/ubi/ubi-media.h.
    """
    return _count(on, _EC_MAGIC, (0,))


def count_ubi_data(on: Partition) -> Command:
    """Count an MTD's erase blocks with a volume header or errors.

    A UBI without such a header, e.g. after an interrupted `ubiformat`, has no data to lose.
    """
    return _count(on, _VID_MAGIC, tuple(offset for offset in _VID_OFFSETS if offset < on.erase_bytes))


def expect_no_ubi(lines: Sequence[str], on: Partition) -> None:
    """Make sure that an unattached MTD has no UBI data.

    The lines are the answer to `count_ubi` or `count_ubi_data`.

    Raises:
        TargetRefusedError: it has such data.
    """
    if not is_none(lines):
        raise TargetRefusedError(
            f"{on.device}: it has UBI with volumes, or blocks that cannot be read, and does not attach; nothing was "
            f"written to it. `dmesg` on the board says why, after `ubiattach -p {on.device}`. Is the name of the MTD "
            "partition right? If nobody needs what it has, format it by hand (`ubiformat`)"
        )


def is_none(lines: Sequence[str]) -> bool:
    """Return whether the count is 0."""
    return [line.strip() for line in lines if line.strip()] == ["0"]


def _count(on: Partition, magic: str, offsets: Sequence[int]) -> Command:
    words = on.erase_bytes // _MAGIC_BYTES
    at = " ".join(str(offset // _MAGIC_BYTES) for offset in offsets)
    read = f"dd if={on.device} bs={_MAGIC_BYTES} skip=$((i * {words} + o)) count=1 2>/dev/null || echo '{magic}'; echo"
    blocks = (
        f"while [ $i -lt {on.size_bytes // on.erase_bytes} ]; do for o in {at}; do {read}; done; i=$((i + 1)); done"
    )
    return Command(f"i=0; {blocks} | grep -c '^{magic}'", lambda _lines, _status: None, limit_s(on.size_bytes))


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
            raise MediaWriteFailedError(f"{text}: {quote(lines)}. Look at what else lies in this UBI (`ubinfo -a`)")

    return Command(text, judge)


def list_volumes() -> Command:
    """Ask for all UBIs, their free space, volumes and sizes."""
    of_ubi, of_volume = ("mtd_num", "avail_eraseblocks", "eraseblock_size"), ("name", "reserved_ebs", "usable_eb_size")
    files = [*(f"{_SYSFS}/ubi*/{name}" for name in of_ubi), *(f"{_SYSFS}/ubi*_*/{name}" for name in of_volume)]
    text = f"grep -H . {' '.join(files)} 2>/dev/null; true"
    return Command(text, done(text))


def volumes(lines: Sequence[str], on: Partition) -> Volumes:
    """The volumes of an MTD, of `list_volumes`.

    Raises:
        MediaWriteFailedError: it is not attached.
    """
    text = "\n".join(lines)
    ubi = _number(text, on)
    if ubi is None:
        raise MediaWriteFailedError(f"{on.device}: UBI does not have it: {quote(lines)}. Try again")
    names = re.findall(rf"/(ubi{ubi}_\d+)/name:(\S+)", text)
    return Volumes(ubi, {name: f"/dev/{device}" for device, name in names})


def volume_bytes(lines: Sequence[str], on: Partition) -> dict[str, int]:
    """Size of each volume of an MTD, from `list_volumes`.

    Empty: UBI has not attached it.
    """
    text = "\n".join(lines)
    ubi = _number(text, on)
    blocks = dict(re.findall(rf"/(ubi{ubi}_\d+)/reserved_ebs:(\d+)", text))
    sizes = dict(re.findall(rf"/(ubi{ubi}_\d+)/usable_eb_size:(\d+)", text))
    return {
        name: int(blocks[volume]) * int(sizes[volume])
        for volume, name in re.findall(rf"/(ubi{ubi}_\d+)/name:(\S+)", text)
        if volume in blocks and volume in sizes
    }


def free_bytes(lines: Sequence[str], on: Partition) -> int:
    """Room for a new volume of an attached MTD, from `list_volumes`.

    Without an answer it is the MTD's size.
    """
    text = "\n".join(lines)
    ubi = _number(text, on)
    free, size = (re.search(rf"/ubi{ubi}/{name}:(\d+)", text) for name in ("avail_eraseblocks", "eraseblock_size"))
    return int(free[1]) * int(size[1]) if free and size else on.size_bytes


def _number(text: str, on: Partition) -> int | None:
    return next((int(ubi) for ubi, mtd in re.findall(r"/ubi(\d+)/mtd_num:(\d+)", text) if int(mtd) == on.number), None)


def update(device: str, count: int) -> Command:
    """Replace a volume's content by the piece in memory.

    UBI counts it as whole only when all of it came.
    """
    text = f"ubiupdatevol {device} {SPOOL}"
    return Command(text, done(text), limit_s(2 * count))


def volume(prompt: CommandPrompt, on: Partition, name: str, *, only_there: bool = False) -> str:
    """Find or make a UBI volume and return its device.

    A partition without UBI is formatted. only_there: nothing is written.

    Raises:
        MediaMissingError, TargetRefusedError, MediaWriteFailedError: there is none, or none can be made.
    """
    if not is_attached(carry_out(prompt, attach(on))):
        if only_there:
            raise MediaMissingError(
                f"{on.device}: UBI does not attach it, so it has no UBI volume {name} to read back; nothing was "
                "written. Write the release (without --verify-only)"
            )
        _expect_nothing_lost(prompt, on)
        carry_out(prompt, format_ubi(on))
        carry_out(prompt, attach(on, must=True))
    listed = volumes(carry_out(prompt, list_volumes()), on)
    if name not in listed.devices and not only_there:
        carry_out(prompt, make_volume(listed.ubi, name))
        listed = volumes(carry_out(prompt, list_volumes()), on)
    if name not in listed.devices:
        raise MediaMissingError(
            f"{on.device}: it has no UBI volume {name}; it has {', '.join(listed.devices) or 'none'}"
        )
    return listed.devices[name]


def check(prompt: CommandPrompt, on: Partition, wanted: Mapping[str, int]) -> None:
    """Make sure that volumes can be written, before the first byte.

    UBI attaches the partition if it can; nothing is formatted.

    Args:
        wanted: bytes by name of a volume.

    Raises:
        TargetRefusedError: it has a UBI that does not attach. ImageTooLargeError: a volume is too small, or there is
            no room for it.
        ConfigurationError: more than one would have to be made.
    """
    has, room = dict[str, int](), on.size_bytes
    if is_attached(carry_out(prompt, attach(on))):
        lines = carry_out(prompt, list_volumes())
        has, room = volume_bytes(lines, on), free_bytes(lines, on)
    else:
        _expect_nothing_lost(prompt, on)
    for name, count in wanted.items():
        if count > has.get(name, count):
            raise ImageTooLargeError(
                f"{name}: {count} bytes, and the UBI volume {name} on {on.device} has {has[name]}; nothing was "
                "written. Make it larger by hand (`ubirsvol`), or remove it (`ubirmvol`): it is made anew"
            )
        if name not in has and count > room:
            raise ImageTooLargeError(
                f"{name}: {count} bytes, and {on.device} has no UBI volume {name} (it has {', '.join(has) or 'none'}) "
                f"and {room} bytes for a new one; nothing was written. Is the name in the release file right? Else "
                "remove what is there (`ubirmvol`)"
            )
    if len(new := [name for name in wanted if name not in has]) > 1:
        raise ConfigurationError(
            f"{on.device}: the UBI volumes {' and '.join(new)} are not there, and a new one gets all the room; "
            "nothing was written. Make them by hand (`ubiformat`, `ubiattach`, "
            "`ubimkvol -s SIZE`): then they are only written"
        )


def _expect_nothing_lost(prompt: CommandPrompt, on: Partition) -> None:
    if not is_none(carry_out(prompt, count_ubi(on))):
        expect_no_ubi(carry_out(prompt, count_ubi_data(on)), on)
