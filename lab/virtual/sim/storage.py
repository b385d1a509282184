"""What survives power cycles, and what memory holds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from attrs import define, field, frozen

from lab.virtual.sim.space import Space

BLOCK_BYTES = 512
DISK_IDS = {"sd": "076c4a2a", "emmc": "c1f0a9d4"}  # of their partition tables; the first is that of a public log
MIB: Final = 1 << 20
USER: Final = 0  # the hardware partition of an eMMC that is not a boot partition; other media have no other
BOOT_BYTES: Final = 4 * MIB  # of each eMMC boot partition; assumed
BOOT_CONFIG, BOOT_BUS, RST_FUNCTION = 179, 177, 162  # of an eMMC's extended CSD (JESD84-B51, 7.4)
# What the simulated media hold, in bytes; of the SK-AM62's eMMC and flash, of the card assumed.
SIZES: Final = {"sd": 30_436 * MIB, "emmc": 15_155 * MIB, "ospi": 64 * MIB, "qspi": 64 * MIB, "nand": 256 * MIB}


@frozen
class Content:
    """A file's bytes, or their name where nobody looks at them one by one.

    Attributes:
        name: equal names and sizes are equal contents.
        text: the bytes themselves, of small files that are looked at.
        space: where the bytes stand, from 0 on, of a file that was written.
    """

    name: str
    size: int
    text: bytes = b""
    space: Space | None = field(default=None, eq=False)

    @property
    def bytes_space(self) -> Space:
        """Its bytes, from 0 on."""
        if self.space is not None:
            return self.space
        made = Space(self.name)
        if self.text:
            made.write(0, self.text)
        return made


def _delivered() -> dict[int, int]:
    return {BOOT_CONFIG: 0x48, BOOT_BUS: 0x02, RST_FUNCTION: 0}


@define(eq=False)
class StorageMedium:
    """A medium: its bytes, its FAT files, and the U-Boot environment saved on it.

    Attributes:
        size: bytes of its user area.
        blank: nobody has ever written to it; else it came with the software of the board's release.
        spaces: by hardware partition: the user area, and an eMMC's two boot partitions.
        ext_csd: an eMMC's registers that outlive the power.
    """

    name: str = ""
    size: int = 0
    blank: bool = False
    files: dict[str, Content] = field(factory=dict)
    environment: dict[str, str] | None = None
    ext_csd: dict[int, int] = field(factory=_delivered)
    spaces: dict[int, Space] = field(factory=dict)

    def space(self, partition: int = USER) -> Space:
        """A hardware partition."""
        erased = 0xFF if self.flash else 0x00
        delivered = not self.blank and partition in {USER, self.ext_csd[BOOT_CONFIG] >> 3 & 7}
        return self.spaces.setdefault(partition, Space(f"{self.name}.{partition}", None if delivered else erased))

    @property
    def flash(self) -> bool:
        """Whether it has to be erased before it is written."""
        return self.name not in DISK_IDS

    def partition_size(self, partition: int) -> int:
        """Bytes of a hardware partition."""
        return BOOT_BYTES if partition else self.size

    @property
    def partitions(self) -> range:
        """Its hardware partitions."""
        return range(3) if self.name == "emmc" else range(1)

    def wipe(self) -> None:
        """It is as from its factory, without any software."""
        self.blank, self.environment = True, None
        self.files.clear()
        self.spaces.clear()
        self.ext_csd = {BOOT_CONFIG: 0, BOOT_BUS: 0, RST_FUNCTION: 0}

    def digests(self, but: Iterable[tuple[int, int, int]] = ()) -> dict[str, str]:
        """What is on it, as SHA-256 by part; `but`: partition, offset and size of what does not count."""
        apart = list(but)
        found = {
            f"{self.name}.{number}": self.space(number).digest(
                [(at, size) for part, at, size in apart if part == number]
            )
            for number in sorted({*self.partitions, *self.spaces})
        }
        return found | {f"{self.name}/{name}": each.bytes_space.digest() for name, each in sorted(self.files.items())}


@define(eq=False)
class Storage:
    """All media of a board, and the files that Linux changed.

    Attributes:
        files: path -> content, on the root file system.
        burned: what was changed that nothing changes back: one-time registers and fuses, as they were commanded.
    """

    media: dict[str, StorageMedium] = field(factory=dict)
    files: dict[str, bytes] = field(factory=dict)
    burned: list[str] = field(factory=list)

    def medium(self, name: str) -> StorageMedium:
        """The medium of that name, made when it is first asked for."""
        if name not in self.media:
            self.media[name] = StorageMedium(name, SIZES.get(name, SIZES["ospi"]))
        return self.media[name]
