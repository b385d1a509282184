"""U-Boot's way to the kernel through a menu file, extlinux.conf. The lines are boot/pxe_utils.c's, as public logs have them;
the file's sizes and label are made up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lab.virtual.sim.linux.root import device_on
from lab.virtual.sim.program import Program
from lab.virtual.sim.sh.interpreter import Streams
from lab.virtual.sim.storage import Content
from lab.virtual.sim.uboot import kernel
from lab.virtual.sim.uboot.basics import FAILED, USAGE, is_number, line, number
from lab.virtual.sim.uboot.mmc import find, media_of, present
from lab.virtual.sim.uboot.transfer import speed, transfer
from lab.virtual.sim.uboot.uboot import Command, UBoot

_LABEL = "arago"
_MENU = Content("extlinux.conf", 214)


def _sysboot(uboot: UBoot, arguments: Sequence[str], streams: Streams) -> Program[int]:
    """`sysboot mmc DEV:PART any ADDRESS FILE`: boot what the file's first entry says."""
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
    append = f"console={variables['console']} root=/dev/{device_on(model, medium)} rw rootwait"
    variables["bootargs"] = " ".join(f"{append} {variables.get('optargs', '')}".split())
    yield from line(streams, f"append: {variables['bootargs']}")
    tree = "/boot/dtb/board.dtb"
    uboot.put(number(variables["fdtaddr"]), (yield from _retrieve(uboot, medium, tree, None, streams)))
    start = variables["bootkernel"]
    words = [start, variables["loadaddr"], "-", variables["fdtaddr"]]
    return (yield from kernel.COMMANDS[start](uboot, words, streams))


def _retrieve(uboot: UBoot, medium: str, name: str, content: Content | None, streams: Streams) -> Program[Content]:
    found = content or find(uboot, medium, name) or Content(name, 0)
    yield from line(streams, f"Retrieving file: {name}")
    ms = yield from transfer(uboot.computer, medium, found.size, published=False)
    yield from line(streams, f"{found.size} bytes read in {ms} ms ({speed(found.size, ms)})")
    return found


COMMANDS: Mapping[str, Command] = {"sysboot": _sysboot}
