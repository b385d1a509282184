"""The life of a board under power: ROM, SPL, TF-A, U-Boot, Linux; resets begin it again."""

from __future__ import annotations

from virtual.sim import script
from virtual.sim.computer import Computer
from virtual.sim.linux.kernel import Kernel
from virtual.sim.linux.user import UserSpace
from virtual.sim.machine import FIFO_BYTES
from virtual.sim.program import CpuResetError, Hear, KexecError, PowerDownError, Program, WarmRestartError
from virtual.sim.uboot.kernel import StartKernelError
from virtual.sim.uboot.uboot import UBoot


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
        yield Hear(())  # the ROM waits in silence
    yield from computer.pause(computer.durations.rom_ns)
    yield from _loaders(computer)
    bootargs = yield from _bootloader(computer)
    while True:
        kernel = Kernel(computer, bootargs)
        try:
            yield from kernel.run()
            yield from UserSpace(kernel).run()
        except KexecError:
            computer.machine.forget_input()
            computer.draw_durations()


def _bootloader(computer: Computer) -> Program[str]:
    """The command line of the kernel that takes over."""
    while True:
        try:
            yield from UBoot(computer).run()
        except WarmRestartError:
            computer.machine.forget_input()
        except StartKernelError as start:
            return start.bootargs


def _loaders(computer: Computer) -> Program[None]:
    model, durations = computer.model, computer.durations
    facts = {**model.facts(), "spl_medium": model.said_by("spl", computer.medium)}
    computer.enter("spl", durations.spl_ns)
    yield from script.play(computer, script.load(f"{model.family.profile}-spl", **facts), durations.spl_ns)
    if model.release.bl31:
        computer.enter("tfa", durations.tfa_ns)
        yield from script.play(computer, script.load(f"{model.family.profile}-tfa", **facts), durations.tfa_ns)
