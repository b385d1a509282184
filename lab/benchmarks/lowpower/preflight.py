"""Checks before the first suspend, and the kernel's earlier settings."""

from __future__ import annotations

from typing import Final

from attrs import frozen

from lab.benchmarks.identity import Shell
from lab.benchmarks.lowpower.modes import SUSPEND_STATES, SuspendPlan
from lab.boards import BoardType, SdkRelease
from lab.errors import BoardStableError, TestTransientError

_STATE, _MEM_SLEEP, _PRINTK = "/sys/power/state", "/sys/power/mem_sleep", "/proc/sys/kernel/printk"
_STATS: Final = "/sys/power/suspend_stats"


@frozen
class PrintkSettings:
    """The kernel's console settings, to restore them.

    Attributes:
        printk: /proc/sys/kernel/printk; the first number is the console's log level.
        consoles: the ttys of /sys/class/tty that the kernel prints to.
    """

    printk: str
    consoles: tuple[str, ...]


@frozen
class Stats:
    """/sys/power/suspend_stats: suspends since boot."""

    success: int
    fail: int


def preflight(shell: Shell, board: BoardType, release: SdkRelease | None, plan: SuspendPlan) -> PrintkSettings:
    """Check that nothing prevents a suspend.

    Raises:
        BoardStableError: the kernel has no such mode, or something is known to keep this board from it.
        TestTransientError: the board's answer is unreadable.
    """
    if "PREEMPT_RT" in _output(shell, "uname -v"):
        raise BoardStableError(
            "the kernel is a real-time one (PREEMPT_RT), whose SDK has no low-power modes: boot the default kernel",
            failure="rt_kernel",
        )
    if plan.mode in SUSPEND_STATES:
        _check_states(shell, plan)
    for name, blocker in board.low_power.blockers.items():
        concerned = not blocker.device or (release is not None and release.device == blocker.device)
        if concerned and shell.run(blocker.check)[2] == 0:
            raise BoardStableError(f"{name}: {blocker.says}", failure="sleep_blocked")
    ttys = [uart.linux for uart in board.uarts if uart.linux]
    attached = [tty for tty in ttys if _output(shell, f"cat /sys/class/tty/{tty}/console 2>/dev/null").strip() == "Y"]
    return PrintkSettings(" ".join(_output(shell, f"cat {_PRINTK}").split()), tuple(attached))


def stats(shell: Shell) -> Stats:
    """The numbers of successful and failed suspends so far.

    Raises:
        TestTransientError: the board's answer is unreadable.
    """
    numbers = _output(shell, f"cat {_STATS}/success {_STATS}/fail").split()
    if len(numbers) != 2 or not all(number.isdigit() for number in numbers):
        raise TestTransientError(
            f"{_STATS}: expected two numbers, got {' '.join(numbers)!r}; does the kernel have CONFIG_PM_SLEEP?",
            failure="no_suspend_stats",
        )
    return Stats(int(numbers[0]), int(numbers[1]))


def arm(shell: Shell, board: BoardType, wake: str) -> None:
    """Arm a wake-up source, and read back that it is armed.

    Raises:
        BoardStableError: it did not take.
    """
    source = board.low_power.wakes[wake]
    for command in source.commands:
        shell.run(command)
    for path, value in source.settings.items():
        write(shell, path, value, f"the wake-up source {wake!r} is not armed, and nothing would wake the board")


def write(shell: Shell, path: str, value: str, otherwise: str) -> None:
    """Write a file of sysfs and read it back.

    Raises:
        BoardStableError: the file has another value; `otherwise` explains it.
    """
    shell.run(f"echo {value} > {path}")
    got = _output(shell, f"cat {path} 2>/dev/null").strip()
    if got != value:
        raise BoardStableError(
            f"{path} was set to {value!r} and reads {got!r}: {otherwise}. Look at the device tree of this release",
            failure="setting_refused",
        )


def _check_states(shell: Shell, plan: SuspendPlan) -> None:
    entry = SUSPEND_STATES[plan.mode]
    states = _output(shell, f"cat {_STATE}").split()
    variants = _output(shell, f"cat {_MEM_SLEEP} 2>/dev/null").split()
    if entry.state not in states or (
        entry.state == "mem" and not {entry.variant, f"[{entry.variant}]"} & set(variants)
    ):
        raise BoardStableError(
            f"the kernel cannot enter {plan.mode}: {_STATE} has {' '.join(states) or 'nothing'!r}, {_MEM_SLEEP} "
            f"{' '.join(variants) or 'nothing'!r}, and {entry.state!r} as {entry.variant!r} is needed. Is it the SDK's "
            "default kernel, and does the firmware have low power?",
            failure="no_low_power",
        )
    if entry.state == "mem" and f"[{entry.variant}]" not in variants:
        shell.run(f"echo {entry.variant} > {_MEM_SLEEP}")


def _output(shell: Shell, command: str) -> str:
    return "\n".join(shell.run(command)[0])
