"""The life of a board under power: ROM, loaders, Linux; resets begin it again."""

from __future__ import annotations

from virtual.sim import script
from virtual.sim.computer import Computer
from virtual.sim.linux.kernel import Kernel
from virtual.sim.linux.user import UserSpace
from virtual.sim.machine import FIFO_BYTES
from virtual.sim.program import (
    NS_PER_S,
    CpuResetError,
    Hear,
    KexecError,
    PowerDownError,
    Program,
    WarmRestartError,
)
from virtual.sim.setup import FALCON, SBL
from virtual.sim.uboot.kernel import StartKernelError
from virtual.sim.uboot.table import COMMANDS
from virtual.sim.uboot.uboot import UBoot

# What a ROM without a medium prints on its UART, in two public logs of AM62x boards: hexadecimal digits that name the
# device, of which this is the beginning, and the "C" with which a receiver asks for XMODEM. The other K3 boards' digits,
# and how often it asks: assumed. The ROM of the AM437x only asks.
_ROM_BLOCK = "02000000011a0000616d3632780000000000000048"
_ASKS_NS = 1 * NS_PER_S
_TFA_SHARE = 0.5  # of the time to U-Boot that TF-A alone takes; assumed


def life(computer: Computer) -> Program[None]:
    """Everything from power on; ends when the board has switched itself off for good."""
    while True:
        try:
            yield from _once(computer)
        except CpuResetError:
            computer.enter("reset")
        except PowerDownError as down:
            computer.enter("powered-down" if not down.wakes else "partial-io")
            computer.machine.forget_input()
            if not down.wakes:
                return
            yield Hear(down.wakes)
        computer.machine.forget_input()
        computer.machine.rx_limit = FIFO_BYTES


def _once(computer: Computer) -> Program[None]:
    computer.enter("rom")
    yield from computer.at("rom")
    if not computer.select_medium():
        computer.enter("rom-without-medium")
        yield from _rom_without_medium(computer)
    yield from computer.pause(computer.durations.rom_ns)
    bootargs = yield from (_falcon(computer) if computer.setup.flow == FALCON else _loaders(computer))
    while True:
        kernel = Kernel(computer, bootargs)
        try:
            yield from kernel.run()
            yield from UserSpace(kernel).run()
        except KexecError:
            computer.machine.forget_input()
            computer.draw_durations()


def _rom_without_medium(computer: Computer) -> Program[None]:
    """The ROM waits for ever: in silence, or for somebody who sends it a program."""
    if computer.setup.rom_talks:
        if computer.model.release.sysfw:
            yield from computer.say(_ROM_BLOCK)
        while True:
            yield from computer.say("C")
            yield from computer.pause(_ASKS_NS)
    yield Hear(())


def _loaders(computer: Computer) -> Program[str]:
    """SPL or SBL, TF-A, and U-Boot with its own SPL; the command line of the kernel that takes over."""
    durations, sbl = computer.durations, computer.setup.flow == SBL
    if sbl:
        yield from _play(computer, "sbl", durations.sbl_ns, "sbl")
    else:
        yield from _play(computer, "spl", durations.spl_ns, "spl")
    if computer.model.release.bl31:
        yield from _play(computer, "tfa", durations.tfa_ns, "tfa", "a53")
    while True:
        try:
            yield from UBoot(computer, COMMANDS).run()
        except WarmRestartError:
            computer.machine.forget_input()
        except StartKernelError as start:
            return start.bootargs


def _falcon(computer: Computer) -> Program[str]:
    """SPL loads the kernel, and TF-A starts it; SPL's device tree has the kernel's command line."""
    durations, board = computer.durations, computer.model.board
    yield from _play(computer, "spl", durations.falcon_ns, "falcon")
    yield from _play(computer, "tfa", round(durations.tfa_ns * _TFA_SHARE), "tfa")
    console, root = board.console, board.media[computer.medium].root
    flash = " rootfstype=ubifs ubi.mtd=ospi.rootfs" if root.startswith("ubi") else ""
    more = computer.setup.variables.get("optargs", "")
    return f"console={console.linux},{console.speed_bd}n8 root={root} rootwait{flash} {more}".rstrip()


def _play(computer: Computer, stage: str, total_ns: int, *texts: str) -> Program[None]:
    """A stage of the firmware says its texts."""
    computer.enter(stage, total_ns)
    family, facts = computer.model.family.profile, computer.facts()
    lines = [line for text in texts for line in script.load(f"{family}-{text}", **facts)]
    yield from script.play(computer, lines, total_ns)
