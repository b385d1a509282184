"""U-Boot's commands for itself, its environment and memory, and its `help`."""

from __future__ import annotations

import binascii
import hashlib
from collections.abc import Mapping, Sequence

from lab.virtual.sim.editor import interruptible_pause
from lab.virtual.sim.program import NS_PER_MS, NS_PER_S, CpuResetError, Program
from lab.virtual.sim.sh.interpreter import Streams
from lab.virtual.sim.uboot.uboot import Command, UBoot

# --- Help texts of U-Boot's commands ---


TEXTS: Mapping[str, str] = {
    "bdinfo": "print Board Info structure",
    "boot": "boot default, i.e., run 'bootcmd'",
    "booti": "boot Linux kernel 'Image' format from memory",
    "bootz": "boot Linux zImage image from memory",
    "cmp.b": "memory compare",
    "crc32": "checksum calculation",
    "dhcp": "boot image via network using DHCP/TFTP protocol",
    "echo": "echo args to console",
    "env": "environment handling commands",
    "false": "do nothing, unsuccessfully",
    "fastboot": "run as a fastboot usb or udp device",
    "fatload": "load binary file from a dos filesystem",
    "fatls": "list files in a directory (default /)",
    "fatwrite": "write file into a dos filesystem",
    "fuse": "Fuse sub-system",
    "hash": "compute hash message digest",
    "help": "print command description/usage",
    "load": "load binary file from a filesystem",
    "loady": "load binary file over serial line (ymodem mode)",
    "md.l": "memory display",
    "mmc": "MMC sub system",
    "mmcinfo": "display MMC info",
    "mtd": "MTD utils",
    "mw.b": "memory write (fill)",
    "mw.l": "memory write (fill)",
    "nand": "NAND sub-system",
    "part": "disk partition related commands",
    "printenv": "print environment variables",
    "reset": "Perform RESET of the CPU",
    "run": "run commands in an environment variable",
    "saveenv": "save environment variables to persistent storage",
    "setenv": "set environment variables",
    "sf": "SPI flash sub-system",
    "sleep": "delay execution for some time",
    "source": "run script from memory",
    "sysboot": "command to get and boot from syslinux files",
    "test": "minimal test like /bin/sh",
    "tftpboot": "load file via network using TFTP protocol",
    "time": "run commands and summarize execution time",
    "true": "do nothing, successfully",
    "ubi": "ubi commands",
    "ubifsload": "load file from an UBIFS filesystem",
    "ubifsmount": "mount UBIFS volume",
    "version": "print monitor, compiler and linker version",
}


# --- Commands for environment, memory and U-Boot itself ---


FAILED, USAGE = 1, 1
RAM_BASE = 0x8000_0000
DEVSTAT = 0x4300_0030  # CTRLMMR_MAIN_DEVSTAT of the AM62x: the boot-mode pins as latched


def number(text: str) -> int:
    """A number as U-Boot reads them: hexadecimal, with or without 0x."""
    return int(text, 16)


def is_number(text: str) -> bool:
    """Return whether U-Boot reads it as a number."""
    try:
        number(text)
    except ValueError:
        return False
    return True


def line(streams: Streams, text: str) -> Program[None]:
    """Print a line."""
    yield from streams.out(text.encode("latin-1", errors="replace") + b"\n")


# common/bootstage.c: marks with their share of the time to the countdown, and what is inside them; the shares are assumed.
_MARKS = (
    ("reset", 0.0),
    ("board_init_f", 0.06),
    ("board_init_r", 0.31),
    ("eth_common_init", 0.72),
    ("main_loop", 1.0),
)
_ACCUMULATED = (("dm_f", 0.03), ("dm_r", 0.05), ("of_live", 0.02))


