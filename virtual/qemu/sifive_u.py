"""The machine of the board type sifive_u: SiFive's HiFive Unleashed with the FU540. Its SPL reads the pins MSEL."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Final

from virtual.board import BoardFolder
from virtual.images import cache, disk, flash
from virtual.images.tree import File
from virtual.qemu import packaged
from virtual.qemu.machine import drive, user_network
from virtual.qemu.program import Program

# From 8 on the SD card hangs in SPL (seen with 10.0).
PROGRAM: Final = Program("qemu-system-riscv64", "sifive_u", (7, 7), "bookworm", "qemu-system-misc")
SOFTWARE: Final = packaged.Software(
    board_type="sifive_u",
    suite="trixie",
    architecture="riscv64",
    uboot="u-boot-sifive",
    loaders={
        "usr/lib/u-boot/sifive_unleashed/u-boot-spl.bin": "u-boot-spl.bin",
        "usr/lib/u-boot/sifive_unleashed/u-boot.itb": "u-boot.itb",
    },
    kernel="linux-image-riscv64",
    image="boot/vmlinux-.*",
    device_tree="usr/lib/linux-image-.*/sifive/hifive-unleashed-a00.dtb",
    console="ttySIF0",
    modules=("crc7", "crc-itu-t", "mmc_core", "mmc_block", "of_mmc_spi", "mmc_spi", "spi-sifive"),
)
SPL: Final = "u-boot-spl.bin"
FLASH_BYTES: Final = 32 << 20  # ISSI's IS25WP256
ENV_OFFSET, ENV_BYTES = 0x50_5000, 0x2_0000  # CONFIG_ENV_OFFSET, CONFIG_ENV_SIZE of U-Boot's sifive_unleashed
_SD_OFFSET: Final = 2082 * 512  # CONFIG_SYS_MMCSD_RAW_MODE_U_BOOT_SECTOR
_FLASH_OFFSET: Final = 0x10_5000  # u-boot,spl-payload-offset of its device tree
_KERNEL_OFFSET: Final = 0x60_0000
_ALIGN: Final = 0x1_0000
_SIZE_MIB, _START_MIB = 64, 4
_MEMORY: Final = "8G"  # the board's; SPL wants it, the host gives what is used


class HiFive:
    """A `virtual.qemu.machine.Model`."""

    program = PROGRAM
    drops = True
    board_type = SOFTWARE.board_type

    def images(self, root: Path, report: cache.Report) -> Path:
        """See `Model`."""
        return SOFTWARE.media(self.board_type, root, report, self.build, packaged.text("sifive_u.env"))

    def build(self, folder: Path, packages: Path) -> None:
        """Write SPL and one image per medium into `folder`."""
        # Both media are slow, and U-Boot unpacks what it boots.
        kernel = gzip.compress((packages / packaged.KERNEL).read_bytes(), compresslevel=9, mtime=0)
        device_tree, loader = ((packages / name).read_bytes() for name in (packaged.DEVICE_TREE, "u-boot.itb"))
        (folder / SPL).write_bytes((packages / SPL).read_bytes())
        tree = {
            "boot/kernel": File(kernel),
            "boot/board.dtb": File(device_tree),
            "boot/initrd.gz": File(SOFTWARE.root_file_system(packages, "sd")),
        }
        disk.build(folder / "sd.img", tree, size_mib=_SIZE_MIB, identity=1, start_mib=_START_MIB)
        disk.patch(folder / "sd.img", {_SD_OFFSET: loader})
        initrd = SOFTWARE.root_file_system(packages, "spi_nor")
        dtb_offset = _KERNEL_OFFSET + _aligned(len(kernel))
        initrd_offset = dtb_offset + _aligned(len(device_tree))
        values = {
            "kernel": _KERNEL_OFFSET,
            "kernel_size": len(kernel),
            "dtb": dtb_offset,
            "dtb_size": len(device_tree),
            "initrd": initrd_offset,
            "initrd_size": len(initrd),
        }
        text = packaged.text("sifive_u.env")
        variables = flash.environment(text, {name: f"{value:#x}" for name, value in values.items()})
        parts = {_FLASH_OFFSET: loader, ENV_OFFSET: flash.environment_image(variables, ENV_BYTES)}
        files = {_KERNEL_OFFSET: kernel, dtb_offset: device_tree, initrd_offset: initrd}
        flash.build(folder / "spi_nor.img", parts | files, size_bytes=FLASH_BYTES)

    def words(self, folder: BoardFolder, straps: int, _tap_fd: int | None) -> list[str]:
        """See `Model`: the straps are MSEL."""
        return [
            *("-machine", f"sifive_u,msel={straps}", "-smp", "2", "-m", _MEMORY),
            *("-bios", str(folder.media / SPL)),
            *drive(folder, "sd", "if=sd"),
            *drive(folder, "spi_nor", "if=mtd"),
            *user_network(folder, "cadence_gem"),
        ]


def _aligned(length: int) -> int:
    return -(-length // _ALIGN) * _ALIGN
