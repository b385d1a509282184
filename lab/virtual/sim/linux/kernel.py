"""The kernel: its log, its clock, its start, its root file system."""

from __future__ import annotations

import random
import uuid
from collections import deque
from collections.abc import Sequence
from itertools import accumulate

from attrs import frozen

from lab.virtual.sim import script
from lab.virtual.sim.computer import Computer
from lab.virtual.sim.linux.starttimes import initcall_records
from lab.virtual.sim.model import Model
from lab.virtual.sim.program import NS_PER_S, Program
from lab.virtual.sim.storage import DISK_IDS

TTY_BYTES = 4095  # unread input that the line discipline keeps (drivers/tty/n_tty.c)
# Linux kernel/power/main.c
SUSPEND_STEPS = (
    *("freeze", "prepare", "suspend", "suspend_late", "suspend_noirq"),
    *("resume_noirq", "resume_early", "resume"),
)
DEBUG = 7
QUIET, ALL = 4, 7  # console log levels: with `quiet`, and by default
_RESERVED = ((0x9E80_0000, 24 << 20, "optee"), (0x8000_0000, 512 << 10, "tfa"), (0x9C80_0000, 3 << 20, "ipc-memories"))
_FLASH = (
    (0x0, 0x80000, "tiboot3"),
    (0x80000, 0x280000, "tispl"),
    (0x280000, 0x680000, "u-boot"),
    (0x680000, 0x6C0000, "env"),
    (0x6C0000, 0x700000, "env.backup"),
    (0x800000, 0x3FC0000, "rootfs"),
    (0x3FC0000, 0x4000000, "phypattern"),
)
_SYSTEMD = {"Arago 2025.01": "255.17^", "Arago 2023.10": "254.4^", "Arago 2023.04": "252.19^"}


@frozen
class Record:
    """A line of the kernel's log.

    Attributes:
        t_ns: of the kernel's clock.
        level: syslog's; smaller is more urgent.
        facility: syslog's; 0 is the kernel, 1 a program that wrote to /dev/kmsg.
    """

    t_ns: int
    text: str
    level: int
    facility: int = 0

    @property
    def line(self) -> str:
        """As dmesg and the console show it."""
        return f"[{self.t_ns // NS_PER_S:5d}.{self.t_ns % NS_PER_S // 1000:06d}] {self.text}"


