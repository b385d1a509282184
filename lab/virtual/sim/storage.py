"""Memory, and the media of a board that survive power cycles."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

from attrs import define, field, frozen

# --- Sparse bytes of a memory, card or flash ---


PAGE_BYTES: Final = 4096
_LETTERS: Final = hashlib.sha256().digest_size
# A page's bytes, or the name of its contents where nobody has looked at them one by one.
Page: TypeAlias = bytes | str


def _bytes(page: Page) -> bytes:
    """Bytes of a named page, repeatable and different by name."""
    if isinstance(page, bytes):
        return page
    return hashlib.sha256(page.encode()).digest() * (PAGE_BYTES // _LETTERS)


class Space:
    """Bytes from 0 on, copied by whole pages.

    So 64 MiB cost nothing.

    Args:
        name: of what stands in pages that nobody has written, if they are not blank.
        blank: the byte of all pages that nobody has written; None: their bytes follow from `name`.
    """

    def __init__(self, name: str, blank: int | None = None) -> None:
        self._name, self._blank = name, blank
        self._pages: dict[int, Page] = {}

    def touched(self, offset: int, size: int) -> bool:
        """Return whether anything was ever written there."""
        return any(number in self._pages for number in _numbers(offset, size))

    def read(self, offset: int, size: int) -> bytes:
        """The bytes there."""
        first = offset // PAGE_BYTES
        whole = b"".join(_bytes(self._page(number)) for number in _numbers(offset, size))
        return whole[offset - first * PAGE_BYTES :][:size]

    def write(self, offset: int, data: bytes) -> None:
        """Put bytes there."""
        done = 0
        for number in _numbers(offset, len(data)):
            start = offset + done - number * PAGE_BYTES
            part = data[done : done + PAGE_BYTES - start]
            if len(part) < PAGE_BYTES:
                old = _bytes(self._page(number))
                part = old[:start] + part + old[start + len(part) :]
            done += PAGE_BYTES - start
            self._pages[number] = bytes(part)

    def fill(self, offset: int, size: int, byte: int) -> None:
        """Put the same byte everywhere there, as an erase does."""
        first, last = -(-offset // PAGE_BYTES), (offset + size) // PAGE_BYTES
        if first >= last:
            self.write(offset, bytes([byte]) * size)
            return
        whole = bytes([byte]) * PAGE_BYTES
        self._pages |= dict.fromkeys(range(first, last), whole)
        self.write(offset, bytes([byte]) * (first * PAGE_BYTES - offset))
        self.write(last * PAGE_BYTES, bytes([byte]) * (offset + size - last * PAGE_BYTES))

    def copy(self, offset: int, source: Space, start: int, size: int) -> None:
        """Put there what stands in another space."""
        if offset % PAGE_BYTES or start % PAGE_BYTES:
            self.write(offset, source.read(start, size))
            return
        pages = size // PAGE_BYTES
        there, here = start // PAGE_BYTES, offset // PAGE_BYTES
        self._pages |= {here + number: source._page(there + number) for number in range(pages)}
        done = pages * PAGE_BYTES
        if done < size:
            self.write(offset + done, source.read(start + done, size - done))

    def program(self, offset: int, source: Space, start: int, size: int) -> None:
        """The same for flash: a bit that was not erased stays 0."""
        erased = bytes([0xFF]) * PAGE_BYTES
        if all(self._page(number) == erased for number in _numbers(offset, size)):
            self.copy(offset, source, start, size)
            return
        old, new = int.from_bytes(self.read(offset, size), "big"), int.from_bytes(source.read(start, size), "big")
        self.write(offset, (old & new).to_bytes(size, "big"))

    def differs_at(self, offset: int, other: Space, start: int, size: int) -> int | None:
        """Index of the first different byte; None: there is none."""
        step = PAGE_BYTES
        for done in range(0, size, step):
            count = min(step, size - done)
            left, right = self.read(offset + done, count), other.read(start + done, count)
            if left != right:
                return done + next(i for i in range(count) if left[i] != right[i])
        return None

    def digest(self, but: Iterable[tuple[int, int]] = ()) -> str:
        """SHA-256 of all written bytes that differ from the original.

        Args:
            but: offset and size of what does not count, rounded outwards to pages.
        """
        apart = {number for offset, size in but for number in _numbers(offset, size)}
        found = hashlib.sha256()
        for number in sorted(self._pages.keys() - apart):
            data = _bytes(self._pages[number])
            if data != _bytes(self._first(number)):
                found.update(number.to_bytes(8, "big") + data)
        return found.hexdigest()

    def _page(self, number: int) -> Page:
        return self._pages.get(number, self._first(number))

    def _first(self, number: int) -> Page:
        return f"{self._name}:{number}" if self._blank is None else bytes([self._blank]) * PAGE_BYTES


def _numbers(offset: int, size: int) -> Iterator[int]:
    """The pages that a range touches."""
    return iter(range(offset // PAGE_BYTES, -(-(offset + size) // PAGE_BYTES) if size > 0 else offset // PAGE_BYTES))


# --- Media, and contents of memory ---


BLOCK_BYTES = 512
DISK_IDS = {"sd": "076c4a2a", "emmc": "c1f0a9d4"}  # of their partition tables; the first is that of a public log
MIB: Final = 1 << 20
USER: Final = 0  # the hardware partition of an eMMC that is not a boot partition; other media have no other
BOOT_BYTES: Final = 4 * MIB  # of each eMMC boot partition; assumed
BOOT_CONFIG, BOOT_BUS, RST_FUNCTION = 179, 177, 162  # of an eMMC's extended CSD (JESD84-B51, 7.4)
# Capacity of the simulated media in bytes: the SK-AM62's eMMC and flash, an assumed card.
SIZES: Final = {"sd": 30_436 * MIB, "emmc": 15_155 * MIB, "ospi": 64 * MIB, "qspi": 64 * MIB, "nand": 256 * MIB}


@frozen
class FileContent:
    """Bytes of a file, or its name instead.

    The name is enough where the single bytes do not matter.

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
    """A medium: bytes, FAT files, and a saved U-Boot environment.

    Attributes:
        size: bytes of its user area.
        blank: nobody has ever written to it; else it came with the software of the board's release.
        spaces: by hardware partition: the user area, and an eMMC's two boot partitions.
        ext_csd: an eMMC's registers that outlive the power.
    """

    name: str = ""
    size: int = 0
    blank: bool = False
    files: dict[str, FileContent] = field(factory=dict)
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
        """Return whether it has to be erased before a write."""
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
        """SHA-256 of the content by part.

        `but`: partition, offset and size of ignored ranges.
        """
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
