"""U-Boot's commands for SD and eMMC: raw blocks, files, extended CSD."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from lab.virtual.sim import firmware
from lab.virtual.sim.program import NS_PER_MS, Program
from lab.virtual.sim.sh.interpreter import Streams
from lab.virtual.sim.storage import BLOCK_BYTES, BOOT_BUS, BOOT_CONFIG, DISK_IDS, RST_FUNCTION, FileContent
from lab.virtual.sim.uboot import media
from lab.virtual.sim.uboot.basics import FAILED, USAGE, is_number, line, number
from lab.virtual.sim.uboot.media import speed, transfer
from lab.virtual.sim.uboot.uboot import Command, UBoot

# --- Extended CSD and `mmc erase` (cmd/mmc.c) ---


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
    if media.protected(computer, medium):
        yield from line(streams, "Error: card is write protected!")
        return FAILED
    fits = (block + count) * BLOCK_BYTES <= media.capacity(computer, medium, uboot.mmc_partition)
    yield from computer.pause(_SWITCH_NS)
    if fits:
        medium.space(uboot.mmc_partition).fill(block * BLOCK_BYTES, count * BLOCK_BYTES, 0x00)
    yield from line(streams, f"{count if fits else 0} blocks erased: {'OK' if fits else 'ERROR'}")
    return 0 if fits else FAILED


_REGISTERS: Mapping[str, _Register] = {
    "bootbus": _bootbus,
    "partconf": _partconf,
    "rst-function": _rst_function,
}


# --- SD and eMMC: raw blocks and files ---


_UENV = b"# This file is imported by U-Boot on its way to the kernel.\nuenvcmd=echo Already setup.\n"

_NAMES_SD_TOO = 2021  # U-Boot's year


def media_of(uboot: UBoot) -> dict[int, str]:
    """MMC device -> medium, for the media that the board has."""
    return uboot.computer.model.mmc_media


def _mmc(uboot: UBoot, arguments: Sequence[str], streams: Streams) -> Program[int]:
    match list(arguments[1:]):
        case ["list" | "part" | "dev"]:
            yield from line(streams, _about(uboot, arguments[1]))
            return 0
        case ["dev", device, *partition] if all(map(is_number, partition)):
            return (yield from _dev(uboot, device, partition[0] if partition else "0", streams))
        case ["rescan"]:
            uboot.part_config = None
            yield from uboot.computer.pause(30 * NS_PER_MS)
            return 0 if (yield from present(uboot, uboot.mmc_device, streams)) else FAILED
        case ["info"]:
            return (yield from _mmcinfo(uboot, arguments, streams))
        case ["read" | "write", address, block, count] if all(map(is_number, (address, block, count))):
            return (yield from _blocks(uboot, arguments, streams))
        case ["erase", block, count] if is_number(block) and is_number(count):
            return (yield from erase(uboot, number(block), number(count), streams))
        case [name, device, *numbers] if name in _REGISTERS and is_number(device):
            if media_of(uboot).get(number(device)) != "emmc" or not all(map(is_number, numbers)):
                yield from line(streams, "Device is not eMMC" if name != "partconf" else "partconf: not an MMC device")
                return FAILED
            return (yield from _REGISTERS[name](uboot, [number(each) for each in numbers], streams))
    yield from line(
        streams, "mmc - MMC sub system\n\nUsage:\nmmc info|list|dev|part|rescan|read|write|erase|partconf|bootbus"
    )
    return USAGE


def _about(uboot: UBoot, what: str) -> str:
    if what == "list":
        return uboot.computer.model.family.mmc.replace(", ", "\n")
    if what == "dev":
        return f"mmc{uboot.mmc_device} is current device"
    return (
        f"\nPartition Map for mmc device {uboot.mmc_device}  --   Partition Type: DOS\n\n"
        "Part\tStart Sector\tNum Sectors\tUUID\t\tType\n"
        "  1\t2048      \t262144    \t076c4a2a-01\t0c Boot\n"
        "  2\t264192    \t16777216  \t076c4a2a-02\t83"
    )


def present(uboot: UBoot, device: int, streams: Streams) -> Program[bool]:
    """Return whether the slot has a medium; else print an error."""
    medium = media_of(uboot).get(device)
    if medium is None:
        yield from line(streams, f"no mmc device at slot {device:x}")
        return False
    if medium in uboot.computer.missing_media:
        yield from line(streams, "MMC: no card present")
        return False
    return True


def _dev(uboot: UBoot, device: str, partition: str, streams: Streams) -> Program[int]:
    if not is_number(device) or not (yield from present(uboot, number(device), streams)):
        return FAILED
    if number(partition) not in uboot.computer.storage.medium(media_of(uboot)[number(device)]).partitions:
        yield from line(streams, f"switch to partitions #{number(partition)}, FAILED")
        return FAILED
    uboot.mmc_device, uboot.mmc_partition = number(device), number(partition)
    yield from uboot.computer.pause(25 * NS_PER_MS)
    yield from line(streams, f"switch to partitions #{number(partition)}, OK")
    # cmd/mmc.c names the hardware partition of a card that can have some; the public log of SDK 8.5 has it for SD too
    named = media_of(uboot)[uboot.mmc_device] == "emmc" or uboot.computer.model.year == _NAMES_SD_TOO
    part = f"(part {number(partition)})" if named else ""
    yield from line(streams, f"mmc{uboot.mmc_device}{part} is current device")
    return 0


def _part(uboot: UBoot, arguments: Sequence[str], streams: Streams) -> Program[int]:
    """`part uuid mmc DEV:PART [VARIABLE]`."""
    match list(arguments[1:]):
        case ["uuid", "mmc", place, *variable] if ":" in place and len(variable) <= 1:
            device, _, partition = place.partition(":")
            if not is_number(device) or not is_number(partition):
                return USAGE
            if not (yield from present(uboot, number(device), streams)):
                return FAILED
            uuid = f"{DISK_IDS[media_of(uboot)[number(device)]]}-{number(partition):02x}"
            if variable:
                uboot.shell.variables[variable[0]] = uuid
            else:
                yield from line(streams, uuid)
            return 0
    yield from line(
        streams, "part - disk partition related commands\n\nUsage:\npart uuid <interface> <dev>:<part> [varname]"
    )
    return USAGE


def _mmcinfo(uboot: UBoot, _arguments: Sequence[str], streams: Streams) -> Program[int]:
    if not (yield from present(uboot, uboot.mmc_device, streams)):
        return FAILED
    emmc = media_of(uboot)[uboot.mmc_device] == "emmc"
    for name, value in {
        "Device": uboot.computer.model.family.mmc.split(", ")[-1 if not emmc else 0].split(":")[0],
        "Manufacturer ID": "13" if emmc else "3",
        "OEM": "14e" if emmc else "5344",
        "Name": "S0J56X" if emmc else "SR32G",
        "Bus Speed": "200000000",
        "Mode": "HS200 (200MHz)" if emmc else "UHS SDR104 (208MHz)",
        "Rd Block Len": "512",
        "High Capacity": "Yes",
        "Capacity": "14.8 GiB" if emmc else "29.7 GiB",
        "Bus Width": "8-bit" if emmc else "4-bit",
    }.items():
        yield from line(streams, f"{name}: {value}")
    return 0


def _blocks(uboot: UBoot, arguments: Sequence[str], streams: Streams) -> Program[int]:
    what = arguments[1]
    address, block, count = (number(argument) for argument in arguments[2:])
    if not (yield from present(uboot, uboot.mmc_device, streams)):
        return FAILED
    device, partition, computer = uboot.mmc_device, uboot.mmc_partition, uboot.computer
    medium = computer.storage.medium(media_of(uboot)[device])
    yield from streams.out(f"\nMMC {what}: dev # {device}, block # {block}, count {count} ... ".encode())
    size, offset = count * BLOCK_BYTES, block * BLOCK_BYTES
    total = media.capacity(computer, medium, partition)
    done = count
    if what == "write" and media.protected(computer, medium):
        yield from line(streams, "Error: card is write protected!")
        return FAILED
    if offset + size > total:
        most = total // BLOCK_BYTES
        yield from line(streams, f"MMC: block number {block + count:#x} exceeds max({most:#x})")
        done = 0
    elif what == "read":
        yield from transfer(computer, medium.name, size, raw=True)
        media.load(computer, medium, partition, offset, uboot.ram, address, size)
        uboot.memory[address] = FileContent(f"{medium.name}@{offset:#x}", size)
    else:
        written = yield from media.store(computer, medium, partition, offset, uboot.ram, address, size)
        done = written // BLOCK_BYTES
        if done < count:
            yield from line(streams, "mmc write failed")
            done = 0  # drivers/mmc/mmc_write.c counts only what was written whole
    yield from line(
        streams, f"{done} blocks {'read' if what == 'read' else 'written'}: {'OK' if done == count else 'ERROR'}"
    )
    return 0 if done == count else FAILED


def _load(uboot: UBoot, arguments: Sequence[str], streams: Streams) -> Program[int]:
    """`fatload` and `load`: INTERFACE DEV:PART ADDRESS FILE."""
    if len(arguments) < 5 or not is_number(arguments[3]):
        return USAGE
    device = arguments[2].partition(":")[0]
    if arguments[1] != "mmc" or not is_number(device) or number(device) not in media_of(uboot):
        yield from line(streams, f"** Bad device specification {arguments[1]} {arguments[2]} **")
        return FAILED
    medium, name, address = media_of(uboot)[number(device)], arguments[4], number(arguments[3])
    if medium in uboot.computer.missing_media:
        yield from line(streams, f"** Bad device specification mmc {arguments[2]} **")
        return FAILED
    yield from uboot.computer.at("uboot.load")
    content = find(uboot, medium, name)
    if content is None:
        yield from line(streams, f"Failed to load '{name}'")
        return FAILED
    ms = yield from transfer(uboot.computer, medium, content.size, published=arguments[0] == "fatload")
    uboot.put(address, content)
    yield from line(streams, f"{content.size} bytes read in {ms} ms ({speed(content.size, ms)})")
    return 0


def find(uboot: UBoot, medium: str, name: str) -> FileContent | None:
    """A file of a medium, written there or of the image."""
    computer, family = uboot.computer, uboot.computer.model.family
    files = computer.storage.medium(medium).files
    came_with = firmware.delivered(firmware.SYSTEM, computer.model.board.name, computer.model.release_name)
    system = firmware.system_of(computer.storage.medium(medium), came_with)
    if system is None or name in files:
        return files.get(name)
    if name.startswith("/boot/"):
        uboot.kernel_release = system.release if system.release in computer.model.board.releases else ""
    shipped = {
        f"/boot/{family.kernel_file}": FileContent("kernel", family.kernel_bytes),
        "/boot/dtb/board.dtb": FileContent("fdt", family.fdt_bytes),
        "uEnv.txt": FileContent("uenv", len(_UENV), _UENV),
    }
    return shipped.get(name)


def _fatwrite(uboot: UBoot, arguments: Sequence[str], streams: Streams) -> Program[int]:
    """`fatwrite mmc DEV ADDRESS FILE SIZE`."""
    if len(arguments) < 6 or not is_number(arguments[3]) or not is_number(arguments[5]):
        return USAGE
    device = arguments[2].partition(":")[0]
    if arguments[1] != "mmc" or not is_number(device) or number(device) not in media_of(uboot):
        yield from line(streams, f"** Bad device specification {arguments[1]} {arguments[2]} **")
        return FAILED
    medium, size = media_of(uboot)[number(device)], number(arguments[5])
    ms = yield from transfer(uboot.computer, medium, size, write=True)
    uboot.computer.storage.medium(medium).files[arguments[4]] = uboot.content(number(arguments[3]), size)
    yield from line(streams, f"{size} bytes written in {ms} ms ({speed(size, ms)})")
    return 0


def _fatls(uboot: UBoot, arguments: Sequence[str], streams: Streams) -> Program[int]:
    device = arguments[2].partition(":")[0] if len(arguments) > 2 else ""
    if not is_number(device) or number(device) not in media_of(uboot):
        return USAGE
    files = uboot.computer.storage.medium(media_of(uboot)[number(device)]).files
    sizes = {"uEnv.txt": len(_UENV)} | {name: content.size for name, content in files.items()}
    for name in sorted(sizes):
        yield from line(streams, f"{sizes[name]:9d}   {name}")
    yield from line(streams, f"\n{len(sizes)} file(s), 0 dir(s)")
    return 0


COMMANDS: Mapping[str, Command] = {
    "fatload": _load,
    "fatls": _fatls,
    "fatwrite": _fatwrite,
    "load": _load,
    "mmc": _mmc,
    "mmcinfo": _mmcinfo,
    "part": _part,
}
