"""The commands of the simulated U-Boot, in one table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lab.virtual.sim.uboot import basics, fastboot, flash, kernel, loading, mmc
from lab.virtual.sim.uboot.uboot import Command

COMMANDS: Final[Mapping[str, Command]] = {
    **basics.COMMANDS,
    **mmc.COMMANDS,
    **loading.COMMANDS,
    **fastboot.COMMANDS,
    **flash.COMMANDS,
    **kernel.COMMANDS,
}
