"""Machine of sifive_u: SiFive's HiFive Unleashed with the FU540.

Its SPL reads the pins MSEL.
"""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Final

from lab.virtual import sdmux
from lab.virtual.board import BoardFolder
from lab.virtual.images import cache, debian, disk, uboot
from lab.virtual.images.filetree import RegularFile
from lab.virtual.qemu import benchtools, debian_board, recipe
from lab.virtual.qemu.debian_board import Software
from lab.virtual.qemu.machine import drive, network
from lab.virtual.qemu.program import QemuProgram
from lab.virtual.qemu.uboot import UBootBuild

# From 8 on the SD card hangs in SPL (seen with 10.0).
PROGRAM: Final = QemuProgram("qemu-system-riscv64", "sifive_u", (7, 7), "bookworm", "qemu-system-misc")
SOFTWARE: Final = Software(
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
    network=("libphy", "phylink", "fwnode_mdio", "fixed_phy", "of_mdio", "macb"),
    triplet="riscv64-linux-gnu",
    loader="ld-linux-riscv64-lp64d.so.1",
    known=(
        debian.PinnedPackage(
            "pool/main/u/u-boot/u-boot-sifive_2025.01-3+deb13u1_riscv64.deb",
            "c0e94934131fbc9b9322d6cd3a2b4e45e8c04eb64be1c73726c1081c95c5a7d0",
        ),
        debian.PinnedPackage(
            "pool/main/l/linux/linux-image-6.12.107+deb13-riscv64_6.12.107-1_riscv64.deb",
            "abe9f65d74b434692149482b031db7a2aaf832921e09f69f775293c0e0c5799c",
        ),
        debian.PinnedPackage(
            "pool/main/b/busybox/busybox-static_1.37.0-6+b9_riscv64.deb",
            "4add476d2b185c5b487c285b38d790f0881a7e4a8e2ddde835f917e770eb8633",
        ),
    ),
)
SPL: Final = "u-boot-spl.bin"
PARTITION: Final = "/dev/mmcblk0p"  # of the SD card, as Linux names it, but for the number
FLASH_BYTES: Final = 32 << 20  # ISSI's IS25WP256
ENV_OFFSET, ENV_BYTES = 0x50_5000, 0x2_0000  # CONFIG_ENV_OFFSET, CONFIG_ENV_SIZE of U-Boot's sifive_unleashed
_SD_OFFSET: Final = 2082 * 512  # CONFIG_SYS_MMCSD_RAW_MODE_U_BOOT_SECTOR
_FLASH_OFFSET: Final = 0x10_5000  # u-boot,spl-payload-offset of its device tree
_KERNEL_OFFSET, _INITRD_OFFSET, _DTB_OFFSET = 0x60_0000, 0x140_0000, 0x1F0_0000
FLASH_PARTS: Final = {  # as in lab/boards/types/sifive_u.toml
    "u-boot.itb": _FLASH_OFFSET,
    "u-boot.env": ENV_OFFSET,
    "kernel": _KERNEL_OFFSET,
    "initrd": _INITRD_OFFSET,
    "board.dtb": _DTB_OFFSET,
}
_SIZE_MIB, _START_MIB = 64, 4
_MSEL_SD: Final = 11
_MEMORY: Final = "8G"  # the board's; SPL wants it, the host gives what is used


class HiFive:
    """A `lab.virtual.qemu.machine.QemuModel`.

    Args:
        with_tools: the card holds benchmark programs too.
        with_network: releases can be put on it.
        build_id: of its os-release(5); empty: it has none.
    """

    program = PROGRAM
    drops = True
    board_type = SOFTWARE.board_type
    straps = _MSEL_SD
    uboot = UBootBuild("sifive_unleashed", SOFTWARE.uboot, SOFTWARE.suite, SOFTWARE.architecture)

    def __init__(self, *, with_tools: bool = False, with_network: bool = False, build_id: str = "") -> None:
        self._with_tools = with_tools
        self._with_network = with_network
        self._build_id = build_id

    def images(self, root: Path, report: cache.Report) -> Path:
        name = self.board_type + (recipe.NETWORK if self._with_network else "")
        name += recipe.TOOLS if self._with_tools else ""
        programs = SOFTWARE.programs(root, report) if self._with_tools else None
        script = debian_board.text("sifive_u.env") + self._build_id
        return SOFTWARE.media(name, root, report, self.build, script, programs)

    def build(self, folder: Path, packages: Path, programs: Path | None = None) -> None:
        """Write SPL and one image per medium into `folder`.

        With `programs`, the card has those and a partition to overwrite.
        """
        files = self.files(packages, "sd")
        (folder / SPL).write_bytes((packages / SPL).read_bytes())
        tree = {
            "boot/kernel": RegularFile(files["kernel"]),
            "boot/board.dtb": RegularFile(files["board.dtb"]),
            "boot/initrd.gz": RegularFile(files["initrd"]),
        }
        more = benchtools.partitions(programs) if programs else ()
        disk.build(folder / "sd.img", tree, size_mib=_SIZE_MIB, identity=1, more=more, start_mib=_START_MIB)
        if programs:
            debian_board.grow(folder / "sd.img")
        disk.patch(folder / "sd.img", {_SD_OFFSET: files["u-boot.itb"]})
        parts = {FLASH_PARTS[name]: content for name, content in self.files(packages, "spi_nor").items()}
        uboot.build_flash(folder / "spi_nor.img", parts, size_bytes=FLASH_BYTES)

    def files(self, packages: Path, medium: str) -> dict[str, bytes]:
        """Boot files of a medium: the names of FLASH_PARTS, and bytes."""
        # Both media are slow, and U-Boot unpacks what it boots.
        kernel = gzip.compress((packages / debian_board.KERNEL).read_bytes(), compresslevel=9, mtime=0)
        device_tree = (packages / debian_board.DEVICE_TREE).read_bytes()
        initrd = SOFTWARE.root_file_system(
            packages,
            medium,
            with_network=self._with_network,
            build_id=self._build_id,
            usr=f"{PARTITION}2" if self._with_tools else "",
        )
        values = {
            "kernel": _KERNEL_OFFSET,
            "kernel_size": len(kernel),
            "dtb": _DTB_OFFSET,
            "dtb_size": len(device_tree),
            "initrd": _INITRD_OFFSET,
            "initrd_size": len(initrd),
        }
        text = debian_board.text("sifive_u.env")
        variables = uboot.environment(text, {name: f"{value:#x}" for name, value in values.items()})
        return {
            "u-boot.itb": (packages / "u-boot.itb").read_bytes(),
            "u-boot.env": uboot.environment_image(variables, ENV_BYTES),
            "kernel": kernel,
            "initrd": initrd,
            "board.dtb": device_tree,
        }

    def packages(self, root: Path, report: cache.Report) -> Path:
        return SOFTWARE.obtain(root, report)

    def words(self, folder: BoardFolder, straps: int, tap_fd: int | None) -> list[str]:
        """QEMU's arguments; the straps are MSEL."""
        return [
            *("-machine", f"sifive_u,msel={straps}", "-smp", "2", "-m", _MEMORY),
            *("-bios", str(folder.media / SPL)),
            *(() if sdmux.is_away(folder) else drive(folder, "sd", "if=sd")),
            *drive(folder, "spi_nor", "if=mtd"),
            *network(folder, "cadence_gem", tap_fd),
        ]
