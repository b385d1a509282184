"""U-Boot for releases on QEMU boards.

It takes TFTP from any port, computes SHA-256, and writes QEMU's flash.

Debian's own does neither: its TFTP knows port 69 only, which a user may not open; it takes the two chips side by side
for one of half the size; and QEMU 7.2 refuses its buffered writes beyond the first 4 KiB of a sector. For U-Boot sends
the count of words to the sector's address, and QEMU (hw/block/pflash_cfi01.c) takes that for the place of the data; so
here it sends the count to the data's own address, which lies in the same sector.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from lab.virtual.images import cache, debian, uboot

FIRMWARE: Final = "u-boot.bin"
_DEFCONFIG: Final = "qemu_arm64_defconfig"
_SETTINGS: Final = ("CONFIG_TFTP_PORT=y", "CONFIG_CMD_HASH=y", "CONFIG_SYS_FLASH_CFI_WIDTH_32BIT=y")
_EDITS: Final = (
    uboot.Edit(
        "drivers/mtd/cfi_flash.c",
        "\t\t\tflash_write_cmd(info, sector, 0, cnt - 1);\n",
        "\t\t\tflash_write_cmd(info, sector, ((ulong)dst - info->start[sector]) >> shift, cnt - 1);\n",
    ),
)


def obtain(root: Path, suite: str, architecture: str, report: cache.Report) -> Path:
    """The folder with FIRMWARE, built when missing.

    Raises:
        LabTransientError: the sources cannot be downloaded.
        LabStableError: they cannot be built.
        ConfigurationError: a tool is not installed.
    """
    edits = [(edit.file, edit.old, edit.new) for edit in _EDITS]

    def fetch(folder: Path) -> Mapping[str, object]:
        apt = debian.AptRoot(folder / "apt", suite, architecture)
        report(f"Downloading the sources of U-Boot (16 MB) from {apt.mirror}, and building it")
        apt.update(sources=True)
        package = apt.source("u-boot")
        (folder / FIRMWARE).write_bytes(uboot.build(package.deb, _DEFCONFIG, _SETTINGS, _EDITS))
        apt.clean()
        return {"mirror": apt.mirror, "packages": {package.name: package.version}}

    recipe = cache.recipe_hash(suite=suite, architecture=architecture, settings=_SETTINGS, edits=edits)
    return cache.obtain(f"loading-u-boot-{suite}", recipe, fetch, root=root, report=report)
