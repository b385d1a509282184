"""A U-Boot that writes releases, and U-Boot's own tests (test/py)."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from attrs import frozen

from lab.errors import LabStableError
from lab.virtual.images import cache, debian, tools, uboot

SOURCE: Final = "u-boot"
BUILD: Final = "build"
_PARTS: Final = ("scripts", "test")  # of the sources: test/py runs some of the scripts
_ARCHIVE: Final = "u-boot-tests.tar"
_CONFIG: Final = (".config", "include/autoconf.mk")
_REBUILT: Final = re.compile(r"\+b\d+$")  # of a package's version: from the same sources (Debian Policy 5.6.12.1)


@frozen
class UBootBuild:
    """The U-Boot of a board.

    Attributes:
        name: of its configuration, as U-Boot calls the board.
        package: Debian's, which it is out of.
        suite, architecture: of that.
    """

    name: str
    package: str
    suite: str
    architecture: str


def unpack(of: UBootBuild, packages: Path, folder: Path, root: Path, report: cache.Report) -> None:
    """Write U-Boot's tests and its configuration into `folder`, as SOURCE and BUILD.

    Args:
        packages: the folder with what the board's images are made from.
        root: the image cache; the tests are downloaded when they are not in it.

    Raises:
        LabTransientError: the sources cannot be downloaded.
        LabStableError: they are of another version than the board's U-Boot, or a tool failed.
        ConfigurationError: a tool is not installed.
    """
    version = _REBUILT.sub("", json.loads((packages / cache.MANIFEST).read_text())["packages"][of.package])
    recipe = cache.recipe_hash(suite=of.suite, version=version, parts=_PARTS, config=_CONFIG, name=of.name)

    def fetch(aside: Path) -> Mapping[str, object]:
        return _fetch(aside, of, version, packages, report)

    found = cache.obtain(f"debian-u-boot-tests-{of.name}", recipe, fetch, root=root, report=report)
    folder.mkdir(parents=True, exist_ok=True)
    tools.run(["tar", "--extract", f"--file={found / _ARCHIVE}", f"--directory={folder}"])


def _fetch(folder: Path, of: UBootBuild, version: str, packages: Path, report: cache.Report) -> Mapping[str, object]:
    apt = debian.AptRoot(folder / "apt", of.suite, of.architecture)
    report(f"Downloading the sources of U-Boot {version} (16 to 33 MB) from {apt.mirror}")
    apt.update(sources=True)
    package = apt.source("u-boot")
    if package.version != version:
        raise LabStableError(
            f"{apt.mirror} has the sources of U-Boot {package.version} by now, and the board runs {version}. Have its "
            f"images made anew: rm -r {packages}",
            failure="image_build",
        )
    source, build = folder / SOURCE, folder / BUILD
    source.mkdir()
    uboot.unpack_patched(package.deb, source)
    uboot.configure(source, build, f"{of.name}_defconfig")
    members = [*(f"{SOURCE}/{name}" for name in _PARTS), *(f"{BUILD}/{name}" for name in _CONFIG)]
    tools.run(["tar", "--create", f"--file={folder / _ARCHIVE}", f"--directory={folder}", *members])
    for unpacked in (source, build):
        shutil.rmtree(unpacked)
    apt.clean()
    return {"mirror": apt.mirror, "packages": {package.name: package.version}}


# --- U-Boot for releases on QEMU boards ---
# It takes TFTP from any port, computes SHA-256, and writes QEMU's flash.
#
# Debian's own does neither: its TFTP knows port 69 only, which a user may not open; it takes the two chips side by side
# for one of half the size; and QEMU 7.2 refuses its buffered writes beyond the first 4 KiB of a sector. For U-Boot sends
# the count of words to the sector's address, and QEMU (hw/block/pflash_cfi01.c) takes that for the place of the data; so
# here it sends the count to the data's own address, which lies in the same sector.


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
