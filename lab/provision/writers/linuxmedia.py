"""Media as Linux writes and reads them.

Block devices are written by dd, flash and UBI volumes by mtd-utils.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from attrs import frozen

from lab.errors import ConfigurationError
from lab.provision.errors import ImageTooLargeError, MediaMissingError, TargetRefusedError
from lab.provision.image import Hosts
from lab.provision.release import Content, PartPlace
from lab.provision.writer import Step
from lab.provision.writers import linuxanswers as answers
from lab.provision.writers import linuxemmc as emmc
from lab.provision.writers import linuxubi as flash
from lab.provision.writers import planning
from lab.provision.writers.command import CommandPrompt, carry_out

PIECE_BYTES: Final = 16 * 1024 * 1024
MTD: Final = "mtd"
_SPARE_BYTES: Final = 8 * 1024 * 1024  # that a Linux with a piece in its memory still has


class Surface(Protocol):
    """A medium as found on the board.

    size_bytes: of it; None: its parts have sizes of their own. align: bytes in which it is written.
    """

    @property
    def size_bytes(self) -> int | None: ...

    @property
    def align(self) -> int: ...

    def most(self, planned: Sequence[Step], memory: int, /) -> int:
        """The largest piece, with so many bytes of the board's memory free.

        Raises:
            ConfigurationError: they do not do.
        """

    def check(self, prompt: CommandPrompt, content: Content, planned: Sequence[Step], hosts: Hosts | None, /) -> None:
        """Make sure that everything fits, and that the board's tools exist.

        Raises before the first byte.
        """

    def write(self, prompt: CommandPrompt, place: PartPlace | None, offset: int, count: int, /) -> None:
        """Write the piece that is in the board's memory."""

    def compare(
        self, prompt: CommandPrompt, place: PartPlace | None, offset: int, count: int, sha256: str, what: str, /
    ) -> None:
        """Read back and compare."""


class LinuxMedium(Protocol):
    """A medium as the environment names it.

    without: kinds of places that it cannot take (`lab.provision.writers.planning.steps`).
    """

    @property
    def without(self) -> frozenset[str]: ...

    def check(self, content: Content, planned: Sequence[Step], hosts: Hosts | None, /) -> None:
        """Check the release file without a board; raises ConfigurationError."""

    def look(self, prompt: CommandPrompt) -> Surface:
        """Find it, unused.

        Raises:
            MediaMissingError, TargetRefusedError: it is not there, or Linux uses it.
        """


@frozen
class LinuxBlocks:
    """A block device: SD card, NVMe, or eMMC with boot partitions."""

    device: str

    @property
    def without(self) -> frozenset[str]:
        usual = {"partition", "volume", "mtd"}
        return frozenset(usual if emmc.DEVICE.fullmatch(self.device) else usual | {"hardware"})

    def check(self, content: Content, planned: Sequence[Step], hosts: Hosts | None, /) -> None:
        for step in planned:
            answers.check_offset(step.place.offset or 0 if step.place else 0)
        planning.check_ranges(content, answers.SECTOR_BYTES, hosts)

    def look(self, prompt: CommandPrompt) -> Surface:
        answers.expect_unused(carry_out(prompt, answers.ask_uses(self.device)), self.device)
        return _BlockSurface(
            self.device, answers.sectors(carry_out(prompt, answers.size_of(self.device)), self.device)
        )


@frozen
class _BlockSurface:
    device: str
    size_bytes: int
    align: int = answers.SECTOR_BYTES

    def most(self, _planned: Sequence[Step], memory: int, /) -> int:
        room = min(PIECE_BYTES, memory - _SPARE_BYTES) // (1 << 20) * (1 << 20)
        if room <= 0:
            raise _too_little(1 << 20, memory)
        return room

    def check(self, prompt: CommandPrompt, content: Content, planned: Sequence[Step], _hosts: Hosts | None, /) -> None:
        """Check an eMMC's boot partitions.

        `planning.check_fits` compares the size of the rest.
        """
        emmc.check(prompt, self.device, content, planned)

    def write(self, prompt: CommandPrompt, place: PartPlace | None, offset: int, count: int, /) -> None:
        device = self._of(place)
        command = answers.write(device, offset, count)
        carry_out(prompt, command if device == self.device else emmc.writable(device, command))

    def compare(
        self, prompt: CommandPrompt, place: PartPlace | None, offset: int, count: int, sha256: str, what: str, /
    ) -> None:
        carry_out(prompt, answers.compare(self._of(place), offset, count, sha256, what))

    def _of(self, place: PartPlace | None) -> str:
        return emmc.partition(self.device, place.hardware if place else "user")


