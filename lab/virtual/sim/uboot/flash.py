"""U-Boot's commands for SPI flash, NAND and UBI, and `mtd`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lab.virtual.sim.program import NS_PER_MS, Program
from lab.virtual.sim.sh.interpreter import Streams
from lab.virtual.sim.storage import USER, FileContent, Space, StorageMedium
from lab.virtual.sim.uboot import media
from lab.virtual.sim.uboot.basics import FAILED, USAGE, is_number, line, number
from lab.virtual.sim.uboot.media import MIB, transfer
from lab.virtual.sim.uboot.uboot import Command, UBoot

FLASH_MIB = 64
ERASE_BYTES = 256 << 10
_ERASE_MIB_S = 1.6


def flash_of(uboot: UBoot) -> str:
    """The medium that the SPI flash is."""
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
        case ["read" | "write" | "erase" | "update" as what, *numbers] if all(map(is_number, numbers)):
            if not uboot.flash_probed:
                yield from line(streams, "No SPI flash selected. Please run `sf probe'")
                return FAILED
            return (yield from _flash(uboot, what, [number(n) for n in numbers], streams))
    yield from line(streams, "sf - SPI flash sub-system\n\nUsage:\nsf probe|read|write|erase|update")
    return USAGE


def _flash(uboot: UBoot, what: str, numbers: Sequence[int], streams: Streams) -> Program[int]:
    wanted = 2 if what == "erase" else 3
    medium = uboot.computer.storage.medium(flash_of(uboot))
    total = media.capacity(uboot.computer, medium, USER)
    if len(numbers) != wanted or numbers[-2] + numbers[-1] > total:
        yield from line(streams, "ERROR: attempting to reach past flash size")
        return FAILED
    offset, size = numbers[-2], numbers[-1]
    match what:
        case "erase":
            if offset % ERASE_BYTES or size % ERASE_BYTES:
                yield from line(streams, "SF: Erase offset/length not multiple of erase size")
                return FAILED
            good = yield from erase(uboot, medium, offset, size)
            yield from line(streams, f"SF: {size} bytes @ {offset:#x} Erased: {'OK' if good else 'ERROR -5'}")
            return 0 if good else FAILED
        case "update":
            return (yield from _update(uboot, medium, numbers[0], offset, size, streams))
        case "write":
            yield from line(streams, f"device 0 offset {offset:#x}, size {size:#x}")
            good = yield from program(uboot, medium, numbers[0], offset, size)
            yield from line(streams, f"SF: {size} bytes @ {offset:#x} Written: {'OK' if good else 'ERROR -5'}")
            return 0 if good else FAILED
    yield from line(streams, f"device 0 offset {offset:#x}, size {size:#x}")
    yield from transfer(uboot.computer, medium.name, size, raw=True)
    yield from uboot.computer.at("uboot.load")
    media.load(uboot.computer, medium, USER, offset, uboot.ram, numbers[0], size)
    uboot.memory[numbers[0]] = _kernel_or(uboot, numbers[0], FileContent(f"{medium.name}@{offset:#x}", size))
    yield from line(streams, f"SF: {size} bytes @ {offset:#x} Read: OK")
    return 0


def erase(uboot: UBoot, medium: StorageMedium, offset: int, size: int) -> Program[bool]:
    """Erase; whether it went well."""
    computer = uboot.computer
    done = 0
    while done < size:
        yield from computer.pause(ERASE_BYTES / (_ERASE_MIB_S * MIB) * 1e9)
        yield from computer.at("uboot.write")
        if media.protected(computer, medium) or any(
            trouble.spoils(medium.name, offset + done, ERASE_BYTES) for trouble in computer.troubles
        ):
            return False
        medium.space().fill(offset + done, min(ERASE_BYTES, size - done), 0xFF)
        done += ERASE_BYTES
    return True


def program(uboot: UBoot, medium: StorageMedium, address: int, offset: int, size: int) -> Program[bool]:
    """Write what was erased; whether it went well."""
    if media.protected(uboot.computer, medium):
        return False
    return (yield from media.store(uboot.computer, medium, USER, offset, uboot.ram, address, size)) == size


def _update(
    uboot: UBoot, medium: StorageMedium, address: int, offset: int, size: int, streams: Streams
) -> Program[int]:
    """Erase and write sector by sector what differs (cmd/sf.c: spi_flash_update)."""
    computer, space = uboot.computer, medium.space()
    start_ns, skipped, done = computer.now_ns + computer.spared_ns, 0, 0
    while done < size:
        count = min(ERASE_BYTES, size - done)
        if uboot.ram.differs_at(address + done, space, offset + done, count) is None:
            skipped += count
        else:
            behind = Space("kept")  # of a sector that is written in part the rest is kept
            behind.copy(0, space, offset + done, ERASE_BYTES)
            behind.copy(0, uboot.ram, address + done, count)
            step = ""
            if not (yield from erase(uboot, medium, offset + done, ERASE_BYTES)):
                step = "erase"
            elif (yield from media.store(computer, medium, USER, offset + done, behind, 0, ERASE_BYTES)) < ERASE_BYTES:
                step = "write"
            if step:
                yield from line(streams, f"SPI flash failed in {step} step")
                return FAILED
        done += count
    ms = max(1, (computer.now_ns + computer.spared_ns - start_ns) // NS_PER_MS)
    yield from line(streams, f"device 0 offset {offset:#x}, size {size:#x}")
    yield from line(
        streams,
        f"{size - skipped} bytes written, {skipped} bytes skipped in {ms // 1000}.{ms % 1000 // 100}s, "
        f"speed {size * 1000 // ms} B/s",
    )
    return 0


def _kernel_or(uboot: UBoot, address: int, content: FileContent) -> FileContent:
    """Name the kernel and device tree at their load addresses.

    The load scripts read them from fixed places of the flash.
    """
    names = {uboot.shell.variables.get("loadaddr"): "kernel", uboot.shell.variables.get("fdtaddr"): "fdt"}
    return FileContent(names.get(f"{address:#x}", content.name), content.size, content.text)


def _nand(uboot: UBoot, arguments: Sequence[str], streams: Streams) -> Program[int]:
    match list(arguments[1:]):
        case ["read", address, offset, size] if all(map(is_number, (address, offset, size))):
            yield from uboot.computer.at("uboot.load")
            yield from line(streams, f"\nNAND read: device 0 offset {offset}, size {size}")
            yield from transfer(uboot.computer, "nand", number(size), raw=True)
            content = FileContent(f"nand@{offset}", number(size))
            uboot.put(number(address), _kernel_or(uboot, number(address), content))
            yield from line(streams, f" {number(size)} bytes read: OK")
            return 0
    yield from line(streams, "nand - NAND sub-system\n\nUsage:\nnand read addr off size")
    return USAGE


def _ubi(uboot: UBoot, arguments: Sequence[str], streams: Streams) -> Program[int]:
    match list(arguments[1:]):
        case ["part", name]:
            yield from line(streams, "ubi0: attaching mtd6")
            yield from uboot.computer.pause(180 * NS_PER_MS)
            if uboot.computer.storage.medium(flash_of(uboot)).blank:
                yield from line(streams, "ubi0 error: ubi_attach_mtd_dev: failed to attach mtd6, error -22")
                return FAILED
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
    content = FileContent("kernel", family.kernel_bytes) if kernel else FileContent("fdt", family.fdt_bytes)
    yield from line(streams, f"Loading file '{arguments[2]}' to addr {arguments[1]}...")
    yield from transfer(uboot.computer, flash_of(uboot), content.size, published=False)
    uboot.put(number(arguments[1]), content)
    yield from line(streams, "Done")
    return 0


# --- `mtd` (words: U-Boot's cmd/mtd.c) ---


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
    """`mtd list`, `mtd read|write`, `mtd erase`.

    `mtd read|write NAME ADDRESS [OFFSET [SIZE]]`, `mtd erase NAME [OFFSET SIZE]`.
    """
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
        media.load(uboot.computer, medium, USER, start + offset, uboot.ram, address, size)
        uboot.memory[address] = FileContent(f"{name}@{offset:#x}", size)
        return 0
    if not (yield from program(uboot, medium, address, start + offset, size)):
        yield from line(streams, f"Failure while writing at offset {offset:#x}")
        return FAILED
    return 0


COMMANDS: Mapping[str, Command] = {
    "mtd": _mtd,
    "nand": _nand,
    "sf": _sf,
    "ubi": _ubi,
    "ubifsload": _ubifsload,
    "ubifsmount": _ubifsmount,
}
