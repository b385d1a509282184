"""A board's life under power: boot ROM, loaders, Linux, resets.

The ROM starts the boot images of a medium, or those that somebody sends over UART or USB.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lab.virtual.sim import firmware, script
from lab.virtual.sim.computer import Computer
from lab.virtual.sim.firmware import STAGES, BootImage
from lab.virtual.sim.linux import filetools, system, text
from lab.virtual.sim.linux.kernel import Kernel
from lab.virtual.sim.linux.sample_outputs import media, memory, network, processor, storage
from lab.virtual.sim.linux.session import Tool
from lab.virtual.sim.linux.user import UserSpace
from lab.virtual.sim.machine import FIFO_BYTES
from lab.virtual.sim.program import CpuResetError, Hear, KexecError, PowerDownError, Program, WarmRestartError
from lab.virtual.sim.serialload import receive
from lab.virtual.sim.setup import FALCON, SBL
from lab.virtual.sim.uboot import basics, fastboot, flash, kernel, loading, mmc
from lab.virtual.sim.uboot.kernel import StartKernelError
from lab.virtual.sim.uboot.uboot import Command, UBoot


def life(computer: Computer) -> Program[None]:
    """Everything from power-on until the board switches itself off."""
    while True:
        try:
            yield from _once(computer)
        except CpuResetError:
            computer.enter("reset")
        except PowerDownError as down:
            computer.enter(down.mode.replace("_", "-") or "powered-down")
            computer.machine.forget_input()
            if not down.mode:
                return
            yield Hear(down.wakes, down.alarm_ns)
        computer.machine.forget_input()
        computer.machine.rx_limit = FIFO_BYTES
        computer.usb.unplug()


def _once(computer: Computer) -> Program[None]:
    computer.enter("rom")
    yield from computer.at("rom")
    bootargs = yield from to_kernel(computer)
    while True:
        kernel = Kernel(computer, bootargs)
        try:
            yield from kernel.run()
            yield from UserSpace(kernel, TOOLS).run()
        except KexecError:
            computer.machine.forget_input()
            computer.draw_durations()


# --- From the boot ROM to the kernel ---


# Output of a ROM without a medium on its UART, in two public logs of AM62x boards: hexadecimal digits that name the
# device, of which this is the beginning, and the "C" with which a receiver asks for XMODEM. The other K3 boards' digits,
# and how often it asks: assumed. The ROM of the AM437x only asks.
_ROM_BLOCK: Final = "02000000011a0000616d3632780000000000000048"
_TFA_SHARE: Final = 0.5  # of the time to U-Boot that TF-A alone takes; assumed
_R5, _A53, _UBOOT = STAGES
_SERIAL, _USB = "UART", "DFU"
_NAMES_SOURCE: Final = "Trying to boot from"
_REFUSED: Final = "Authentication failed!\n### ERROR ### Please RESET the board ###\n"


def to_kernel(computer: Computer) -> Program[str]:
    """Start up until a kernel takes over; returns its command line."""
    selected = computer.select_medium()
    first = _stage(computer, _R5) if selected else None
    if selected and (first is None or not _runs(computer, first)):
        selected, first = False, None
    if first is None:
        computer.enter("rom-without-medium")
        yield from _without_medium(computer)
    else:
        computer.run_software(first.release)
    yield from computer.pause(computer.durations.rom_ns)
    return (yield from (_falcon(computer) if computer.setup.flow == FALCON else _loaders(computer)))


def _came_with(computer: Computer, part: str) -> BootImage:
    return firmware.delivered(part, computer.model.board.name, computer.model.release_name)


def _stage(computer: Computer, part: str) -> BootImage | None:
    return firmware.stage_of(computer.storage.medium(computer.medium), part, _came_with(computer, part))


def _runs(computer: Computer, image: BootImage) -> bool:
    """Return whether this board runs an image.

    It needs its board type, a release of it, and its kind of device.
    """
    board, device = computer.model.board, computer.model.release.device
    return image.board_type == board.name and image.release in board.releases and image.device in {"", device}


def _without_medium(computer: Computer) -> Program[None]:
    """Wait for ever in the ROM, silent or for a program."""
    recovery = computer.model.board.recovery_by(computer.straps)
    if recovery == "usb":
        computer.loader = _USB
    elif recovery == "uart" or computer.setup.rom_talks:
        computer.loader = _SERIAL
        if computer.model.release.sysfw:
            yield from computer.say(_ROM_BLOCK)
    else:
        yield Hear(())
    while not (yield from _taken(computer, _R5, batch=False)):
        pass
    computer.medium = computer.medium or next(iter(computer.model.board.media))
    computer.draw_durations()


def _taken(computer: Computer, part: str, *, batch: bool) -> Program[bool]:
    """Return whether a whole image of this stage came.

    It comes over UART or USB.
    """
    if computer.loader == _USB:
        data = yield from computer.usb.downloaded("bootloader" if part == _R5 else part)
    else:
        received = yield from receive(computer, batch=batch)
        data = b"" if received is None else received.data
    image = firmware.look_at(data)
    if image is None or image.part != part or not _runs(computer, image):
        return False
    computer.run_software(image.release)
    return True


def _loaded(computer: Computer, part: str) -> Program[None]:
    """SPL loads its next stage, or says that it cannot, and hangs."""
    if computer.loader:
        good = yield from _taken(computer, part, batch=True)
    else:
        image = _stage(computer, part)
        good = image is not None and _runs(computer, image)
        if image is not None and good:
            computer.run_software(image.release)
    if not good:
        yield from computer.say(_REFUSED)
        yield Hear(())


def _loaders(computer: Computer) -> Program[str]:
    """Run the loaders; return the kernel's command line.

    They are SPL or SBL, TF-A, and U-Boot with its own SPL.
    """
    durations, sbl = computer.durations, computer.setup.flow == SBL
    if sbl:
        yield from _play(computer, "sbl", durations.sbl_ns, "sbl")
    else:
        yield from _play(computer, "spl", durations.spl_ns, "spl", loads=_A53)
    if computer.model.release.bl31:
        yield from _play(computer, "tfa", durations.tfa_ns, "tfa", "a53", loads=_UBOOT)
    while True:
        try:
            yield from UBoot(computer, COMMANDS).run()
        except WarmRestartError:
            computer.machine.forget_input()
        except StartKernelError as start:
            if start.release:
                computer.run_software(start.release)
            return start.bootargs


def _falcon(computer: Computer) -> Program[str]:
    """Boot by SPL and TF-A; return the kernel's command line.

    SPL's device tree has it.
    """
    durations, board = computer.durations, computer.model.board
    yield from _play(computer, "spl", durations.falcon_ns, "falcon")
    yield from _play(computer, "tfa", round(durations.tfa_ns * _TFA_SHARE), "tfa")
    console, root = board.console, board.media[computer.medium].root
    flash = " rootfstype=ubifs ubi.mtd=ospi.rootfs" if root.startswith("ubi") else ""
    more = computer.setup.variables.get("optargs", "")
    return f"console={console.linux},{console.speed_bd}n8 root={root} rootwait{flash} {more}".rstrip()


def _play(computer: Computer, stage: str, total_ns: int, *texts: str, loads: str = "") -> Program[None]:
    """Print a firmware stage's texts.

    Behind the line that names its source it loads the next stage.
    """
    computer.enter(stage, total_ns)
    family, facts = computer.model.family.loaders or computer.model.family.profile, computer.facts()
    lines = [line for text in texts for line in script.load(f"{family}-{text}", **facts)]
    behind = {_NAMES_SOURCE: _loaded(computer, loads)} if loads else {}
    yield from computer.play(lines, total_ns, behind=behind)


COMMANDS: Final[Mapping[str, Command]] = {
    **basics.COMMANDS,
    **mmc.COMMANDS,
    **loading.COMMANDS,
    **fastboot.COMMANDS,
    **flash.COMMANDS,
    **kernel.COMMANDS,
}
TOOLS: Final[Mapping[str, Tool]] = {
    **text.TOOLS,
    **filetools.TOOLS,
    **system.TOOLS,
    **processor.TOOLS,
    **media.TOOLS,
    **memory.TOOLS,
    **network.TOOLS,
    **storage.TOOLS,
}