@frozen
class Flash:
    """A flash memory.

    device: e.g. "/dev/mtd0", for parts by offset; empty: for parts by the names of MTD partitions, and UBI volumes in
    them.
    """

    device: str = ""

    @property
    def without(self) -> frozenset[str]:
        usual = {"partition", "hardware"}
        return frozenset(usual | ({"mtd", "volume"} if self.device else {"offset", "image"}))

    def check(self, content: Content, _planned: Sequence[Step], hosts: Hosts | None, /) -> None:
        planning.check_overwritten(content, hosts)

    def look(self, prompt: CommandPrompt) -> Surface:
        partitions = flash.partitions(carry_out(prompt, flash.list_partitions()))
        names = ", ".join(f"{partition.device} {partition.name}" for partition in partitions) or "none"
        if self.device:
            partitions = [partition for partition in partitions if partition.device == self.device]
            if not partitions:
                raise MediaMissingError(f"{self.device}: the board's Linux has no such flash; /proc/mtd has {names}")
        used = carry_out(prompt, flash.ask_uses())
        for partition in partitions:
            flash.expect_unused(used, partition, whole=bool(self.device))
        return _FlashSurface(
            {"" if self.device else partition.name: partition for partition in partitions}, tuple(partitions)
        )


@frozen
class _FlashSurface:
    partitions: Mapping[str, flash.Partition]
    all: tuple[flash.Partition, ...]

    @property
    def size_bytes(self) -> int | None:
        return self.partitions[""].size_bytes if "" in self.partitions else None

    @property
    def align(self) -> int:
        return max(partition.erase_bytes for partition in self.partitions.values())

    def most(self, planned: Sequence[Step], memory: int, /) -> int:
        largest = max(step.bytes for step in planned)
        if largest + _SPARE_BYTES > memory:
            raise _too_little(largest, memory)
        return largest

    def check(self, prompt: CommandPrompt, content: Content, planned: Sequence[Step], hosts: Hosts | None, /) -> None:
        planning.check_ranges(content, self.align, hosts)
        volumes_of: dict[str, dict[str, int]] = {}
        for step in planned:
            on = self._on(step.place)
            offset = (step.place.offset or 0) if step.place else 0
            if offset % on.erase_bytes:
                raise ConfigurationError(
                    f"{step.name}: it must begin at a multiple of "
                    f"{on.erase_bytes:#x}, as the flash is erased in such blocks"
                )
            if step.bytes + offset > on.size_bytes:
                raise ImageTooLargeError(f"{step.name}: {step.bytes} bytes, and {on.device} has {on.size_bytes}")
            if on.kind != flash.NOR and not (step.place and step.place.volume):
                raise ConfigurationError(
                    f"{step.name}: {on.device} is {on.kind}, whose blocks may be bad: let the part lie in a UBI "
                    "volume, or write it from U-Boot"
                )
            carry_out(prompt, flash.ask(step.place))
            if step.place and step.place.volume:
                volumes_of.setdefault(step.place.mtd, {})[step.place.volume] = step.bytes
        for name, volumes in volumes_of.items():
            flash.check(prompt, self.partitions[name], volumes)

    def write(self, prompt: CommandPrompt, place: PartPlace | None, offset: int, count: int) -> None:
        on = self._on(place)
        if place and place.volume:
            carry_out(prompt, flash.update(flash.volume(prompt, on, place.volume), count))
        elif place and place.mtd:
            carry_out(prompt, flash.detach(on))
            carry_out(prompt, flash.copy(on.device, count))
        else:
            carry_out(prompt, flash.erase(on, offset, count))
            carry_out(prompt, answers.write(on.device, offset, count, "notrunc"))

    def compare(
        self, prompt: CommandPrompt, place: PartPlace | None, offset: int, count: int, sha256: str, what: str
    ) -> None:
        on = self._on(place)
        if place and place.volume:
            device = flash.volume(prompt, on, place.volume, only_there=True)
            carry_out(prompt, answers.compare_start(device, count, sha256, what))
        else:
            carry_out(prompt, answers.compare(on.device, offset, count, sha256, what))

    def _on(self, place: PartPlace | None) -> flash.Partition:
        name = place.mtd if place else ""
        if name not in self.partitions:
            raise MediaMissingError(
                f"MTD {name}: the board's Linux has no such partition; it has {', '.join(self.partitions) or 'none'}. "
                "Is the device tree this board's, or `mtdparts=` missing?"
            )
        if len(same := [partition.device for partition in self.all if name and partition.name == name]) > 1:
            raise TargetRefusedError(
                f"MTD {name}: the board's Linux has {len(same)} of this name, {' and '.join(same)}; nothing was "
                "written. Give each a name of its own (`mtdparts=`, or the device tree), or write this medium by "
                "offsets (/dev/mtdN in the env)"
            )
        return self.partitions[name]


def parse(text: str) -> LinuxMedium:
    """A medium as environments name it: "/dev/mmcblk0", "/dev/mtd0", or "mtd".

    Raises:
        ConfigurationError: it is none of these.
    """
    if text == MTD:
        return Flash()
    if not answers.DEVICE.fullmatch(text):
        raise ConfigurationError(
            f"{text!r:.60}: expected a device such as /dev/mmcblk0 or /dev/mtd0, or `mtd` "
            "for parts by the names of MTD partitions"
        )
    return Flash(text) if flash.DEVICE.fullmatch(text) else LinuxBlocks(text)


def _too_little(needed: int, memory: int) -> ConfigurationError:
    return ConfigurationError(
        f"the board's Linux has {memory} bytes of memory free for /run, and a piece of {needed} bytes has to lie "
        "there before it is written. Write this medium from U-Boot, or run a Linux that takes less"
    )
