"""The reports of U-Boot and of systemd on their own start.

`bootstage report`: form of U-Boot's common/bootstage.c. Its marks are by the processor's timer, which does not start
at power on, so only their distances count. `systemd-analyze`: form of systemd's src/analyze. Units run in parallel, so
their sum says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from attrs import field, frozen

from lab.benchmarks.diagnosis.parts import BOOTSTAGE, UNITS, BootPart

BOOTSTAGE_COMMAND: Final = "bootstage report"
_HEAD: Final = re.compile(r"Timer summary in microseconds")
_ROW: Final = re.compile(r" *([\d,]+) +([\d,]+)(?:  (\S.*))?")
_TOTALS: Final = re.compile(r" {8,}([\d,]+)(?:  (\S.*))?")
UNNAMED: Final = "mark without a name"
_ACCUMULATED: Final = "Accumulated time:"
ACCUMULATED: Final = " (accumulated)"  # ends the name of a time inside others


def uboot_parts(lines: Sequence[str]) -> list[BootPart]:
    """The distances between marks, each under the later one's name; [] without a report.

    An accumulated time is a part of its own, inside the others. Marks without a name are one part.
    """
    begin = next((number for number, line in enumerate(lines) if _HEAD.search(line)), None)
    if begin is None:
        return []
    parts, accumulated = [], False
    for line in lines[begin + 1 :]:
        text = line.rstrip()
        if text.strip() == _ACCUMULATED:
            accumulated = True
        elif accumulated and (match := _TOTALS.fullmatch(text)):
            length_s = _microseconds(match[1])
            parts.append(BootPart(BOOTSTAGE, f"{match[2] or UNNAMED}{ACCUMULATED}", 0.0, length_s, length_s))
        elif not accumulated and (match := _ROW.fullmatch(text)):
            mark_s, elapsed_s = _microseconds(match[1]), _microseconds(match[2])
            parts.append(BootPart(BOOTSTAGE, match[3] or UNNAMED, mark_s - elapsed_s, elapsed_s, elapsed_s))
    return parts


def _microseconds(text: str) -> float:
    return int(text.replace(",", "")) / 1e6


PLOT: Final = "plot"
_BEGAN: Final = "InactiveExitTimestampMonotonic"  # in us of CLOCK_MONOTONIC, which is 0 where the kernel starts
SYSTEMD_COMMANDS: Final = {
    **{
        what: f"SYSTEMD_COLORS=0 systemd-analyze --no-pager {what}"
        for what in ("time", "blame", "critical-chain", PLOT)
    },
    "starts": f"systemctl show --no-pager -p Id,{_BEGAN} '*'",
}
_UNITS_S: Final = {
    "y": 31_557_600.0,
    "month": 2_629_800.0,
    "w": 604_800.0,
    "d": 86_400.0,
    "h": 3600.0,
    "min": 60.0,
    "s": 1.0,
    "ms": 1e-3,
    "us": 1e-6,
}
_SPAN: Final = r"(?:\d+(?:\.\d+)?(?:month|min|ms|us|y|w|d|h|s) ?)+"
_PARTS: Final = re.compile(rf"({_SPAN})\((\w[\w ]*)\)")
_BLAMED: Final = re.compile(rf" *({_SPAN}) *(\S+\.[a-z]+)")
_CHAINED: Final = re.compile(rf"[^\w]*([\w@\\:.-]+\.[a-z]+)(?: @({_SPAN}))?(?: ?\+({_SPAN}))?")
_WAITS: Final = ".device"  # such a unit waits for its device, whose driver is a part of the kernel
_NO_UNIT_S: Final = 10_000.0  # older systemd prints hundreds of years for a negative time


@frozen
class SystemdTimes:
    """The times of systemd.

    Attributes:
        shares: "kernel", "initrd", "userspace" … -> seconds, as far as it says.
        parts: of its units.
        chain: units that the default target waited for, the last first.
    """

    shares: Mapping[str, float] = field(factory=dict)
    parts: tuple[BootPart, ...] = ()
    chain: tuple[str, ...] = ()


def user_space(
    time: Sequence[str], blame: Sequence[str], chain: Sequence[str], starts: Sequence[str] = ()
) -> SystemdTimes:
    """Read the answers; what systemd does not say stays empty.

    A unit off the critical chain begins where `starts` says, else at 0.
    """
    shares = {match[2]: _seconds(match[1]) for line in time for match in _PARTS.finditer(line)}
    chained = [match for line in chain if (match := _CHAINED.fullmatch(line.rstrip()))]
    begun = _unit_starts(starts, shares) | {match[1]: _seconds(match[2]) for match in chained if match[2]}
    parts = []
    for line in blame:
        match = _BLAMED.fullmatch(line.rstrip())
        if match is None or match[2].endswith(_WAITS) or _seconds(match[1]) > _NO_UNIT_S:
            continue
        length_s = _seconds(match[1])
        parts.append(BootPart(UNITS, match[2], begun.get(match[2], 0.0), length_s, length_s))
    return SystemdTimes(shares, tuple(parts), tuple(match[1] for match in chained))


def _unit_starts(lines: Sequence[str], shares: Mapping[str, float]) -> dict[str, float]:
    """Unit -> its start since user space's; {}: systemd does not say."""
    if "kernel" not in shares:
        return {}
    user_s = shares["kernel"] + shares.get("initrd", 0.0)
    starts, unit = dict[str, float](), dict[str, str]()
    for line in (*lines, ""):
        key, _, value = line.strip().partition("=")
        if not key or key in unit:
            if unit.get(_BEGAN, "").isdecimal() and (began_s := int(unit[_BEGAN]) / 1e6 - user_s) > 0:
                starts[unit.get("Id", "")] = began_s
            unit = {}
        unit[key] = value
    return starts


def _seconds(text: str) -> float:
    return sum(
        float(value) * _UNITS_S[unit]
        for value, unit in re.findall(r"(\d+(?:\.\d+)?)(month|min|ms|us|y|w|d|h|s)", text)
    )