class Kernel:
    """A running kernel.

    Attributes:
        parameters: its command line, by name.
        log: the ring of its lines; `shown` is what dmesg shows of it.
        console_level: lines at this level and above it are not printed.
        console_attached: False once the console was taken away from the kernel (`.../console` in sysfs).
        settings: what was written to sysfs, by a name of our own.
        suspend_stats: counters as sysfs shows them.
        last_failed: device, error and step of the last failure.
        taint: its bits.
        busy_ns: work of each of its processors.
        init_ns, getty_ns: start of init and of the getty by the kernel's clock.
        wall_offset_s: the wall clock when the kernel started, in seconds since the epoch.
    """

    def __init__(self, computer: Computer, bootargs: str) -> None:
        self.computer = computer
        self.bootargs = bootargs
        self.parameters = dict(_parameter(word) for word in bootargs.split())
        self.log: deque[Record] = deque(maxlen=2000)
        self.console_level = QUIET if "quiet" in self.parameters else ALL
        self.console_attached = True
        self.settings: dict[str, str] = {}
        self.suspend_stats = dict.fromkeys(("success", "fail", *(f"failed_{step}" for step in SUSPEND_STEPS)), 0)
        self.last_failed = {"dev": "", "errno": "0", "step": ""}
        self.taint = 0
        self.busy_ns = 0
        self.wall_offset_s = 1_736_360_573.0
        self.init_ns = self.getty_ns = 0
        self.dice: random.Random = computer.dice("kernel")
        self.boot_id = str(uuid.UUID(int=computer.dice("boot_id", computer.starts).getrandbits(128), version=4))
        self._zero_ns: int | None = None
        self._cleared: Record | None = None
        self._held: list[Record] | None = []  # until the console is there, and while it sleeps

    @property
    def clock_ns(self) -> int:
        """Kernel's clock: starts during the boot, stops during sleep."""
        return 0 if self._zero_ns is None else self.computer.now_ns - self._zero_ns

    def start_clock(self) -> None:
        """From now on the clock runs.

        A bench that is late sends "Starting kernel" late, too, and no kernel is ahead of that text.
        """
        self.computer.machine.catch_up()
        self._zero_ns = self.computer.now_ns

    def hold_clock_for(self, ns: int) -> None:
        """The clock stood still for that long."""
        if self._zero_ns is not None:
            self._zero_ns += ns

    def printk(self, text: str, level: int = 6, facility: int = 0) -> Program[None]:
        """Log a line, and print it if console and level allow."""
        yield from self._print(Record(self.clock_ns, text, level, facility))

    def fail_suspend(self, step: str, device: str = "") -> None:
        """Count a suspend that failed in this step, of `SUSPEND_STEPS`; empty: the kernel names none."""
        self.suspend_stats["fail"] += 1
        if step:
            self.fail_device(step, device)

    def fail_device(self, step: str, device: str) -> None:
        """Count a failure in this step; a resume goes on."""
        self.suspend_stats[f"failed_{step}"] += 1
        self.last_failed = {"dev": device or self.last_failed["dev"], "errno": "-16", "step": step}

    def shown(self) -> list[Record]:
        """Records of dmesg: all since its last clear."""
        records = list(self.log)
        return records[records.index(self._cleared) + 1 :] if self._cleared in records else records

    def clear(self) -> None:
        """`dmesg -C`."""
        self._cleared = self.log[-1] if self.log else None

    def attach_console(self, *, attached: bool) -> Program[None]:
        """Detach or attach the console; a new one prints the ring."""
        again = attached and not self.console_attached
        self.console_attached = attached
        for record in list(self.log) if again else ():
            yield from self._to_console(record)

    def suspend_console(self) -> None:
        """Lines wait until `resume_console`."""
        self._held = []

    def resume_console(self) -> Program[None]:
        """Print what waited."""
        held, self._held = self._held or [], None
        for record in held:
            yield from self._to_console(record)

    def run(self) -> Program[None]:
        """From "Starting kernel" to init."""
        computer = self.computer
        computer.kernel = self
        planned = computer.durations
        computer.enter("kernel", planned.kernel_ns)
        start_ns = computer.now_ns
        yield from computer.pause(planned.entry_ns)
        computer.machine.rx_limit = TTY_BYTES
        early = script.load(f"{computer.model.family.profile}-early", **self.facts())
        if "earlycon" in self.parameters and self.console_level == ALL:
            self._held = None
            clock = next(number for number, line in enumerate(early) if line.point == "kernel.clock")
            yield from computer.play(early[:clock], 0, self)
            self.start_clock()
            rest = early[clock + 1 :]
            yield from computer.play(rest, planned.early_ns + self._printed_ns(rest), self)
        else:
            yield from self._silent_start(early)
        worked_ns = planned.entry_ns + planned.early_ns
        printed_ns = computer.now_ns - start_ns - round(worked_ns * computer.time_scale)
        late = script.load(f"{computer.model.family.profile}-kernel", **self.facts())
        yield from computer.play(late, planned.kernel_ns - worked_ns - printed_ns, self)
        self.init_ns = self.clock_ns
        if "initcall_debug" in self.parameters:
            self._log_initcalls()

    def _log_initcalls(self) -> None:
        """Add what `initcall_debug` logs; a console prints it at level 8."""
        dice = self.computer.dice("initcalls", self.computer.starts)

        def extra_ns(name: str) -> int:
            return sum(trouble.initcall_ns(name) for trouble in self.computer.troubles)

        debug_lines = initcall_records(self.init_ns, dice, extra_ns, self.computer.time_scale)
        records = [Record(line.t_ns, line.text, DEBUG) for line in debug_lines]
        self.log = deque(sorted([*self.log, *records], key=lambda record: record.t_ns), maxlen=self.log.maxlen)

    def facts(self) -> dict[str, object]:
        """Variables of the kernel's and user space's texts."""
        model = self.computer.model
        root = self.parameters.get("root", "")
        return {
            **model.facts(),
            "medium": self.computer.medium,
            "root": root,
            "root_medium": self.root_medium,
            "root_device": self.root_device,
            "writable": self.writable,
            "quiet": self.console_level == QUIET,
            "tee": self.computer.facts()["tee"],
            "ext4_mounted": mounted(model.kernel_version, writable=self.writable),
            "ext4_remounted": remounted(model.kernel_version),
            "init": self.parameters.get("init", "/sbin/init"),
            "bootargs": self.bootargs,
            "reserved": _RESERVED,
            "flash": _FLASH,
            "systemd": _SYSTEMD.get(model.release.distribution, "244.3+"),
        }

    @property
    def writable(self) -> bool:
        """Return whether the root file system is mounted writable.

        The last of `ro` and `rw` counts; without one it is not.
        """
        said = [word for word in self.bootargs.split() if word in {"ro", "rw"}]
        return said[-1:] == ["rw"]

    @property
    def root_medium(self) -> str:
        """The medium with the root file system."""
        medium = medium_of(self.computer.model, self.parameters.get("root", ""), self.computer.medium)
        for trouble in self.computer.troubles:
            medium = trouble.root(medium, self.computer)
        return medium

    @property
    def root_device(self) -> str:
        """Block device of the root file system; empty: in flash."""
        return self.computer.model.root_device(self.root_medium)

    def _silent_start(self, lines: Sequence[script.ScriptLine]) -> Program[None]:
        """Hold the kernel's lines until its console comes up.

        This is a start without an early console; texts of the firmware do not wait.
        """
        computer, early_ns = self.computer, self.computer.durations.early_ns
        weights = list(accumulate(line.weight for line in lines))
        due_ns = [round(early_ns * computer.time_scale * weight / weights[-1]) for weight in weights]
        self.start_clock()
        for line, at_ns in zip(lines, due_ns, strict=True):
            if not line.kernel and not line.point:
                yield from computer.wait_until(max(computer.now_ns, (self._zero_ns or 0) + at_ns))
                yield from computer.say(line.text + "\n")
        yield from computer.wait_until(
            max(computer.now_ns, (self._zero_ns or 0) + round(early_ns * computer.time_scale))
        )
        computer.spare(early_ns)
        self._held = None
        for line, at_ns in zip(lines, due_ns, strict=True):
            if line.kernel:
                yield from self._print(Record(at_ns, line.text, 6))

    def _printed_ns(self, lines: Sequence[script.ScriptLine]) -> int:
        if self.console_level < ALL:
            return 0
        return script.printed_ns(lines, self.computer.machine.speed_bd[self.computer.console])

    def _print(self, record: Record) -> Program[None]:
        self.log.append(record)
        if self._held is not None:
            self._held.append(record)
        else:
            yield from self._to_console(record)

    def _to_console(self, record: Record) -> Program[None]:
        if record.level >= self.console_level or not self.console_attached:
            return
        line = record.line
        for trouble in self.computer.troubles:
            line = trouble.printk(line)
        yield from self.computer.say(line and line + "\n")


