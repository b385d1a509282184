"""The kernel's lines of a suspend and its resume, out of dmesg.

A line counts by its priority: only the kernel writes with facility 0, a program that writes to /dev/kmsg has another
one.
Sources: Linux Documentation/ABI/testing/dev-kmsg; kernel/power/{suspend,process,main}.c,
drivers/base/power/{main,wakeup}.c and kernel/cpu.c for the lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from attrs import frozen

from lab.benchmarks.boot.crosscheck import DMESG, ERRORS_KEPT
from lab.benchmarks.identity import Shell
from lab.benchmarks.lowpower.modes import MCU_ONLY
from lab.boards import BoardType

END = "PM: suspend exit"
# A caller: CONFIG_PRINTK_CALLER
_RECORD = re.compile(r"^(?:(\d+):)?(?:<(\d+)>)?\[ *(\d+\.\d{6})\](?:\[ *[TC]\d+\])? (.*)")
_ENTRY = re.compile(r"PM: suspend entry \((\w+)\)")
_SOURCE = re.compile(r"wakeup source: ?(0x[0-9a-f]+)(?:.*\bmode: ?(0x[0-9a-f]+))?", re.IGNORECASE)
_ERR = 3  # the kernel's level KERN_ERR; smaller is worse
# Of a refusal, the most telling first: the freezer, a CPU, a device, a wake-up source, then what only follows from
# them.
_REASONS = (
    re.compile(r"Freezing .*failed after"),
    re.compile(r"\bCPU ?\d+ down\b|Non-boot CPUs are not disabled"),
    re.compile(r"(?<!Some devices )failed to (?:suspend|prepare|freeze)|not prepared for power transition"),
    re.compile(r"active wakeup source: \S"),
    re.compile(r"returns -\d+|returned -\d+|callback \S+ failed"),
    re.compile(
        r"[Ww]akeup (?:pending|event|from)|aborting suspend|aborted after|suspend of devices|Some devices failed"
    ),
)


@frozen
class KernelLine:
    """A line of the kernel in dmesg.

    Attributes:
        t_s: on the kernel's clock.
        level: of syslog, smaller is worse; None: dmesg gave no priorities.
        number: in the log, from 1.
    """

    t_s: float
    text: str
    level: int | None
    number: int


@frozen
class SuspendLog:
    """The kernel's log of the last suspend.

    Attributes:
        variant: the kernel's name of it: "deep", "shallow", "s2idle"; empty: it did not begin.
        mode: the mode named by its lines, in the words of the board type; empty: none.
        mode_number: that of the firmware, e.g. "0x1"; empty: not reported.
        entry_s: of the suspend.
        start_s, end_s: of the resume, on the kernel's clock; None: the line is missing.
        start_text: the line of `start_s`.
        wake_source: as the firmware reports it, e.g. "0x50"; empty: not reported.
        woken_by: that one's name; empty: not known.
        sources: stamps and texts of the firmware's lines.
        reason: the line with the reason of an aborted suspend; empty: none.
        errors: lines at the levels emerg to err since its beginning, the first `ERRORS_KEPT`.
        entries, exits: number of such lines in the whole log.
        starts: of `start_text` in this suspend.
        end_number: number of the line of `end_s`.
        by_level: dmesg gave priorities, so no line is a program's.
    """

    variant: str = ""
    mode: str = ""
    mode_number: str = ""
    entry_s: float | None = None
    start_s: float | None = None
    start_text: str = ""
    end_s: float | None = None
    wake_source: str = ""
    woken_by: str = ""
    sources: tuple[tuple[float, str], ...] = ()
    reason: str = ""
    errors: tuple[str, ...] = ()
    entries: int = 0
    exits: int = 0
    starts: int = 0
    end_number: int = 0
    by_level: bool = False

    @property
    def latency_s(self) -> float | None:
        """The resume latency as the performance guide has it."""
        return None if self.start_s is None or self.end_s is None else self.end_s - self.start_s

    @property
    def in_order(self) -> bool:
        """True if the lines' times ascend; a lost digit breaks that."""
        times = [t_s for t_s in (self.entry_s, self.start_s, self.end_s) if t_s is not None]
        return times == sorted(times)


