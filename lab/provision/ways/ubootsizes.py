"""How large a medium is and in which blocks it is erased, as U-Boot says it.

The texts: U-Boot's lib/display_options.c (print_size), cmd/mmc.c, cmd/nvme.c, drivers/mtd/spi/spi-nor-core.c, cmd/mtd.c,
drivers/mtd/cfi_flash.c and cmd/ubi.c of v2023.01 to v2025.01.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from lab.errors import ConfigurationError
from lab.provision.failures import MediaMissingError
from lab.provision.ways.command import said

BLOCK_BYTES: Final = 512
_EXACT: Final = re.compile(r"Capacity: .*\((\d+) x (\d+)\)")
_DEVICE: Final = re.compile(r"^\s*Device (\d+): ", re.MULTILINE)
_ROUNDED: Final = re.compile(r"^Capacity: (\d+(?:\.\d)?) (KiB|MiB|GiB|TiB)", re.MULTILINE)
_SPI: Final = re.compile(r"total (\d+(?:\.\d)?) (Bytes|KiB|MiB|GiB)")
_BANK: Final = re.compile(r"Size: (\d+) (kB|MB) in (\d+) Sectors(.*?)(?=Bank #|\Z)", re.DOTALL)
_SECTOR: Final = re.compile(r"^ +([0-9A-F]{8,16}) ", re.MULTILINE)
_MTD_DEVICE: Final = re.compile(r"^\* ", re.MULTILINE)
_MTD_BLOCK: Final = re.compile(r"block size: (0x[0-9a-f]+) bytes")
_UBI_VOLUME: Final = re.compile(r"reserved_pebs\s+(\d+).*?usable_leb_size\s+(\d+).*?\bname\s+(\S+)", re.DOTALL)
_UNITS: Final = {
    "Bytes": 1,
    "KiB": 1 << 10,
    "kB": 1 << 10,
    "MiB": 1 << 20,
    "MB": 1 << 20,
    "GiB": 1 << 30,
    "TiB": 1 << 40,
}


def block_device(lines: Sequence[str], number: int = 0) -> int | None:
    """Bytes of a block device, of `nvme info`, `virtio info` or `mmc info`; None: it does not say.

    The first two list all devices. `mmc info` rounds to a tenth of its unit; this is the most that it can mean, and only a read tells
    the rest.

    Raises:
        ConfigurationError: its blocks are not of 512 bytes: U-Boot counts in the device's own (drivers/nvme, drivers/virtio).
    """
    text = "\n".join(lines)
    _, *listed = _DEVICE.split(text)
    text = dict(zip(listed[::2], listed[1::2], strict=True)).get(str(number), text)
    if exact := _EXACT.search(text):
        if int(exact[2]) != BLOCK_BYTES:
            raise ConfigurationError(
                f"device {number}: its blocks have {exact[2]} bytes, and only media with blocks of {BLOCK_BYTES} bytes are written from "
                "U-Boot: write it from Linux, by the env"
            )
        return int(exact[1]) * BLOCK_BYTES
    rounded = _ROUNDED.search(text)
    return round((float(rounded[1]) + 0.05) * _UNITS[rounded[2]]) if rounded else None


def spi_flash(lines: Sequence[str]) -> int | None:
    """Bytes of a flash, of `sf probe`; None: it does not say."""
    found = _SPI.search("\n".join(lines))
    return round(float(found[1]) * _UNITS[found[2]]) if found else None


def mtd(lines: Sequence[str], name: str, erase_bytes: int) -> int | None:
    """Bytes of an MTD device or a part of one, of `mtd list`; None: it does not say.

    Raises:
        MediaMissingError: it is not in the list.
        ConfigurationError: it is erased in blocks that `erase_bytes` is no multiple of.
    """
    for device in _MTD_DEVICE.split("\n".join(lines))[1:]:
        span = re.search(rf'- (0x[0-9a-f]+)-(0x[0-9a-f]+) : "{re.escape(name)}"', device)
        if span is None and device.split("\n", 1)[0].strip() != name:
            continue
        if block := _MTD_BLOCK.search(device):
            _check_erased(name, int(block[1], 16), erase_bytes)
        return int(span[2], 16) - int(span[1], 16) if span else None
    raise MediaMissingError(
        f"MTD {name}: this U-Boot has no such device or part: {said(lines)}. Mend the release file, the env, or U-Boot's mtdparts"
    )


def cfi(lines: Sequence[str], base: int, erase_bytes: int) -> int | None:
    """Bytes of a parallel flash from an address on, of `flinfo`; None: it does not say.

    Raises:
        ConfigurationError: its sectors are such that `erase_bytes` is no multiple of them.
    """
    for count, unit, sectors, rest in _BANK.findall("\n".join(lines)):
        first, size = _SECTOR.search(rest), int(count) * _UNITS[unit]
        if first and int(first[1], 16) <= base < int(first[1], 16) + size:
            _check_erased(f"flash at {base:#x}", size // int(sectors), erase_bytes)
            return int(first[1], 16) + size - base
    return None


def ubi_volume(lines: Sequence[str], name: str) -> int | None:
    """Bytes of a UBI volume, of `ubi info l`; None: it does not say."""
    found = {volume: int(blocks) * int(size) for blocks, size, volume in _UBI_VOLUME.findall("\n".join(lines))}
    return found.get(name)


def _check_erased(what: str, block: int, erase_bytes: int) -> None:
    if block and erase_bytes % block:
        raise ConfigurationError(
            f"{what}: it is erased in blocks of {block} bytes, and the env says {erase_bytes}: set erase_kib to {block / 1024:g} there"
        )
