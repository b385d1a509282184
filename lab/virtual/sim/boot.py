"""The life of a board under power: ROM, loaders, Linux; resets begin it again."""

from __future__ import annotations

from lab.virtual.sim import bootrom
from lab.virtual.sim.computer import Computer
from lab.virtual.sim.linux.kernel import Kernel
from lab.virtual.sim.linux.user import UserSpace
from lab.virtual.sim.machine import FIFO_BYTES
from lab.virtual.sim.program import CpuResetError, Hear, KexecError, PowerDownError, Program


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
        computer.usb.unplug()


def _once(computer: Computer) -> Program[None]:
    computer.enter("rom")
    yield from computer.at("rom")
    bootargs = yield from bootrom.to_kernel(computer)
    while True:
        kernel = Kernel(computer, bootargs)
        try:
            yield from kernel.run()
            yield from UserSpace(kernel).run()
        except KexecError:
            computer.machine.forget_input()
            computer.draw_durations()