def kernel_lines(lines: Iterable[str]) -> list[KernelLine]:
    """The kernel's own lines of dmesg, perhaps numbered by `grep -n`; without priorities all of them."""
    numbered = enumerate(lines, 1)
    records = [(number, match) for number, line in numbered if (match := _RECORD.match(line.strip("\r\n")))]
    by_level = any(match[2] for _, match in records)
    return [
        KernelLine(float(match[3]), match[4].rstrip(), int(match[2]) if match[2] else None, int(match[1] or number))
        for number, match in records
        if not by_level or (match[2] and int(match[2]) >> 3 == 0)
    ]


def errors_of(lines: Iterable[KernelLine]) -> tuple[str, ...]:
    """Texts at the levels emerg to err, the first `ERRORS_KEPT`."""
    return tuple(line.text for line in lines if line.level is not None and line.level <= _ERR)[:ERRORS_KEPT]


def stamp(t_s: float) -> str:
    """The end of a line's stamp in dmesg, which finds it again."""
    return f"{t_s:.6f}]"


def read_log(lines: Iterable[str], board: BoardType) -> SuspendLog:
    """The last suspend in these lines of dmesg."""
    kernel = kernel_lines(lines)
    entries = [number for number, line in enumerate(kernel) if _ENTRY.fullmatch(line.text)]
    if not entries:
        return SuspendLog()
    last = kernel[entries[-1] :]
    match = _ENTRY.fullmatch(last[0].text)
    variant = match[1] if match else ""
    end = next((number for number, line in enumerate(last) if line.text == END), len(last))
    start = _first(last[:end], [re.compile(pattern) for pattern in board.low_power.resume_start])
    sources = [source for line in last if (source := _SOURCE.search(line.text))]
    numbers = {source[2].lower() for source in sources if source[2]}
    errors = errors_of(last)
    reason = _first(last, _REASONS)
    return SuspendLog(
        variant=variant,
        mode=_mode(variant, [line.text for line in last], numbers, board),
        mode_number=", ".join(sorted(numbers)),
        entry_s=last[0].t_s,
        start_s=start.t_s if start else None,
        start_text=start.text if start else "",
        end_s=last[end].t_s if end < len(last) else None,
        wake_source=sources[-1][1] if sources else "",
        woken_by=board.low_power.woken.get(f"{int(sources[-1][1], 16):#x}", "") if sources else "",
        sources=tuple((line.t_s, line.text) for line in last if _SOURCE.search(line.text)),
        reason=reason.text if reason else next(iter(errors), ""),
        errors=errors,
        entries=len(entries),
        exits=sum(line.text == END for line in kernel),
        starts=sum(start is not None and line.text == start.text for line in last),
        end_number=last[end].number if end < len(last) else 0,
        by_level=last[0].level is not None,
    )


def read_again(shell: Shell, log: SuspendLog) -> Sequence[str] | None:
    """Read a resume's decisive lines once more, with their log numbers.

    They are its begin and end, by their stamps, the firmware's lines, and all errors.

    Returns: `NUMBER:LINE` each; None: the log lacks them, or the board cannot search.
    """
    if log.start_s is None or log.end_s is None:
        return None
    pattern = f"^<[0-{_ERR}]>|wakeup source|{stamp(log.start_s)}|{stamp(log.end_s)}"
    lines, _, status = shell.run(f'{DMESG} | grep -nE "{pattern}"')
    return lines if status in {0, 1} else None


def _first(lines: Sequence[KernelLine], patterns: Iterable[re.Pattern[str]]) -> KernelLine | None:
    """The first line of the first pattern that has one."""
    return next((line for pattern in patterns for line in lines if pattern.search(line.text)), None)


def _mode(variant: str, texts: list[str], numbers: set[str], board: BoardType) -> str:
    """The mode by the kernel's and the firmware's lines.

    Linux has one state for several of the firmware's modes. One with a `signature` is named by that, never by the
    kernel's word alone.
    """
    power = board.low_power
    if numbers:
        number = f"{int(min(numbers), 16):#x}"
        return power.firmware.get(number, "") if len(numbers) == 1 else ""
    alike = [name for name, mode in power.modes.items() if mode.variant == variant]
    own = [name for name in alike if name in board.sleep]
    candidates = [name for name in own or alike if not power.modes[name].signature]
    mcu = board.identity.mcu if board.identity else ""
    if mcu and any(f"stopped remote processor {mcu}" in text for text in texts):
        candidates = [name for name in candidates if name != MCU_ONLY]
    return candidates[0] if len(candidates) == 1 else ""
