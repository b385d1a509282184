"""Machine of qemu-virt: QEMU's "virt" with virtio, NVMe, CFI flash."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from lab.virtual import sdmux
from lab.virtual.board import BoardFolder
from lab.virtual.images import cache
from lab.virtual.qemu import recipe
from lab.virtual.qemu.machine import drive
from lab.virtual.qemu.program import QemuProgram
from lab.virtual.qemu.uboot import UBootBuild

PROGRAM: Final = QemuProgram("qemu-system-aarch64", "virt")
_MEMORY_MIB, _MEMORY_WITH_TOOLS_MIB = 256, 512
_NETWORK = (
    "e1000e,netdev=link,mac=52:54:00:b0:a2:d1,romfile="  # an Intel 82574L: it knows a speed and paces interrupts
)


class Virt:
    """A `lab.virtual.qemu.machine.QemuModel` of QEMU's "virt".

    SD is virtio-blk, eMMC is NVMe, OSPI is the second CFI flash, which also holds the environment; the strap word is
    latched into RAM at reset.

    Args:
        with_tools: its images hold benchmark programs too.
        with_network: releases can be put on it (`recipe.obtain`).
    """

    program = PROGRAM
    drops = False
    board_type = "qemu-virt"
    straps = 0  # it stays at U-Boot's prompt
    uboot = UBootBuild("qemu_arm64", "u-boot-qemu", recipe.SUITE, recipe.ARCHITECTURE)

    def __init__(self, *, with_tools: bool = False, with_network: bool = False) -> None:
        self._with_tools = with_tools
        self._with_network = with_network

    def images(self, root: Path, report: cache.Report) -> Path:
        return recipe.obtain(root, report, with_tools=self._with_tools, with_network=self._with_network)

    def packages(self, root: Path, report: cache.Report) -> Path:
        return recipe.sources(root, report)

    def words(self, folder: BoardFolder, straps: int, tap_fd: int | None) -> list[str]:
        network: tuple[str, ...] = (
            () if tap_fd is None else ("-netdev", f"tap,id=link,fd={tap_fd}", "-device", _NETWORK)
        )
        if recipe.has_network(folder.media):
            network = ("-netdev", "user,id=lab", "-device", "virtio-net-device,netdev=lab")
        has_card = not sdmux.is_away(folder)
        memory_mib = _MEMORY_WITH_TOOLS_MIB if recipe.has_tools(folder.media) else _MEMORY_MIB
        return [
            # Without random seeds in the device tree every boot does, and prints, the same.
            *("-machine", "virt,dtb-randomness=off", "-cpu", "cortex-a53", "-m", str(memory_mib)),
            *("-bios", str(folder.media / recipe.FIRMWARE)),
            *drive(folder, recipe.FLASH, "if=pflash,unit=1"),
            *(drive(folder, "sd", "if=none,id=sd") if has_card else ()),
            *drive(folder, "emmc", "if=none,id=emmc"),
            *(("-device", "virtio-blk-device,drive=sd") if has_card else ()),
            *("-device", "nvme,drive=emmc,serial=emmc"),
            *("-device", f"loader,addr={recipe.STRAP_WORD:#x},data={straps:#x},data-len=4"),
            *network,
        ]
