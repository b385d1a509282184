"""Faults in which the kernel reports that something died.

The texts are the kernel's own; the numbers in them are made up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from attrs import define, field, validators

from lab.virtual.sim.faults.base import AfterPrompt, Fault, FaultOutcome, for_ever, point
from lab.virtual.sim.program import NS_PER_S, Program

if TYPE_CHECKING:
    from lab.virtual.sim.computer import Computer

# kernel/panic.c; arch/arm64/kernel/stacktrace.c
_PANIC = (
    "Kernel panic - not syncing: Attempted to kill init! exitcode=0x0000000b",
    "CPU: 1 PID: 1 Comm: init Not tainted",
    "Call trace:",
    " dump_backtrace+0x94/0x114",
    " panic+0x16c/0x330",
    " do_exit+0x82c/0x988",
    "---[ end Kernel panic - not syncing: Attempted to kill init! exitcode=0x0000000b ]---",
)
# arch/arm64/mm/fault.c (die_kernel_fault); arch/arm64/kernel/traps.c (__die)
_OOPS = (
    "Unable to handle kernel NULL pointer dereference at virtual address 0000000000000018",
    "Mem abort info:",
    "  ESR = 0x0000000096000004",
    "Internal error: Oops: 0000000096000004 [#1] PREEMPT SMP",
    "CPU: 2 PID: 84 Comm: kworker/2:1 Not tainted",
    "Call trace:",
    " process_one_work+0x148/0x2b8",
    " worker_thread+0x2cc/0x3d4",
    " kthread+0x110/0x114",
    "---[ end trace 0000000000000000 ]---",
)
# arch/arm64/mm/fault.c (fault_info: do_sea) through arch/arm64/kernel/traps.c (__die)
_EXTERNAL_ABORT = (
    "Internal error: synchronous external abort: 0000000096000210 [#1] PREEMPT SMP",
    "CPU: 0 PID: 61 Comm: kworker/u16:3 Not tainted",
    "Workqueue: events_unbound deferred_probe_work_func",
    "Call trace:",
    " clk_mux_get_parent+0x60/0x90",
    " __clk_register+0x4dc/0x7f0",
    "---[ end trace 0000000000000000 ]---",
)
# arch/arm64/kernel/traps.c (arm64_serror_panic), which always ends in a panic
_SERROR = (
    "SError Interrupt on CPU1, code 0x00000000bf000002 -- SError",
    "CPU: 1 PID: 97 Comm: systemd-udevd Not tainted",
    "Kernel panic - not syncing: Asynchronous SError Interrupt",
    "---[ end Kernel panic - not syncing: Asynchronous SError Interrupt ]---",
)
# kernel/watchdog.c (watchdog_timer_fn)
_SOFT_LOCKUP = (
    "watchdog: BUG: soft lockup - CPU#2 stuck for 26s! [kworker/2:1:84]",
    "CPU: 2 PID: 84 Comm: kworker/2:1 Not tainted",
    "Call trace:",
    " _raw_spin_unlock_irqrestore+0x14/0x50",
    " worker_thread+0x2cc/0x3d4",
)


# arch/arm/mm/fault.c (do_DataAbort) and arch/arm/kernel/traps.c (__die), as public logs of AM33x, AM43x and OMAP3 have it
_ARM_ABORT = (
    "Unhandled fault: external abort on non-linefetch (0x1028) at 0xf9e3e054",
    "pgd = c0004000",
    "[f9e3e054] *pgd=44e11452(bad)",
    "Internal error: : 1028 [#1] SMP ARM",
    "Modules linked in:",
    "CPU: 0 PID: 127 Comm: systemd-udevd Not tainted",
    "PC is at omap_rtc_probe+0x388/0x508",
    "---[ end trace c76b7828d6f2f577 ]---",
)


DIED = 1 << 7  # the kernel's taint (Linux Documentation/admin-guide/tainted-kernels.rst)


def oops(computer: Computer) -> Program[None]:
    """A kernel thread dies; the kernel goes on."""
    if computer.kernel is not None:
        computer.kernel.taint |= DIED
    yield from computer.printk(*_OOPS, level=1)


def _board(*failures: str) -> FaultOutcome:
    return FaultOutcome(failures, "board", transient=True)


@define(kw_only=True, eq=False)
class KernelPanic(Fault):
    """The kernel panics while it starts, and stays there."""

    name: ClassVar[str] = "kernel_panic"
    outcome: ClassVar[FaultOutcome] = _board("kernel_panic")
    at_point: str = field(default="kernel.middle", validator=point)

    def at(self, point: str, computer: Computer) -> Program[None]:
        if point == self.at_point:
            yield from computer.printk(*_PANIC, level=0)
            yield from for_ever()


@define(kw_only=True, eq=False)
class Oops(Fault):
    """A driver crashes during the kernel's start, and the boot goes on."""

    name: ClassVar[str] = "oops"
    outcome: ClassVar[FaultOutcome] = _board("kernel_oops")

    def at(self, point: str, computer: Computer) -> Program[None]:
        if point == "kernel.middle":
            yield from oops(computer)


@define(kw_only=True, eq=False)
class OopsAfterPrompt(AfterPrompt):
    """A driver crashes a moment after the login prompt."""

    name: ClassVar[str] = "oops_after_prompt"
    outcome: ClassVar[FaultOutcome] = _board("kernel_oops")
    lines: ClassVar[tuple[str, ...]] = _OOPS
    level: ClassVar[int] = 1


@define(kw_only=True, eq=False)
class ExternalAbort(Fault):
    """A driver touches a silent device, and the boot goes on."""

    name: ClassVar[str] = "external_abort"
    outcome: ClassVar[FaultOutcome] = _board("kernel_oops")

    def at(self, point: str, computer: Computer) -> Program[None]:
        if point == "kernel.middle":
            yield from computer.printk(*_EXTERNAL_ABORT, level=1)


@define(kw_only=True, eq=False)
class ArmAbort(Fault):
    """A driver touches a device without a clock (32 bit, AM437x).

    The oops has no name but a number.
    """

    name: ClassVar[str] = "arm_abort"
    outcome: ClassVar[FaultOutcome] = _board("kernel_oops")

    def at(self, point: str, computer: Computer) -> Program[None]:
        if point == "user.middle":
            yield from computer.printk(*_ARM_ABORT, level=1)


@define(kw_only=True, eq=False)
class SError(Fault):
    """A bus error without a known instruction (SError) ends the kernel."""

    name: ClassVar[str] = "serror"
    outcome: ClassVar[FaultOutcome] = _board("kernel_oops")

    def at(self, point: str, computer: Computer) -> Program[None]:
        if point == "user.middle":
            yield from computer.printk(*_SERROR, level=2)
            yield from for_ever()


@define(kw_only=True, eq=False)
class SoftLockup(Fault):
    """A processor hangs in a driver for half a minute, reported."""

    name: ClassVar[str] = "soft_lockup"
    outcome: ClassVar[FaultOutcome] = _board("kernel_lockup")
    seconds: float = field(default=26.0, validator=validators.ge(0.0))

    def at(self, point: str, computer: Computer) -> Program[None]:
        if point == "kernel.middle":
            yield from computer.pause(self.seconds * NS_PER_S)
            yield from computer.printk(*_SOFT_LOCKUP, level=0)
