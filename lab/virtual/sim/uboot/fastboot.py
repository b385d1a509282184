"""U-Boot as a fastboot device on the simulated USB port.

Words: U-Boot's drivers/fastboot.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from attrs import evolve, frozen

from lab.virtual.sim.editor import INTERRUPT
from lab.virtual.sim.program import Hear, Program
from lab.virtual.sim.sh.interpreter import InterruptedCommandError, Streams
from lab.virtual.sim.storage import FileContent
from lab.virtual.sim.uboot.basics import USAGE, is_number, number
from lab.virtual.sim.uboot.uboot import Command, UBoot
from lab.virtual.sim.usb import PORT

_MOST_BYTES: Final = 64 << 20  # CONFIG_FASTBOOT_BUF_SIZE
_BUFFER: Final = 0x8200_0000  # CONFIG_FASTBOOT_BUF_ADDR


@frozen
class _Buffer:
    """Buffer of a download."""

    address: int = _BUFFER
    size: int = _MOST_BYTES


def _fastboot(uboot: UBoot, arguments: Sequence[str], streams: Streams) -> Program[int]:
    """`fastboot [-l ADDRESS] [-s SIZE] usb 0`, until ctrl-C or `continue` (cmd/fastboot.c)."""
    words, buffer = list(arguments[1:]), _Buffer()
    while len(words) > 1 and words[0] in {"-l", "-s"} and is_number(words[1]):
        buffer = evolve(buffer, **{"address" if words[0] == "-l" else "size": number(words[1])})
        del words[:2]
    if words not in (["usb", "0"], ["0"]):
        return USAGE
    usb = uboot.computer.usb
    usb.fastboot = True
    try:
        while True:
            yield from _heard(uboot)
            while usb.packets:
                text = usb.packets.popleft().decode("latin-1")
                usb.answers.append((yield from _answer(uboot, text, buffer, streams)))
                if text == "continue":
                    return 0
    except InterruptedCommandError:
        return 0
    finally:
        usb.fastboot = False
        usb.packets.clear()


def _heard(uboot: UBoot) -> Program[None]:
    """Until something came over USB.

    Raises:
        InterruptedCommandError: ctrl-C.
    """
    console = uboot.computer.console
    while True:
        typed = yield Hear((PORT, console))
        if typed is not None and typed.uart == console:
            if typed.byte == INTERRUPT:
                raise InterruptedCommandError
            continue
        return


def _answer(uboot: UBoot, text: str, buffer: _Buffer, streams: Streams) -> Program[bytes]:
    name, _, value = text.partition(":")
    match name:
        case "getvar":  # drivers/fastboot/fb_getvar.c
            if value == "product":
                board = uboot.shell.variables.get("board", "")
                return f"OKAY{board}".encode() if board else b"FAILValue not set"
            known = {"version": "0.4", "max-download-size": f"{buffer.size:#x}"}
            return f"OKAY{known[value]}".encode() if value in known else b"FAILVariable not implemented"
        case "download":  # drivers/fastboot/fb_command.c
            if not is_number(value):
                return b"FAILExpected nonzero image size"
            return (yield from _download(uboot, number(value), buffer))
        case "oem run" | "UCmd":
            status = yield from uboot.shell.execute(value, streams)
            return b"OKAY" if status == 0 else b"FAIL"
        case "continue":
            return b"OKAY"
    return b"FAILunrecognized command"


def _download(uboot: UBoot, size: int, buffer: _Buffer) -> Program[bytes]:
    usb, data = uboot.computer.usb, bytearray()
    if size == 0:
        return b"FAILExpected nonzero image size"
    if size > buffer.size:
        return b"FAILdata too large"
    usb.answers.append(f"DATA{size:08x}".encode())
    while len(data) < size:
        while usb.packets and len(data) < size:
            data += usb.packets.popleft()
        if len(data) < size:
            yield from _heard(uboot)
    uboot.put(buffer.address, FileContent("fastboot", size, bytes(data[:size])))
    return b"OKAY"


COMMANDS: Mapping[str, Command] = {"fastboot": _fastboot}
