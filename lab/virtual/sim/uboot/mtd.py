"""U-Boot's `mtd`: flash by the names of its partitions. Words: U-Boot's cmd/mtd.c."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lab.virtual.sim.program import Program
from lab.virtual.sim.sh.interpreter import Streams
from lab.virtual.sim.storage import USER, Content
from lab.virtual.sim.uboot import blocks
from lab.virtual.sim.uboot.basics import FAILED, USAGE, is_number, line, number
from lab.virtual.sim.uboot.flash import ERASE_BYTES, erase, flash_of, program
from lab.virtual.sim.uboot.transfer import transfer
from lab.virtual.sim.uboot.uboot import Command, UBoot

# Offset and size; of the SK-AM62's NOR, Linux' k3-am62x-sk-common.dtsi.
PARTITIONS: Mapping[str, tuple[int, int]] = {
    "nor0": (0x0, 0x400_0000),
    "ospi.tiboot3": (0x0, 0x8_0000),
    "ospi.tispl": (0x8_0000, 0x20_0000),
    "ospi.u-boot": (0x28_0000, 0x40_0000),
    "ospi.env": (0x68_0000, 0x4_0000),
    "ospi.env.backup": (0x6C_0000, 0x4_0000),
    "ospi.rootfs": (0x80_0000, 0x37C_0000),
    "ospi.phypattern": (0x3FC_0000, 0x4_0000),
}


def _mtd(uboot: UBoot, arguments: Sequence[str], streams: Streams) -> Program[int]:
    """`mtd list`, `mtd read|write NAME ADDRESS [OFFSET [SIZE]]`, `mtd erase NAME [OFFSET SIZE]`."""
    match list(arguments[1:]):
        case ["list"]:
            yield from line(
                streams, "List of MTD devices:\n* nor0\n  - type: NOR flash\n  - block size: 0x40000 bytes"
            )
            for name, (start, size) in PARTITIONS.items():
                yield from line(streams, f'  - 0x{start:012x}-0x{start + size:012x} : "{name}"')
            return 0
        case ["read" | "write" | "erase" as what, name, *numbers] if all(map(is_number, numbers)):
            if name not in PARTITIONS:
                yield from line(streams, f"MTD device {name} not found, ret -19")
                return FAILED
            return (yield from _work(uboot, what, name, [number(each) for each in numbers], streams))
    yield from line(streams, "mtd - MTD utils\n\nUsage:\nmtd list|read|write|erase")
    return USAGE


def _work(uboot: UBoot, what: str, name: str, numbers: list[int], streams: Streams) -> Program[int]:
    start, room = PARTITIONS[name]
    if what != "erase" and not numbers:
        return USAGE
    address = numbers.pop(0) if what != "erase" else 0
    offset = numbers[0] if numbers else 0
    size = numbers[1] if len(numbers) > 1 else room - offset
    if offset + size > room:
        yield from line(streams, f"MTD {name}: offset {offset:#x} and size {size:#x} are past its end")
        return FAILED
    medium = uboot.computer.storage.medium(flash_of(uboot))
    if what == "erase":
        if offset % ERASE_BYTES or size % ERASE_BYTES:
            yield from line(streams, "Offset or size not aligned with a sector")
            return FAILED
        last = offset + size - 1
        yield from line(streams, f"Erasing 0x{offset:08x} ... 0x{last:08x} ({size // ERASE_BYTES} eraseblock(s))")
        if not (yield from erase(uboot, medium, start + offset, size)):
            yield from line(
                streams, f"Skipping bad block at 0x{offset:08x}\nFailure while erasing at offset {offset:#x}"
            )
            return FAILED
        return 0
    yield from line(streams, f"{'Reading' if what == 'read' else 'Writing'} {size} byte(s) at offset 0x{offset:08x}")
    if what == "read":
        yield from transfer(uboot.computer, medium.name, size, raw=True)
        blocks.load(uboot.computer, medium, USER, start + offset, uboot.ram, address, size)
        uboot.memory[address] = Content(f"{name}@{offset:#x}", size)
        return 0
    if not (yield from program(uboot, medium, address, start + offset, size)):
        yield from line(streams, f"Failure while writing at offset {offset:#x}")
        return FAILED
    return 0


COMMANDS: Mapping[str, Command] = {"mtd": _mtd}
