"""All commands of the simulated U-Boot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from virtual.sim.uboot import basics, extlinux, flash, kernel, mmc
from virtual.sim.uboot.uboot import Command

COMMANDS: Final[Mapping[str, Command]] = {
    **basics.COMMANDS,
    **mmc.COMMANDS,
    **flash.COMMANDS,
    **kernel.COMMANDS,
    **extlinux.COMMANDS,
}