def _bootstage(uboot: UBoot, arguments: Sequence[str], streams: Streams) -> Program[int]:
    """`bootstage report`, where U-Boot was built with it."""
    if not uboot.computer.setup.bootstage:
        yield from line(streams, uboot.unknown(arguments[0]))
        return FAILED
    if arguments[1:] != ["report"]:
        return USAGE
    whole_us = round(uboot.computer.durations.uboot_ns * uboot.computer.time_scale) // 1000
    yield from line(streams, f"Timer summary in microseconds ({len(_MARKS) + len(_ACCUMULATED)} records):")
    yield from line(streams, "       Mark    Elapsed  Stage")
    before_us = 0
    for name, share in _MARKS:
        mark_us = round(whole_us * share)
        yield from line(streams, f"{mark_us:>11,}{mark_us - before_us:>11,}  {name}")
        before_us = mark_us
    yield from line(streams, "\nAccumulated time:")
    for name, share in _ACCUMULATED:
        yield from line(streams, f"{'':11}{round(whole_us * share):>11,}  {name}")
    return 0


def _echo(_uboot: UBoot, arguments: Sequence[str], streams: Streams) -> Program[int]:
    words = list(arguments[1:])
    silent_end = words[:1] == ["-n"]
    text = " ".join(words[1:] if silent_end else words)
    yield from streams.out(text.encode("latin-1", errors="replace") + (b"" if silent_end else b"\n"))
    return 0


def _help(_uboot: UBoot, arguments: Sequence[str], streams: Streams) -> Program[int]:
    """Print all commands, or the usage of the named ones.

    The latter ends with status 1, as U-Boot's own does.
    """

    if len(arguments) == 1:
        for name, text in sorted(TEXTS.items()):
            yield from line(streams, f"{name:<10}- {text}")
        return 0
    for name in arguments[1:]:
        if name not in TEXTS:
            yield from line(
                streams, f"Unknown command '{name}' - try 'help' without arguments for list of all known commands\n"
            )
        else:
            yield from line(streams, f"{name} - {TEXTS[name]}\n\nUsage:\n{name} ")
    return FAILED


def _printenv(uboot: UBoot, arguments: Sequence[str], streams: Streams) -> Program[int]:
    variables = uboot.shell.variables
    if len(arguments) == 1:
        for name in sorted(variables):
            yield from line(streams, f"{name}={variables[name]}")
        size = sum(len(name) + len(value) + 2 for name, value in variables.items())
        yield from line(streams, f"\nEnvironment size: {size}/131067 bytes")
        return 0
    status = 0
    for name in arguments[1:]:
        if name in variables:
            yield from line(streams, f"{name}={variables[name]}")
        else:
            yield from line(streams, f'## Error: "{name}" not defined')
            status = FAILED
    return status


def _setenv(uboot: UBoot, arguments: Sequence[str], _streams: Streams) -> Program[int]:
    yield from ()
    if len(arguments) == 1:
        return USAGE
    if len(arguments) == 2:
        uboot.shell.variables.pop(arguments[1], None)
    else:
        uboot.shell.variables[arguments[1]] = " ".join(arguments[2:])
    return 0


def _env(uboot: UBoot, arguments: Sequence[str], streams: Streams) -> Program[int]:
    match list(arguments[1:]):
        case ["import", *options, _address, _size] if "-t" in options:
            content = uboot.memory.get(number(_address))
            for entry in (content.text if content else b"").decode().splitlines():
                name, equals, value = entry.partition("=")
                if equals:
                    uboot.shell.variables[name] = value
            return 0
        case ["default", *_]:
            yield from line(streams, "## Resetting to default environment")
            uboot.shell.variables = uboot.defaults()
            return 0
        case ["print", *names]:
            return (yield from _printenv(uboot, ["printenv", *names], streams))
        case ["save"]:
            return (yield from _saveenv(uboot, arguments, streams))
    return USAGE


def _saveenv(uboot: UBoot, _arguments: Sequence[str], streams: Streams) -> Program[int]:
    where = "MMC" if uboot.computer.medium in {"sd", "emmc"} else "SPIFlash"
    yield from streams.out(f"Saving Environment to {where}... ".encode())
    yield from uboot.computer.pause(40 * NS_PER_MS)
    uboot.computer.storage.medium(uboot.computer.medium).environment = dict(uboot.shell.variables)
    yield from line(streams, "OK")
    return 0


