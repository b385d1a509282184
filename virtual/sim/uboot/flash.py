"""U-Boot's commands for SPI flash, NAND and UBI."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from virtual.sim.program import NS_PER_MS, Program
from virtual.sim.sh.interpreter import Streams
from virtual.sim.storage import Content
from virtual.sim.uboot.basics import FAILED, USAGE, is_number, line, number
from virtual.sim.uboot.transfer import MIB, transfer
from virtual.sim.uboot.uboot import Command, UBoot

FLASH_MIB = 64
_ERASE_MIB_S = 1.6


def _medium(uboot: UBoot) -> str:
    return next((name for name in ("ospi", "qspi") if name in uboot.computer.model.board.media), "ospi")


def _sf(uboot: UBoot, arguments: Sequence[str], streams: Streams) -> Program[int]:
    match list(arguments[1:]):
        case ["probe", *_]:
            yield from uboot.computer.pause(12 * NS_PER_MS)
            yield from line(
                streams,
                f"SF: Detected s28hs512t with page size 256 Bytes, erase size 256 KiB, total {FLASH_MIB} MiB",
            )
            uboot.flash_probed = True
            return 0
        case ["read" | "write" | "erase" as what, *numbers] if all(map(is_number, numbers)):
            if not uboot.flash_probed:
                yield from line(streams, "No SPI flash selected. Please run `sf probe'")
                return FAILED
            return (yield from _flash(uboot, what, [number(n) for n in numbers], streams))
    yield from line(streams, "sf - SPI flash sub-system\n\nUsage:\nsf probe|read|write|erase")
    return USAGE


def _flash(uboot: UBoot, what: str, numbers: Sequence[int], streams: Streams) -> Program[int]:
    wanted = 2 if what == "erase" else 3
    if len(numbers) != wanted or numbers[-2] + numbers[-1] > FLASH_MIB * MIB:
        yield from line(streams, "ERROR: attempting to reach past flash size")
        return FAILED
    offset, size = numbers[-2], numbers[-1]
    medium = _medium(uboot)
    store = uboot.computer.storage.medium(medium)
    if what == "erase":
        yield from uboot.computer.pause(size / (_ERASE_MIB_S * MIB) * 1e9)
        store.raw[offset] = Content("erased", size)
        yield from line(streams, f"SF: {size} bytes @ {offset:#x} Erased: OK")
        return 0
    yield from line(streams, f"device 0 offset {offset:#x}, size {size:#x}")
    yield from transfer(uboot.computer, medium, size, write=what == "write", raw=True)
    if what == "read":
        yield from uboot.computer.at("uboot.load")
        uboot.memory[numbers[0]] = _kernel_or(uboot, numbers[0], store.read_raw(offset, size, medium))
    else:
        store.raw[offset] = Content(uboot.content(numbers[0], size).name, size)
    yield from line(streams, f"SF: {size} bytes @ {offset:#x} {'Read' if what == 'read' else 'Written'}: OK")
    return 0


def _kernel_or(uboot: UBoot, address: int, content: Content) -> Content:
    """The load scripts read the kernel and the device tree from fixed places of the flash."""
    names = {uboot.shell.variables.get("loadaddr"): "kernel", uboot.shell.variables.get("fdtaddr"): "fdt"}
    return Content(names.get(f"{address:#x}", content.name), content.size, content.text)


def _nand(uboot: UBoot, arguments: Sequence[str], streams: Streams) -> Program[int]:
    match list(arguments[1:]):
        case ["read", address, offset, size] if all(map(is_number, (address, offset, size))):
            yield from uboot.computer.at("uboot.load")
            yield from line(streams, f"\nNAND read: device 0 offset {offset}, size {size}")
            yield from transfer(uboot.computer, "nand", number(size), raw=True)
            content = Content(f"nand@{offset}", number(size))
            uboot.memory[number(address)] = _kernel_or(uboot, number(address), content)
            yield from line(streams, f" {number(size)} bytes read: OK")
            return 0
    yield from line(streams, "nand - NAND sub-system\n\nUsage:\nnand read addr off size")
    return USAGE


def _ubi(uboot: UBoot, arguments: Sequence[str], streams: Streams) -> Program[int]:
    match list(arguments[1:]):
        case ["part", name]:
            yield from line(streams, "ubi0: attaching mtd6")
            yield from uboot.computer.pause(180 * NS_PER_MS)
            yield from line(streams, f'ubi0: attached mtd6 (name "{name}", size 55 MiB)')
            return 0
    return USAGE


def _ubifsmount(uboot: UBoot, _arguments: Sequence[str], streams: Streams) -> Program[int]:
    yield from uboot.computer.pause(60 * NS_PER_MS)
    yield from line(streams, 'UBIFS (ubi0:0): UBIFS: mounted UBI device 0, volume 0, name "rootfs", R/O mode')
    return 0


def _ubifsload(uboot: UBoot, arguments: Sequence[str], streams: Streams) -> Program[int]:
    if len(arguments) < 3 or not is_number(arguments[1]):
        return USAGE
    family = uboot.computer.model.family
    yield from uboot.computer.at("uboot.load")
    kernel = arguments[2].endswith(family.kernel_file)
    content = Content("kernel", family.kernel_bytes) if kernel else Content("fdt", family.fdt_bytes)
    yield from line(streams, f"Loading file '{arguments[2]}' to addr {arguments[1]}...")
    yield from transfer(uboot.computer, _medium(uboot), content.size, published=False)
    uboot.memory[number(arguments[1])] = content
    yield from line(streams, "Done")
    return 0


COMMANDS: Mapping[str, Command] = {
    "nand": _nand,
    "sf": _sf,
    "ubi": _ubi,
    "ubifsload": _ubifsload,
    "ubifsmount": _ubifsmount,
}
