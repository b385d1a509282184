"""The kernel's lines of a suspend and its resume, out of dmesg."""

from __future__ import annotations

import re
from collections.abc import Iterable

from attrs import frozen

from lab.benchmarks.lowpower.modes import DEEP_SLEEP, MCU_ONLY, SUSPEND_STATES
from lab.boards import BoardType

END = "PM: suspend exit"
_STAMPED = re.compile(r"^(?:<\d+>)?\[ *(\d+\.\d{6})\](?:\[ *[TC]\d+\])? (.*)")  # a caller: CONFIG_PRINTK_CALLER
_ENTRY = re.compile(r"PM: suspend entry \((\w+)\)")
_SOURCE = re.compile(r"wakeup source: ?(0x[0-9a-f]+)(?:.*\bmode:(0x[0-9a-f]+))?")
_REASON = re.compile(r"(failed to suspend|early wake event|[Ww]akeup (pending|event)|aborting suspend|returns -\d+)")


@frozen
class SuspendLog:
    """The kernel's log of the last suspend.

    Attributes:
        variant: the kernel's name of it: "deep", "shallow", "s2idle"; empty: it did not begin.
        mode: the board's mode named by its lines; empty: none.
        entry_s: of the suspend. start_s, end_s: of the resume, on the kernel's clock; None: the line is missing.
        start_text: the line of `start_s`.
        wake_source: as the device manager reports it, e.g. "0x50" (RTC); empty: not reported.
        reason: the first line with the reason of an aborted suspend; empty: none.
    """

    variant: str = ""
    mode: str = ""
    entry_s: float | None = None
    start_s: float | None = None
    start_text: str = ""
    end_s: float | None = None
    wake_source: str = ""
    reason: str = ""

    @property
    def latency_s(self) -> float | None:
        """The resume latency as the performance guide has it."""
        return None if self.start_s is None or self.end_s is None else self.end_s - self.start_s

    @property
    def in_order(self) -> bool:
        """True if the lines' times ascend; a lost digit breaks that."""
        times = [t_s for t_s in (self.entry_s, self.start_s, self.end_s) if t_s is not None]
        return times == sorted(times)


def read_log(lines: Iterable[str], board: BoardType) -> SuspendLog:
    """The last suspend in these lines of dmesg."""
    stamped = [(float(match[1]), match[2]) for line in lines if (match := _STAMPED.match(line.strip("\r\n")))]
    entries = [number for number, (_, text) in enumerate(stamped) if _ENTRY.search(text)]
    if not entries:
        return SuspendLog()
    last = stamped[entries[-1] :]
    match = _ENTRY.search(last[0][1])
    variant = match[1] if match else ""
    start = _start(last, board.low_power.resume_start)
    source = next((found for _, text in reversed(last) if (found := _SOURCE.search(text))), None)
    return SuspendLog(
        variant=variant,
        mode=_mode(variant, [text for _, text in last], source, board),
        entry_s=last[0][0],
        start_s=start[0] if start else None,
        start_text=start[1] if start else "",
        end_s=next((t_s for t_s, text in last if text.startswith(END)), None),
        wake_source=source[1] if source else "",
        reason=next((text for _, text in last if _REASON.search(text)), ""),
    )


def _start(lines: list[tuple[float, str]], patterns: Iterable[str]) -> tuple[float, str] | None:
    for pattern in patterns:
        for t_s, text in lines:
            if re.search(pattern, text):
                return t_s, text
    return None


def _mode(variant: str, texts: list[str], source: re.Match[str] | None, board: BoardType) -> str:
    """The mode by the kernel's lines on MCU and wake-up.

    Deep sleep and MCU-only are the same state to Linux.
    """
    modes = [mode for mode in board.sleep if mode in SUSPEND_STATES and SUSPEND_STATES[mode].variant == variant]
    if MCU_ONLY not in modes:
        return modes[0] if modes else ""
    if source is not None and source[2]:
        return MCU_ONLY if int(source[2], 16) == 1 else DEEP_SLEEP
    mcu = board.identity.mcu if board.identity else ""
    if mcu and any(f"stopped remote processor {mcu}" in text for text in texts):
        return DEEP_SLEEP
    return ""
