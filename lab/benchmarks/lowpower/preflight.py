"""Checks before the first suspend, and the kernel's earlier settings and counters."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from attrs import Factory, frozen

from lab.benchmarks.boot.crosscheck import THERMAL, read_thermal
from lab.benchmarks.identity import Shell
from lab.benchmarks.lowpower.modes import SuspendPlan, mode_of
from lab.boards import POWER_OFF, BoardType, SdkRelease, SleepMode
from lab.errors import BoardStableError

_STATE, _MEM_SLEEP, _PRINTK = "/sys/power/state", "/sys/power/mem_sleep", "/proc/sys/kernel/printk"
MEMORY = "/run/boardlab-memory"  # on the board, in its memory: random bytes that a suspend must not change
_MEMORY_BYTES: Final = 1 << 20
# In debugfs before Linux 5.4.
_STATS: Final = (
    '(cd /sys/power/suspend_stats && grep "" * || cat /sys/kernel/debug/suspend_stats) 2>/dev/null; '
    'echo "boot_id: $(cat /proc/sys/kernel/random/boot_id)"; echo "rtc_s: $(cat /sys/class/rtc/{rtc}/since_epoch)"; '
    f'echo "memory: $(md5sum {MEMORY})"; grep -H "" {THERMAL} 2>/dev/null; cat /proc/sys/kernel/tainted'
)
_COUNTER: Final = re.compile(r"\s*(\w+):\s*(.*?)\s*")
_MD5: Final = re.compile(r"[0-9a-f]{32}")
_FREEZE: Final = "freeze"  # the first step of a suspend, of no device: one that is named beside it failed earlier


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
        success, fail: suspends.
        failed_resume: devices that did not resume.
        last_failed: step and device of the last failure, e.g. "suspend of 2800000.serial"; empty: none.
        last_hw_sleep_us: of the hardware, in the last suspend; None: this platform does not count it.
        tainted: bits of the kernel's taint; None: unknown.
        boot_id: of this boot; empty: unknown.
        rtc_s: the clock that wakes the board; None: unknown.
        memory: checksum of random bytes in the board's memory; empty: there are none.
        temperatures_c: thermal zone or sensor of the board -> its temperature.
        throttled: cooling devices that slow a processor down.
    """

    success: int
    fail: int
    failed_resume: int = 0
    last_failed: str = ""
    last_hw_sleep_us: int | None = None
    tainted: int | None = None
    boot_id: str = ""
    rtc_s: int | None = None
    memory: str = ""
    temperatures_c: Mapping[str, float] = Factory(dict)
    throttled: tuple[str, ...] = ()


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
    if mode_of(board, plan).state != POWER_OFF:
        _select_state(shell, plan.mode, mode_of(board, plan))
    for name, blocker in board.low_power.blockers.items():
        concerned = not blocker.device or (release is not None and release.device == blocker.device)
        if concerned and shell.run(blocker.check)[2] == 0:
            raise BoardStableError(f"{name}: {blocker.says}", failure="sleep_blocked")
    ttys = [uart.linux for uart in board.uarts if uart.linux]
    attached = [tty for tty in ttys if _output(shell, f"cat /sys/class/tty/{tty}/console 2>/dev/null").strip() == "Y"]
    return PrintkSettings(" ".join(_output(shell, f"cat {_PRINTK}").split()), tuple(attached))


def fill_memory(shell: Shell) -> None:
    """Put random bytes into the board's memory, once per boot."""
    shell.run(f"test -s {MEMORY} || head -c {_MEMORY_BYTES} /dev/urandom > {MEMORY}")


def stats(shell: Shell, board: BoardType) -> Stats | None:
    """The counters so far; None: the board does not say them."""
    lines = shell.run(_STATS.replace("{rtc}", board.low_power.rtc))[0]
    texts = {match[1]: match[2] for line in lines if (match := _COUNTER.fullmatch(line))}
    numbers = {name: int(text) for name, text in texts.items() if text.isdecimal()}
    if "success" not in numbers or "fail" not in numbers:
        return None
    step, device = texts.get("last_failed_step", ""), texts.get("last_failed_dev", "")
    taint = next((line.strip() for line in reversed(lines) if line.strip()), "")
    temperatures_c, throttled = read_thermal(lines)
    return Stats(
        success=numbers["success"],
        fail=numbers["fail"],
        failed_resume=sum(number for name, number in numbers.items() if name.startswith("failed_resume")),
        last_failed=f"{step} of {device}" if device and step != _FREEZE else step,
        last_hw_sleep_us=numbers.get("last_hw_sleep"),
        tainted=int(taint) if taint.isdecimal() else None,
        boot_id=texts.get("boot_id", ""),
        rtc_s=numbers.get("rtc_s"),
        memory=memory[0] if (memory := _MD5.match(texts.get("memory", ""))) else "",
        temperatures_c=temperatures_c,
        throttled=throttled,
    )


def boot_facts(shell: Shell, board: BoardType) -> tuple[str, int | None]:
    """This boot's id and the RTC's time in seconds.

    Unknown ones are empty and None.
    """
    counters = stats(shell, board)
    return (counters.boot_id, counters.rtc_s) if counters else ("", None)


def arm(shell: Shell, board: BoardType, plan: SuspendPlan) -> None:
    """Arm a wake-up source, and read back that it is armed.

    Raises:
        BoardStableError: it did not take.
    """
    wake = plan.wake
    source, mode = board.low_power.wakes[wake], mode_of(board, plan)
    for command in (*source.commands, *mode.arm.get(wake, ())):
        shell.run(command)
    for path, value in source.settings.items():
        write(shell, path, value, f"the wake-up source {wake!r} is not armed, and nothing would wake the board")


def select(shell: Shell, mode: SleepMode) -> dict[str, str]:
    """Set what a mode needs beside its wake-up source; return what the files had.

    Raises:
        BoardStableError: a file did not take its value.
    """
    before = {}
    for path, value in mode.settings.items():
        before[path] = _output(shell, f"cat {path} 2>/dev/null").strip()
        write(shell, path, value, f"{mode.title} would become {mode.turns_into or 'another mode'} without a message")
    for command in mode.commands:
        shell.run(command)
    return {path: value for path, value in before.items() if value and value != mode.settings[path]}


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


def _select_state(shell: Shell, name: str, mode: SleepMode) -> None:
    """Require a mode's state of the kernel, and select its variant.

    The variant is that of `mem`, in /sys/power/mem_sleep.

    Source: Linux Documentation/admin-guide/pm/sleep-states.rst.

    Raises:
        BoardStableError: it has no such state.
    """
    states = _output(shell, f"cat {_STATE}").split()
    variants = _output(shell, f"cat {_MEM_SLEEP} 2>/dev/null").split()
    if mode.state not in states or (mode.state == "mem" and not {mode.variant, f"[{mode.variant}]"} & set(variants)):
        raise BoardStableError(
            f"the kernel cannot enter {name}: {_STATE} has {' '.join(states) or 'nothing'!r}, {_MEM_SLEEP} "
            f"{' '.join(variants) or 'nothing'!r}, and {mode.state!r} as {mode.variant!r} is needed. Is it the SDK's "
            "default kernel, and does the firmware have low power?",
            failure="no_low_power",
        )
    if mode.state == "mem" and f"[{mode.variant}]" not in variants:
        shell.run(f"echo {mode.variant} > {_MEM_SLEEP}")


def _output(shell: Shell, command: str) -> str:
    return "\n".join(shell.run(command)[0])