def _parameter(word: str) -> tuple[str, str]:
    name, _, value = word.partition("=")
    return name, value


# --- The root file system and its messages ---
# The words follow fs/ext4/super.c: mount options until 5.16, the quota mode from 5.13, the UUID from 6.2, and whether it is
# writable from 6.4; of the boards' kernels those of 4.9, 5.10, 6.1, 6.6 and 6.12. The remount of 6.12 is that of a public
# log, which leaves the quota mode out.


_UUID = "5d6ff3a1-0c44-4cb6-9d1a-2d2b7be2ad1f"
_OPTIONS_UNTIL, _QUOTA_FROM, _UUID_FROM, _STATE_FROM, _NO_QUOTA_AGAIN = (5, 16), (5, 13), (6, 2), (6, 4), (6, 12)


def medium_of(model: Model, root: str, booted: str) -> str:
    """Medium that `root=` names, else the booted one."""
    for name, disk in DISK_IDS.items():
        if root.startswith(f"PARTUUID={disk}-") and name in model.board.media:
            return name
    for number, name in model.mmc_media.items():
        if root.startswith(f"/dev/mmcblk{number}p"):
            return name
    return next((name for name, medium in model.board.media.items() if medium.root == root), booted)


def mounted(version: tuple[int, ...], *, writable: bool) -> str:
    """Text behind "mounted filesystem" of ext4."""
    return f"{_named(version, writable=writable)}with ordered data mode.{_options(version)}{_quota(version)}"


def remounted(version: tuple[int, ...]) -> str:
    """Text directly behind "re-mounted", which always makes it writable."""
    quota = "" if version >= _NO_QUOTA_AGAIN else _quota(version)
    name = _named(version, writable=True).rstrip()
    return f"{' ' if name else ''}{name}.{_options(version)}{quota}"


def _named(version: tuple[int, ...], *, writable: bool) -> str:
    state = ("r/w " if writable else "ro ") if version >= _STATE_FROM else ""
    return f"{_UUID} {state}" if version >= _UUID_FROM else ""


def _options(version: tuple[int, ...]) -> str:
    text = " Opts: (null)" if version <= _OPTIONS_UNTIL else ""
    return f"{text}." if text and version >= _QUOTA_FROM else text


def _quota(version: tuple[int, ...]) -> str:
    return " Quota mode: none." if version >= _QUOTA_FROM else ""
