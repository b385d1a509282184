"""U-Boot's commands that hand over to the kernel, extlinux.conf too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lab.virtual.sim.program import NS_PER_MS, Drain, Program
from lab.virtual.sim.sh.interpreter import Streams
from lab.virtual.sim.storage import FileContent
from lab.virtual.sim.uboot.basics import FAILED, USAGE, is_number, line, number
from lab.virtual.sim.uboot.media import speed, transfer
from lab.virtual.sim.uboot.mmc import find, media_of, present
from lab.virtual.sim.uboot.uboot import Command, UBoot


class StartKernelError(Exception):
    """The kernel takes over.

    Args:
        bootargs: its command line.
        release: what it is of; empty: of what the board runs anyway.
    """

    def __init__(self, bootargs: str, release: str = "") -> None:
        super().__init__(bootargs, release)
        self.bootargs, self.release = bootargs, release


def _booti(uboot: UBoot, arguments: Sequence[str], streams: Streams) -> Program[int]:
    """`booti|bootz KERNEL INITRD FDT`."""
    if len(arguments) < 4 or not is_number(arguments[1]) or not is_number(arguments[3]):
        return USAGE
    kernel, fdt = uboot.memory.get(number(arguments[1])), uboot.memory.get(number(arguments[3]))
    if kernel is None or kernel.name != "kernel":
        yield from line(
            streams, "Bad Linux ARM64 Image magic!" if arguments[0] == "booti" else "Bad Linux ARM zImage magic!"
        )
        return FAILED
    if fdt is None or fdt.name != "fdt":
        yield from line(
            streams, "ERROR: Did not find a cmdline Flattened Device Tree\nCould not find a valid device tree"
        )
        return FAILED
    computer, address = uboot.computer, number(arguments[3])
    newer = int(computer.model.release.uboot[:4]) >= 2023
    top = 0x8FFF_F000
    yield from line(streams, f"## Flattened Device Tree blob at {address:08x}")
    yield from line(streams, f"   Booting using the fdt blob at {address:#x}")
    if newer:
        yield from line(streams, f"Working FDT set to {address:x}")
    yield from computer.pause(6 * NS_PER_MS)
    start = top - fdt.size & ~0xFFF
    yield from line(streams, f"   Loading Device Tree to {start:016x}, end {start + fdt.size:016x} ... OK")
    if newer:
        yield from line(streams, f"Working FDT set to {start:x}")
    yield from computer.pause(12 * NS_PER_MS)
    yield from computer.at("kernel.start")
    yield from line(streams, "\nStarting kernel ...\n")
    yield Drain(computer.console)
    raise StartKernelError(" ".join(uboot.shell.variables.get("bootargs", "").split()), uboot.kernel_release)


def _source(uboot: UBoot, arguments: Sequence[str], streams: Streams) -> Program[int]:
    """`source ADDRESS`: a script that was loaded."""
    content = uboot.memory.get(number(arguments[1])) if len(arguments) > 1 and is_number(arguments[1]) else None
    if content is None:
        yield from line(streams, 'Wrong image format for "source" command')
        return FAILED
    yield from line(streams, f"## Executing script at {number(arguments[1]):08x}")
    return (yield from uboot.shell.execute(content.text.decode(errors="replace"), streams))


# --- The menu file extlinux.conf (boot/pxe_utils.c) ---


_LABEL = "arago"
_MENU = FileContent("extlinux.conf", 214)


def _sysboot(uboot: UBoot, arguments: Sequence[str], streams: Streams) -> Program[int]:
    """`sysboot mmc DEV:PART any ADDRESS FILE`: boot the file's first entry."""
    match list(arguments[1:]):
        case ["mmc", place, "any", _address, menu] if is_number(place.partition(":")[0]):
            device = number(place.partition(":")[0])
        case _:
            yield from line(streams, "sysboot - command to get and boot from syslinux files")
            return USAGE
    if not (yield from present(uboot, device, streams)):
        return FAILED
    medium, model, variables = media_of(uboot)[device], uboot.computer.model, uboot.shell.variables
    yield from _retrieve(uboot, medium, menu, _MENU, streams)
    yield from line(streams, f"1:\t{_LABEL}")
    image = f"/boot/{model.family.kernel_file}"
    yield from uboot.computer.at("uboot.load")
    uboot.put(number(variables["loadaddr"]), (yield from _retrieve(uboot, medium, image, None, streams)))
    append = f"console={variables['console']} root=/dev/{model.root_device(medium)} rw rootwait"
    variables["bootargs"] = " ".join(f"{append} {variables.get('optargs', '')}".split())
    yield from line(streams, f"append: {variables['bootargs']}")
    tree = "/boot/dtb/board.dtb"
    uboot.put(number(variables["fdtaddr"]), (yield from _retrieve(uboot, medium, tree, None, streams)))
    start = variables["bootkernel"]
    words = [start, variables["loadaddr"], "-", variables["fdtaddr"]]
    return (yield from COMMANDS[start](uboot, words, streams))


def _retrieve(
    uboot: UBoot, medium: str, name: str, content: FileContent | None, streams: Streams
) -> Program[FileContent]:
    found = content or find(uboot, medium, name) or FileContent(name, 0)
    yield from line(streams, f"Retrieving file: {name}")
    ms = yield from transfer(uboot.computer, medium, found.size, published=False)
    yield from line(streams, f"{found.size} bytes read in {ms} ms ({speed(found.size, ms)})")
    return found


COMMANDS: Mapping[str, Command] = {
    "booti": _booti,
    "bootz": _booti,
    "source": _source,
    "sysboot": _sysboot,
}
