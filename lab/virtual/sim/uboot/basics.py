"""U-Boot's commands for its environment, its memory and itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lab.virtual.sim.editor import interruptible_pause
from lab.virtual.sim.program import NS_PER_MS, NS_PER_S, CpuResetError, Program
from lab.virtual.sim.sh.interpreter import Streams
from lab.virtual.sim.uboot.uboot import Command, UBoot

FAILED, USAGE = 1, 1
RAM_BASE = 0x8000_0000
DEVSTAT = 0x4300_0030  # CTRLMMR_MAIN_DEVSTAT of the AM62x: the boot-mode pins as latched


def number(text: str) -> int:
    """A number as U-Boot reads them: hexadecimal, with or without 0x."""
    return int(text, 16)


def is_number(text: str) -> bool:
    """Whether U-Boot would read it as one."""
    try:
        number(text)
    except ValueError:
        return False
    return True


def line(streams: Streams, text: str) -> Program[None]:
    """Print a line."""
    yield from streams.out(text.encode("latin-1", errors="replace") + b"\n")


def _echo(_uboot: UBoot, arguments: Sequence[str], streams: Streams) -> Program[int]:
    words = list(arguments[1:])
    silent_end = words[:1] == ["-n"]
    text = " ".join(words[1:] if silent_end else words)
    yield from streams.out(text.encode("latin-1", errors="replace") + (b"" if silent_end else b"\n"))
    return 0


def _help(_uboot: UBoot, arguments: Sequence[str], streams: Streams) -> Program[int]:
    """All commands; or what the named ones take, which ends with status 1 as U-Boot's own does."""
    from lab.virtual.sim.uboot.help import TEXTS  # noqa: PLC0415

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


COMMANDS: Mapping[str, Command] = {
    "bdinfo": _bdinfo,
    "boot": _boot,
    "echo": _echo,
    "env": _env,
    "false": _status(1),
    "help": _help,
    "md.l": _md,
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
