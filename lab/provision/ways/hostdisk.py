"""Which disk of the lab host may be written: the multiplexer's own, and never one that the host uses.

What the host uses is what the kernel says (proc(5) mountinfo and swaps; sysfs holders): a disk, or a partition of it, that is
mounted, swapped to, or held by LVM, RAID or dm-crypt.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from attrs import frozen

from lab.provision.failures import MediaMissingError, TargetRefusedError

_SECTOR_BYTES: Final = 512  # of sysfs, whatever the device's is


@frozen
class Disk:
    """A disk of the host, or the file of a virtual one.

    Attributes:
        identity: its ID_PATH and serial, as udev has them; may be empty. host: the other host that it is on; empty: this one.
    """

    path: str
    size_bytes: int
    identity: str = ""
    host: str = ""

    @property
    def shown(self) -> str:
        """For a person."""
        return f"{self.host}:{self.path}" if self.host else self.path


@frozen
class Host:
    """Where the kernel tells of disks."""

    sys: Path = Path("/sys")
    proc: Path = Path("/proc")

    def disk(self, path: str, identity: str = "") -> Disk:
        """A disk that nobody uses, by the name that the kernel gives it: a link to it may lead elsewhere a moment later.

        Raises:
            MediaMissingError: there is no such device, or no medium in it.
            TargetRefusedError: it is no whole disk, or is in use.
        """
        try:
            return self._disk(path, identity)
        except OSError as error:  # sysfs: the files of a device go with it
            raise MediaMissingError(
                f"{path}: it vanished while it was looked at ({error.strerror}). Is the card in, and the multiplexer's cable?"
            ) from error

    def _disk(self, path: str, identity: str) -> Disk:
        device = Path(path)
        if not device.exists():
            raise MediaMissingError(
                f"{path}: the host has no such device. Is the card in, and the multiplexer at the host?"
            )
        if not device.is_block_device():
            raise TargetRefusedError(
                f"{path}: not a disk; nothing was written. The env's multiplexer names it: mend that"
            )
        name = device.resolve().name
        folder = self.sys / "class" / "block" / name
        if (folder / "partition").exists():
            raise TargetRefusedError(
                f"{path}: a partition; expected the whole card. Nothing was written; mend the env"
            )
        if reasons := sorted(set(self._uses(folder))):
            raise TargetRefusedError(
                f"{path}: the host uses it ({', '.join(reasons)}); nothing was written. If that is the card, unmount it; if it is not, "
                "the env names somebody else's disk"
            )
        size = int((folder / "size").read_text()) * _SECTOR_BYTES
        if size == 0:
            raise MediaMissingError(f"{path}: no card in it. Is the card in the multiplexer?")
        return Disk(str(device.resolve()), size, identity)

    def _uses(self, folder: Path) -> Iterator[str]:
        mounted = dict(self._mounted())
        swaps = self._swaps()
        for each in [folder, *(part.parent for part in folder.glob("*/partition"))]:
            number = (each / "dev").read_text().strip()
            if where := mounted.get(number) or mounted.get(each.name):
                yield f"{each.name} is mounted on {where}"
            if each.name in swaps:
                yield f"{each.name} is swap"
            for holder in (each / "holders").glob("*"):
                yield f"{each.name} is part of {holder.name}"

    def _mounted(self) -> Iterator[tuple[str, str]]:
        """Number or name of a device, and where it is mounted: btrfs gives numbers that no device has."""
        for line in (self.proc / "self" / "mountinfo").read_text().splitlines():
            words, _, mount = line.partition(" - ")
            number, where = words.split()[2], words.split()[4]
            source = mount.split()[1]
            yield number, where
            if source.startswith("/dev/"):
                yield Path(source).resolve().name, where

    def _swaps(self) -> set[str]:
        try:
            lines = (self.proc / "swaps").read_text().splitlines()[1:]
        except OSError:
            return set()
        return {Path(line.split()[0]).name for line in lines if line.strip()}


def check_identity(disk: Disk, *, smallest: int, largest: int) -> None:
    """Whether a disk is the one that the environment means, by its size.

    Raises:
        TargetRefusedError: it is smaller or larger than the environment allows.
    """
    if not smallest <= disk.size_bytes <= largest:
        raise TargetRefusedError(
            f"{disk.path}: {disk.size_bytes} bytes, and the env allows {smallest} to {largest} for it; nothing was written. Is it another "
            "card, or somebody's disk? If it is right, mend smallest and largest in the env"
        )
