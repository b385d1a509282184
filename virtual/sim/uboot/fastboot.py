"""U-Boot as a fastboot device: its protocol's packets on the simulated USB port. Words: U-Boot's drivers/fastboot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from virtual.sim.editor import INTERRUPT
from virtual.sim.program import Hear, Program
from virtual.sim.sh.interpreter import Streams
from virtual.sim.storage import Content
from virtual.sim.uboot.basics import USAGE
from virtual.sim.uboot.uboot import Command, UBoot
from virtual.sim.usb import PORT

_MOST_BYTES: Final = 64 << 20  # CONFIG_FASTBOOT_BUF_SIZE
_BUFFER: Final = 0x8200_0000  # CONFIG_FASTBOOT_BUF_ADDR


def _fastboot(uboot: UBoot, arguments: Sequence[str], streams: Streams) -> Program[int]:
    """`fastboot usb 0`: until ctrl-C, or the host says `continue`."""
    if len(arguments) < 2 or arguments[1] not in {"usb", "0"}:
        return USAGE
    computer, usb = uboot.computer, uboot.computer.usb
    usb.fastboot = True
    try:
        while True:
            typed = yield Hear((PORT, computer.console))
            if typed is not None and typed.uart == computer.console:
                if typed.byte == INTERRUPT:
                    return 0
                continue
            while usb.packets:
                text = usb.packets.popleft().decode("latin-1")
                usb.answers.append((yield from _answer(uboot, text, streams)))
                if text == "continue":
                    return 0
    finally:
        usb.fastboot = False


def _answer(uboot: UBoot, text: str, streams: Streams) -> Program[bytes]:
    name, _, value = text.partition(":")
    match name:
        case "getvar":
            known = {"version": "0.4", "max-download-size": f"{_MOST_BYTES:#x}", "product": "am62x"}
            return f"OKAY{known[value]}".encode() if value in known else b"FAILVariable not implemented"
        case "download":
            return (yield from _download(uboot, int(value, 16)))
        case "oem run" | "UCmd":
            status = yield from uboot.shell.execute(value, streams)
            return b"OKAY" if status == 0 else b"FAIL"
        case "continue":
            return b"OKAY"
    return b"FAILunrecognized command"


def _download(uboot: UBoot, size: int) -> Program[bytes]:
    usb, data = uboot.computer.usb, bytearray()
    if size > _MOST_BYTES:
        return b"FAILdata too large"
    usb.answers.append(f"DATA{size:08x}".encode())
    while len(data) < size:
        while usb.packets:
            data += usb.packets.popleft()
        if len(data) < size:
            yield Hear((PORT,))
    uboot.put(_BUFFER, Content("fastboot", size, bytes(data[:size])))
    return b"OKAY"


COMMANDS: Mapping[str, Command] = {"fastboot": _fastboot}