def _run(uboot: UBoot, arguments: Sequence[str], streams: Streams) -> Program[int]:
    for name in arguments[1:]:
        if name not in uboot.shell.variables:
            yield from line(streams, f'## Error: "{name}" not defined')
            return FAILED
        if status := (yield from uboot.shell.execute(uboot.shell.variables[name], streams)):
            return status
    return 0


def _boot(uboot: UBoot, _arguments: Sequence[str], streams: Streams) -> Program[int]:
    return (yield from _run(uboot, ["run", "bootcmd"], streams))


def _reset(uboot: UBoot, _arguments: Sequence[str], streams: Streams) -> Program[int]:
    yield from line(streams, "resetting ...")
    yield from uboot.computer.pause(20 * NS_PER_MS)
    raise CpuResetError


def _bdinfo(uboot: UBoot, _arguments: Sequence[str], streams: Streams) -> Program[int]:
    size = uboot.computer.model.identity.memory_mib << 20
    facts = {
        "boot_params": 0,
        "DRAM bank": 0,
        "-> start": RAM_BASE,
        "-> size": size,
        "flashstart": 0,
        "flashsize": 0,
        "flashoffset": 0,
        "relocaddr": RAM_BASE + min(size, 2 << 30) - 0x9B_0000,
        "reloc off": 0x7F_B000,
    }
    for name, value in facts.items():
        yield from line(streams, f"{name:<12}= 0x{value:016x}")
    yield from line(streams, f"baudrate    = {uboot.shell.variables.get('baudrate', '115200')} bps")
    return 0


def _version(uboot: UBoot, _arguments: Sequence[str], streams: Streams) -> Program[int]:
    yield from line(streams, f"U-Boot {uboot.computer.model.release.uboot}")
    return 0


def _sleep(uboot: UBoot, arguments: Sequence[str], _streams: Streams) -> Program[int]:
    if len(arguments) != 2 or not arguments[1].replace(".", "", 1).isdigit():
        return USAGE
    yield from interruptible_pause(uboot.computer, float(arguments[1]) * NS_PER_S)
    return 0


def _time(uboot: UBoot, arguments: Sequence[str], streams: Streams) -> Program[int]:
    runner = uboot.runner(arguments[1]) if len(arguments) > 1 else None
    if runner is None:
        yield from line(streams, "Command not found")
        return FAILED
    computer = uboot.computer
    start_ns = computer.now_ns + computer.spared_ns
    status = yield from runner(arguments[1:], streams, uboot.shell)
    took_ms = (computer.now_ns + computer.spared_ns - start_ns) // NS_PER_MS  # at the real board's pace
    minutes, rest_ms = divmod(took_ms, 60_000)
    seconds, ms = divmod(rest_ms, 1000)
    ahead = f"{minutes} minutes, " if minutes else ""
    yield from line(streams, f"\ntime: {ahead}{seconds}.{ms:03d} seconds")
    return status


def _test(_uboot: UBoot, arguments: Sequence[str], _streams: Streams) -> Program[int]:
    yield from ()
    match list(arguments[1:]):
        case ["-n", text]:
            return int(text == "")
        case ["-z", text]:
            return int(text != "")
        case [left, "=" | "==", right]:
            return int(left != right)
        case [left, "!=", right]:
            return int(left == right)
    return FAILED


