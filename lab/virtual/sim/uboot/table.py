"""All commands of the simulated U-Boot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lab.virtual.sim.uboot import basics, extlinux, fastboot, flash, kernel, loading, mmc, mtd, ram
from lab.virtual.sim.uboot.uboot import Command

COMMANDS: Final[Mapping[str, Command]] = {
    **basics.COMMANDS,
    **ram.COMMANDS,
    **mmc.COMMANDS,
    **mtd.COMMANDS,
    **loading.COMMANDS,
    **fastboot.COMMANDS,
    **flash.COMMANDS,
    **kernel.COMMANDS,
    **extlinux.COMMANDS,
}
