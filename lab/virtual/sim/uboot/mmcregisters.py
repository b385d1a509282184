"""U-Boot's commands for an eMMC's extended CSD, and `mmc erase`. Words: U-Boot's cmd/mmc.c."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from lab.virtual.sim.program import NS_PER_MS, Program
from lab.virtual.sim.sh.interpreter import Streams
from lab.virtual.sim.storage import BLOCK_BYTES, BOOT_BUS, BOOT_CONFIG, RST_FUNCTION
from lab.virtual.sim.uboot import blocks
from lab.virtual.sim.uboot.basics import FAILED, USAGE, line
from lab.virtual.sim.uboot.uboot import UBoot

_Register: TypeAlias = Callable[[UBoot, Sequence[int], Streams], Program[int]]
_SWITCH_NS = 5 * NS_PER_MS


def _set(uboot: UBoot, register: int, value: int) -> None:
    registers = uboot.computer.storage.medium("emmc").ext_csd
    for trouble in uboot.computer.troubles:
        value = trouble.keeps(register, registers[register], value)
    registers[register] = value


def _partconf(uboot: UBoot, numbers: Sequence[int], streams: Streams) -> Program[int]:
    """`mmc partconf DEV [ACK BOOT ACCESS]`: it shows U-Boot's own copy (`mmc->part_config`)."""
    if uboot.part_config is None:
        uboot.part_config = uboot.computer.storage.medium("emmc").ext_csd[BOOT_CONFIG]
    if not numbers:
        value = uboot.part_config
        yield from line(
            streams,
            "EXT_CSD[179], PARTITION_CONFIG:\n"
            f"BOOT_ACK: {value >> 6 & 1:#x}\nBOOT_PARTITION_ENABLE: {value >> 3 & 7:#x}\nPARTITION_ACCESS: {value & 7:#x}",
        )
        return 0
    if len(numbers) != 3:
        return USAGE
    acknowledge, enabled, access = numbers
    yield from uboot.computer.pause(_SWITCH_NS)
    yield from uboot.computer.at("uboot.write")
    uboot.part_config = (acknowledge & 1) << 6 | (enabled & 7) << 3 | access & 7
    _set(uboot, BOOT_CONFIG, uboot.part_config)
    return 0


def _bootbus(uboot: UBoot, numbers: Sequence[int], streams: Streams) -> Program[int]:
    """`mmc bootbus DEV WIDTH RESET MODE`."""
    if len(numbers) != 3:
        return USAGE
    width, reset, mode = numbers
    yield from uboot.computer.pause(_SWITCH_NS)
    _set(uboot, BOOT_BUS, mode << 3 | reset << 2 | width)
    yield from line(streams, f"Set to BOOT_BUS_WIDTH = {width:#x}, RESET = {reset:#x}, BOOT_MODE = {mode:#x}")
    return 0


def _rst_function(uboot: UBoot, numbers: Sequence[int], _streams: Streams) -> Program[int]:
    """`mmc rst-function DEV VALUE`: the register can be written once."""
    yield from ()
    if len(numbers) != 1:
        return USAGE
    _set(uboot, RST_FUNCTION, numbers[0])
    uboot.computer.storage.burned.append(f"mmc rst-function {numbers[0]:x}")
    return 0


def erase(uboot: UBoot, block: int, count: int, streams: Streams) -> Program[int]:
    """`mmc erase BLOCK COUNT`."""
    computer = uboot.computer
    name = computer.model.mmc_media.get(uboot.mmc_device)
    if name is None:
        return FAILED
    medium = computer.storage.medium(name)
    yield from streams.out(f"\nMMC erase: dev # {uboot.mmc_device}, block # {block}, count {count} ... ".encode())
    if blocks.protected(computer, medium):
        yield from line(streams, "Error: card is write protected!")
        return FAILED
    fits = (block + count) * BLOCK_BYTES <= blocks.capacity(computer, medium, uboot.mmc_partition)
    yield from computer.pause(_SWITCH_NS)
    if fits:
        medium.space(uboot.mmc_partition).fill(block * BLOCK_BYTES, count * BLOCK_BYTES, 0x00)
    yield from line(streams, f"{count if fits else 0} blocks erased: {'OK' if fits else 'ERROR'}")
    return 0 if fits else FAILED


COMMANDS: Mapping[str, _Register] = {"bootbus": _bootbus, "partconf": _partconf, "rst-function": _rst_function}