def _md(uboot: UBoot, arguments: Sequence[str], streams: Streams) -> Program[int]:
    if len(arguments) < 2 or not all(is_number(a) for a in arguments[1:]):
        return USAGE
    address = number(arguments[1])
    for at in range(address, address + 4 * (number(arguments[2]) if len(arguments) > 2 else 64), 16):
        words = [uboot.computer.straps if at + 4 * i == DEVSTAT else 0 for i in range(4)]
        if len(arguments) > 2:
            words = words[: max(1, min(4, number(arguments[2]) - (at - address) // 4))]
        yield from line(streams, f"{at:08x}: {' '.join(f'{word:08x}' for word in words)}")
    return 0


def _status(status: int) -> Command:
    def command(_uboot: UBoot, _arguments: Sequence[str], _streams: Streams) -> Program[int]:
        yield from ()
        return status

    return command


# --- Commands for bytes in memory ---


_ALGORITHMS = ("sha1", "sha256")


def _compare(uboot: UBoot, arguments: Sequence[str], streams: Streams) -> Program[int]:
    if len(arguments) != 4 or not all(is_number(argument) for argument in arguments[1:]):
        return USAGE
    left, right, size = (number(argument) for argument in arguments[1:])
    yield from uboot.computer.pause(size)  # about 1 ns a byte
    same = uboot.ram.differs_at(left, uboot.ram, right, size)
    if same is not None:
        (one,), (two,) = uboot.ram.read(left + same, 1), uboot.ram.read(right + same, 1)
        yield from line(
            streams, f"byte at 0x{left + same:016x} ({one:#x}) != byte at 0x{right + same:016x} ({two:#x})"
        )
    yield from line(streams, f"Total of {size if same is None else same} byte(s) were the same")
    return 0 if same is None else FAILED


def _crc32(uboot: UBoot, arguments: Sequence[str], streams: Streams) -> Program[int]:
    """`crc32 ADDRESS SIZE`."""
    if len(arguments) != 3 or not all(is_number(argument) for argument in arguments[1:]):
        return USAGE
    address, size = number(arguments[1]), number(arguments[2])
    yield from uboot.computer.pause(2 * size)
    found = binascii.crc32(uboot.ram.read(address, size))
    yield from line(streams, f"crc32 for {address:08x} ... {address + size - 1:08x} ==> {found:08x}")
    return 0


def _hash(uboot: UBoot, arguments: Sequence[str], streams: Streams) -> Program[int]:
    """`hash sha256 ADDRESS SIZE [*VARIABLE]`."""
    if len(arguments) not in {4, 5} or not all(is_number(argument) for argument in arguments[2:4]):
        return USAGE
    if arguments[1] not in _ALGORITHMS:
        yield from line(streams, f"Unknown hash algorithm '{arguments[1]}'")
        return FAILED
    address, size = number(arguments[2]), number(arguments[3])
    yield from uboot.computer.pause(10 * size)
    found = hashlib.new(arguments[1], uboot.ram.read(address, size)).hexdigest()
    if len(arguments) == 5:
        uboot.shell.variables[arguments[4].removeprefix("*")] = found
    else:
        said = f"{arguments[1]} for {address:08x} ... {address + size - 1:08x} ==> {found}"
        yield from streams.out(said.encode())  # common/hash.c ends it without a line's end
    return 0


def _fill(uboot: UBoot, arguments: Sequence[str], _streams: Streams) -> Program[int]:
    """`mw.b ADDRESS VALUE [COUNT]`, and `mw.l` with four equal bytes."""
    yield from ()
    if len(arguments) not in {3, 4} or not all(is_number(argument) for argument in arguments[1:]):
        return USAGE
    count = number(arguments[3]) if len(arguments) == 4 else 1
    count *= 4 if arguments[0] == "mw.l" else 1
    uboot.ram.fill(number(arguments[1]), count, number(arguments[2]) & 0xFF)
    return 0


def _fuse(uboot: UBoot, arguments: Sequence[str], streams: Streams) -> Program[int]:
    """Note the fuses that `fuse …` would burn; print nothing back."""
    uboot.computer.storage.burned.append(" ".join(arguments))
    yield from line(streams, "Programming bank 0 word 0x00000000 to 0x00000001...")
    return 0


COMMANDS: Mapping[str, Command] = {
    "bdinfo": _bdinfo,
    "boot": _boot,
    "bootstage": _bootstage,
    "cmp.b": _compare,
    "crc32": _crc32,
    "echo": _echo,
    "env": _env,
    "false": _status(1),
    "fuse": _fuse,
    "hash": _hash,
    "help": _help,
    "md.l": _md,
    "mw.b": _fill,
    "mw.l": _fill,
    "printenv": _printenv,
    "reset": _reset,
    "run": _run,
    "saveenv": _saveenv,
    "setenv": _setenv,
    "sleep": _sleep,
    "test": _test,
    "time": _time,
    "true": _status(0),
    "version": _version,
}
