"""Checks before the first suspend, and the kernel's earlier settings and counters."""

from __future__ import annotations

import re
from typing import Final

from attrs import frozen

from lab.benchmarks.identity import Shell
from lab.benchmarks.lowpower.modes import SUSPEND_STATES, SuspendPlan
from lab.boards import BoardType, SdkRelease
from lab.errors import BoardStableError

_STATE, _MEM_SLEEP, _PRINTK = "/sys/power/state", "/sys/power/mem_sleep", "/proc/sys/kernel/printk"
# In debugfs before Linux 5.4.
_STATS: Final = '(cd /sys/power/suspend_stats && grep "" * || cat /sys/kernel/debug/suspend_stats) 2>/dev/null; cat /proc/sys/kernel/tainted'
_COUNTER: Final = re.compile(r"\s*(\w+):\s*(.*?)\s*")
_FREEZE: Final = "freeze"  # the step before any device's


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
    """The kernel's counters of suspends since boot.

    Source: Linux Documentation/ABI/testing/sysfs-power; Documentation/admin-guide/tainted-kernels.rst.

    Attributes:
        success, fail: suspends. failed_resume: devices that did not resume.
        last_failed: step and device of the last failure, e.g. "suspend of 2800000.serial"; empty: none.
        last_hw_sleep_us: of the hardware, in the last suspend; None: this platform does not count it.
        tainted: bits of the kernel's taint; None: unknown.
    """

    success: int
    fail: int
    failed_resume: int = 0
    last_failed: str = ""
    last_hw_sleep_us: int | None = None
    tainted: int | None = None


def preflight(shell: Shell, board: BoardType, release: SdkRelease | None, plan: SuspendPlan) -> PrintkSettings:
    """Check that nothing prevents a suspend.

    Raises:
        BoardStableError: the kernel has no such mode, or something is known to keep this board from it.
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


def stats(shell: Shell) -> Stats | None:
    """The counters so far; None: the board does not say them."""
    lines = shell.run(_STATS)[0]
    found = {match[1]: match[2] for line in lines if (match := _COUNTER.fullmatch(line))}
    numbers = {name: int(text) for name, text in found.items() if text.isdecimal()}
    if "success" not in numbers or "fail" not in numbers:
        return None
    step, device = found.get("last_failed_step", ""), found.get("last_failed_dev", "")
    taint = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return Stats(
        success=numbers["success"],
        fail=numbers["fail"],
        failed_resume=sum(number for name, number in numbers.items() if name.startswith("failed_resume")),
        last_failed=f"{step} of {device}" if device and step != _FREEZE else step,
        last_hw_sleep_us=numbers.get("last_hw_sleep"),
        tainted=int(taint) if taint.isdecimal() else None,
    )


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
