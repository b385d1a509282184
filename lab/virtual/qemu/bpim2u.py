"""Machine of bpim2u: a Banana Pi M2 Ultra with Allwinner's R40.

Its boot ROM takes SPL from the SD card, and from the eMMC slot where there is no card with one. It has no straps: a
multiplexer selects the medium, as it gives the card to the board or takes it away.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from lab.virtual import sdmux
from lab.virtual.board import BoardFolder
from lab.virtual.images import cache, disk
from lab.virtual.images.filetree import RegularFile
from lab.virtual.qemu import benchtools, debian_board, recipe
from lab.virtual.qemu.debian_board import Software
from lab.virtual.qemu.machine import drive, network
from lab.virtual.qemu.program import QemuProgram
from lab.virtual.qemu.uboot import UBootBuild

PROGRAM: Final = QemuProgram("qemu-system-arm", "bpim2u", (9, 99), "bookworm-backports", "qemu-system-arm")
SOFTWARE: Final = Software(
    board_type="bpim2u",
    suite="bookworm",
    architecture="armhf",
    uboot="u-boot-sunxi",
    loaders={"usr/lib/u-boot/Bananapi_M2_Ultra/u-boot-sunxi-with-spl.bin": "u-boot.bin"},
    kernel="linux-image-armmp",
    image="boot/vmlinuz-.*",
    device_tree="usr/lib/linux-image-.*/sun8i-r40-bananapi-m2-ultra.dtb",
    console="ttyS0",
    modules=("i2c-mv64xxx", "axp20x-regulator", "sunxi-mmc"),
    network=(
        *(
            "libphy",
            "phylink",
            "pcs_xpcs",
            "fwnode_mdio",
            "fixed_phy",
            "of_mdio",
            "stmmac",
            "stmmac-platform",
            "mdio-mux",
        ),
        *("dwmac-sun8i", "realtek"),
    ),
    triplet="arm-linux-gnueabihf",
    loader="ld-linux-armhf.so.3",
)
PARTITIONS: Final = {
    "sd": "/dev/mmcblk0p",
    "emmc": "/dev/mmcblk1p",
}  # as Linux names them, but for the number (texts/bpim2u.cmd)
OTHER_KERNEL: Final = "linux-image-armmp-lpae"  # for a second release; of the same version
MEDIA: Final = {"sd": 0, "emmc": 2}  # medium -> the unit of QEMU's drive (hw/arm/bananapi_m2u.c)
# With the compatible string of Debian's device tree Linux splits large transfers otherwise than the controller of the slot
# takes them (drivers/mmc/host/sunxi-mmc.c, idma_des_size_bits), and writes wrong data without a word.
_MENDED: Final = "fdt set /soc/mmc@1c11000 compatible allwinner,sun8i-r40-mmc allwinner,sun50i-a64-mmc"
_SPL_OFFSET: Final = 8 << 10  # docs/u-boot board/allwinner/sunxi.rst
_SIZE_MIB: Final = 64  # a power of two: an SD card has no other size in QEMU
_SD_CARD: Final = 1  # the strap
_CLOCK_HZ: Final = 24_000_000  # the board's crystal; QEMU's default makes U-Boot's time 2.6 times too fast. Linux: see texts/bpim2u.cmd


class BananaPi:
    """A `lab.virtual.qemu.machine.QemuModel`.

    Args:
        stock: with Debian's device tree as it is; Linux then writes wrong data to the eMMC slot, silently.
        with_tools: its images hold benchmark programs too.
        with_network: releases can be put on it.
        build_id: of its os-release(5); empty: it has none.
        software: what it runs.
    """

    program = PROGRAM
    drops = False
    board_type = SOFTWARE.board_type
    straps = _SD_CARD
    uboot = UBootBuild("Bananapi_M2_Ultra", SOFTWARE.uboot, SOFTWARE.suite, SOFTWARE.architecture)

    def __init__(
        self,
        *,
        stock: bool = False,
        with_tools: bool = False,
        with_network: bool = False,
        build_id: str = "",
        software: Software = SOFTWARE,
    ) -> None:
        self._with_tools = with_tools
        self._stock = stock
        self._with_network = with_network
        self._build_id = build_id
        self._software = software

    def images(self, root: Path, report: cache.Report) -> Path:
        name = self.board_type + ("-stock" if self._stock else "") + (recipe.NETWORK if self._with_network else "")
        name += recipe.TOOLS if self._with_tools else ""
        programs = self._software.programs(root, report) if self._with_tools else None
        return self._software.media(name, root, report, self.build, f"{self.script('*')}{self._build_id}", programs)

    def build(self, folder: Path, packages: Path, programs: Path | None = None) -> None:
        """Write one image per medium into `folder`.

        With `programs`, they have those and partitions to overwrite.
        """
        kernel, device_tree = (
            (packages / name).read_bytes() for name in (debian_board.KERNEL, debian_board.DEVICE_TREE)
        )
        for medium, unit in MEDIA.items():
            tree = {
                "boot/kernel": RegularFile(kernel),
                "boot/board.dtb": RegularFile(device_tree),
                "boot/initrd.gz": RegularFile(
                    self._software.root_file_system(
                        packages,
                        medium,
                        with_network=self._with_network,
                        build_id=self._build_id,
                        usr=f"{PARTITIONS[medium]}2" if programs else "",
                    )
                ),
                "boot/boot.scr": RegularFile(debian_board.boot_script(self.script(medium), "arm")),
            }
            image = folder / f"{medium}.img"
            more = benchtools.partitions(programs) if programs else ()
            disk.build(image, tree, size_mib=_SIZE_MIB, identity=unit + 1, more=more)
            if programs:
                debian_board.grow(image)
            disk.patch(image, {_SPL_OFFSET: (packages / "u-boot.bin").read_bytes()})

    def script(self, medium: str) -> str:
        """U-Boot's script on a medium."""
        return (
            debian_board.text("bpim2u.cmd")
            .replace("@medium@", medium)
            .replace("@device_tree@", "" if self._stock else _MENDED)
        )

    def packages(self, root: Path, report: cache.Report) -> Path:
        return self._software.obtain(root, report)

    def words(self, folder: BoardFolder, straps: int, tap_fd: int | None) -> list[str]:
        """QEMU's arguments; the card needs its strap and the board.

        Without its strap the board has no SD card, nor while the host has it.
        """
        has_card = straps & _SD_CARD and not sdmux.is_away(folder)
        media = [medium for medium in MEDIA if medium != "sd" or has_card]
        return [
            *("-machine", "bpim2u", "-smp", "4", "-global", f"cortex-a7-arm-cpu.cntfrq={_CLOCK_HZ}"),
            *(word for medium in media for word in drive(folder, medium, f"if=sd,index={MEDIA[medium]}")),
            *network(folder, "allwinner-sun8i-emac", tap_fd),
        ]
