"""The suspend script for the board's shell, which restores everything.

It is written to the board line by line and read back before it is run, since a console may lose characters. The
consoles are detached, since printing would slow the resume down (the performance guide's own procedure), and the log
level is lowered before they are attached again: a console that is registered prints the whole log once more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lab.benchmarks.identity import Shell
from lab.benchmarks.lowpower.modes import Constraint
from lab.benchmarks.lowpower.preflight import PrintkSettings
from lab.boards import SleepMode
from lab.errors import LabTransientError

FILE = "/run/boardlab-sleep"  # on the board, where nobody but root makes files
GOING, BACK, RESTORED = "boardlab: going", "boardlab: back", "boardlab: restored"
_PRINTK = "/proc/sys/kernel/printk"
_DEBUG = "/sys/power/pm_debug_messages"  # without it the kernel does not say when it left suspend-to-idle
_SILENT = 1  # the console's log level: emergencies only


def commands(
    mode: SleepMode,
    found: PrintkSettings,
    constraint: Constraint | None,
    *,
    rtc: str,
    alarm_s: int | None,
    afterwards: Mapping[str, str],
) -> list[str]:
    """The script's lines; none has a single quote.

    Args:
        alarm_s: when the RTC wakes the board, if nothing else has; None: it does not wake it from this mode.
        afterwards: file of sysfs -> value once the board is back.
    """
    alarm = f"/sys/class/rtc/{rtc}/wakealarm"
    consoles = [f"/sys/class/tty/{tty}/console" for tty in found.consoles]
    level = found.printk.split()[0] if found.printk else "7"
    debugged = mode.variant == "s2idle"
    return [
        f'echo "{GOING} $?"',
        f"echo {_SILENT} > {_PRINTK}",
        *(f"echo N > {console}" for console in consoles),
        f"echo 0 > {alarm}",
        *([] if alarm_s is None else [f"echo +{alarm_s} > {alarm}"]),
        *([f"echo 1 > {_DEBUG}"] if debugged else []),
        f"echo {mode.state} > /sys/power/state",
        f'echo "{BACK} $?"',
        *([f"echo 0 > {_DEBUG}"] if debugged else []),
        f"echo 0 > {alarm}",
        *([f"echo {constraint.cleared} > {constraint.path}"] if constraint else []),
        *(f"echo {value} > {path}" for path, value in afterwards.items()),
        *(f"echo Y > {console}" for console in consoles),
        f"echo {level} > {_PRINTK}",
        f'echo "{RESTORED} $?"',
    ]


def install(shell: Shell, lines: Sequence[str]) -> None:
    """Write the script to the board.

    Raises:
        LabTransientError: the board's copy differs.
    """
    shell.run(f"rm -f {FILE}")
    for line in lines:
        shell.run(f"echo '{line}' >> {FILE}")
    got = list(shell.run(f"cat {FILE}")[0])
    if got != list(lines):
        wrong = next((pair for pair in zip(lines, got, strict=False) if pair[0] != pair[1]), (lines[-1], "nothing"))
        raise LabTransientError(
            f"{FILE} was to have {len(lines)} lines and has {len(got)}; {wrong[0]!r} became {wrong[1]!r}: characters "
            "were lost on the console, or the board's /run cannot be written",
            failure="characters_lost",
        )
