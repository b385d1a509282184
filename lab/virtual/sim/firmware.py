"""Boot images of simulated boards, and what a medium boots.

A simulated ROM cannot run real code. Its images are a line of JSON and as many bytes as they like: the line says what
the image is, and the SHA-256 of the bytes, which ROM, SPL and U-Boot check as a K3 checks a signed image. A file of
another form boots nothing.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable
from typing import Final

import cattrs
from attrs import asdict, frozen

from lab.virtual.sim.storage import BOOT_CONFIG, USER, StorageMedium

MAGIC: Final = b"SIMBOOT1 "
_HEADER_BYTES: Final = 512
STAGES: Final = ("tiboot3.bin", "tispl.bin", "u-boot.img")
SYSTEM: Final = "system"  # a whole image: everything else on a medium, with a kernel in it
# Where each begins, by medium, and how much of it a delivered medium has: TI's guides for the SK-AM62, in bytes.
_EMMC: Final = {"tiboot3.bin": 0x0, "tispl.bin": 0x400 * 512, "u-boot.img": 0x1400 * 512}
_FLASH: Final = {"tiboot3.bin": 0x0, "tispl.bin": 0x80000, "u-boot.img": 0x280000}
_DELIVERED_BYTES: Final = 0x50000
_USER_AREA: Final = 7  # of BOOT_PARTITION_ENABLE in the boot configuration


@frozen
class BootImage:
    """Identity of an image, from its header.

    Attributes:
        part: one of STAGES, or SYSTEM.
        board_type: the type that it was built for.
        release: of that type.
        device: "GP", "HS-FS" or "HS-SE": a tiboot3.bin boots only on such a device. Empty: it was not said.
        size: of the bytes behind the header.
        sha256: of those.
    """

    part: str
    board_type: str
    release: str
    size: int
    sha256: str
    device: str = ""


def make(part: str, board_type: str, release: str, size: int = 4096, device: str = "") -> bytes:
    """Make a repeatable image of `size` bytes with its header."""
    body = random.Random(f"{part} {board_type} {release}").randbytes(size)  # noqa: S311 - repeatable, not secret
    image = BootImage(part, board_type, release, size, hashlib.sha256(body).hexdigest(), device)
    return (MAGIC + json.dumps(asdict(image)).encode()).ljust(_HEADER_BYTES - 1) + b"\n" + body


def look(read: Callable[[int, int], bytes]) -> BootImage | None:
    """Read the image that begins there; None: none, or damaged.

    `read` takes offset and size.
    """
    header = read(0, _HEADER_BYTES)
    if not header.startswith(MAGIC):
        return None
    try:
        image = cattrs.structure(json.loads(header[len(MAGIC) :]), BootImage)
    except (ValueError, cattrs.BaseValidationError):
        return None
    return image if hashlib.sha256(read(_HEADER_BYTES, image.size)).hexdigest() == image.sha256 else None


def look_at(data: bytes) -> BootImage | None:
    """Read the image at the start of memory."""
    return look(lambda offset, size: data[offset : offset + size])


def delivered(part: str, board_type: str, release: str) -> BootImage:
    """Image that came with the board."""
    return BootImage(part, board_type, release, 0, "")


def stage_of(medium: StorageMedium, part: str, came_with: BootImage) -> BootImage | None:
    """Image that a medium boots as one of STAGES, or None."""
    if part in medium.files:
        space = medium.files[part].bytes_space
        return look(space.read)
    partition, offset = place_of(medium, part)
    if partition is None:
        return None
    if not medium.blank and not _touched(medium, partition, offset):
        return came_with
    space = medium.space(partition)
    return look(lambda at, size: space.read(offset + at, size))


def system_of(medium: StorageMedium, came_with: BootImage) -> BootImage | None:
    """Root file system on a medium, with its kernel, or None."""
    space = medium.space(USER)
    if medium.flash or not space.read(0, len(MAGIC)).startswith(MAGIC):
        return None if medium.blank else came_with  # a delivered one has its partitions behind its first blocks
    return look(space.read)


def place_of(medium: StorageMedium, part: str) -> tuple[int | None, int]:
    """Hardware partition and offset of a part for ROM or SPL.

    None: the eMMC boots from no partition.
    """
    if medium.name == "emmc":
        enabled = medium.ext_csd[BOOT_CONFIG] >> 3 & 7
        partition = USER if enabled == _USER_AREA else enabled
        return (partition if enabled else None), _EMMC[part]
    return USER, _FLASH[part] if medium.flash else _EMMC[part] + 2048 * 512


def _touched(medium: StorageMedium, partition: int, offset: int) -> bool:
    """Return whether a delivered image was overwritten.

    A card's is a file, and goes with its partition table.
    """
    if not medium.flash and medium.name != "emmc":
        return medium.space().read(0, len(MAGIC)).startswith(MAGIC)
    return medium.space(partition).touched(offset, _DELIVERED_BYTES)
