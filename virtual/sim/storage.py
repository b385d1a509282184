"""What survives power cycles, and what memory holds: contents by name and size, not by bytes."""

from __future__ import annotations

from attrs import define, field, frozen

BLOCK_BYTES = 512
DISK_IDS = {"sd": "076c4a2a", "emmc": "c1f0a9d4"}  # of their partition tables; the first is that of a public log


@frozen
class Content:
    """Some bytes that nobody looks at one by one.

    Attributes:
        name: equal names and sizes are equal contents.
        text: the bytes themselves, of small files that are looked at.
    """

    name: str
    size: int
    text: bytes = b""


@define
class StorageMedium:
    """A medium's FAT files, what was written to it raw (by byte offset), and the U-Boot environment saved on it."""

    files: dict[str, Content] = field(factory=dict)
    raw: dict[int, Content] = field(factory=dict)
    environment: dict[str, str] | None = None

    def read_raw(self, offset: int, size: int, where: str) -> Content:
        """What stands there."""
        written = self.raw.get(offset)
        return (
            Content(written.name, size) if written and written.size >= size else Content(f"{where}@{offset:#x}", size)
        )


@define
class Storage:
    """All media of a board, and the files that Linux changed.

    Attributes:
        files: path -> content, on the root file system.
    """

    media: dict[str, StorageMedium] = field(factory=dict)
    files: dict[str, bytes] = field(factory=dict)

    def medium(self, name: str) -> StorageMedium:
        """The medium of that name, made when it is first asked for."""
        return self.media.setdefault(name, StorageMedium())
