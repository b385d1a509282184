"""Kernel lines beyond their text: restarts, lost bytes, severity.

The kernel's own lines begin alike, with its time, and their times go on. A program that quotes some (a log of the boot
before, dmesg) puts something before them, or prints them sooner than the kernel could.

A second kernel is younger than the first one's last line: none of its lines has a time longer ago than that. So a line
that goes back and is young enough may be its first, and each line behind it that is too old for it is the first
kernel's, which goes on.
"""

from __future__ import annotations

import math
import re
import statistics
from collections import Counter
from collections.abc import Mapping

from attrs import define, field

from lab.boards import Sign

KEPT_LINES = 20  # of trouble, with the attempt
BACK_S = 1.0  # further back than processors' clocks differ, and messages overtake each other
BACK_LINES = 3  # new ones of a second kernel: garbled digits are no restart
STEADY_LINES = 5
EARLY_S = 0.01  # two kernels have some times in common before it, in µs
MARKS = 4  # lines by which a kernel's log is known; two kernels have some of the early times in common
AHEAD_S = 5.0  # the kernel's clock may have run before power on was acknowledged, not longer
ERROR_LEVEL = 3  # KERN_ERR of <linux/kern_levels.h>; smaller is worse
STAMPED_CHARACTERS = 200  # of a line, in which the kernel's time stands
# `<level>` with console_msg_format=syslog; a caller stands behind the time with CONFIG_PRINTK_CALLER.
_LINE = re.compile(r"(?:<(?P<level>\d+)>)?\[ *(?P<s>\d{1,9})\.(?P<us>\d{6})(?:@\d+)?\](?P<text>.*)", re.DOTALL)
# No part of it can match in two ways: a console may print anything, and must not keep who looks at it busy.
_BEFORE = re.compile(r"(?:(?:\x1b\[[0-9;]*m|[\w :.,+/-])*(?:[ \t]|\x1b\[[0-9;]*m))?")
_TORN = re.compile(r"\S[^\n]*?\[ {0,4}(?P<s>\d{1,9})\.(?P<us>\d{6})(?:@\d+)?\](?:\[ *[TC]\d+\])? ")
_KEXEC = {"kexec_core: Starting new kernel", "kexec: Starting new kernel"}  # Linux kernel/kexec_core.c
_BY_PROGRAM = re.compile(r"(?:\[ *[TC]\d+\])? *[\w.@:-]+\[\d+\]: ")  # written to /dev/kmsg
_CUT_STAMP = re.compile(r"[\r ]*\[ *\d+\.\d+\] ")
_CHANGES = re.compile(r"\x1b\[[0-9;]*m|[\d:.,/+ \t-]+")  # from line to line, in a logger's own stamp
_BRACKETS = re.compile(r"\[[^\[\]]*\]")
_END_OF_STAMP = re.compile(r"[^\[]*\d\] \S")  # its bracket was never opened
_BEGIN_OF_STAMP = re.compile(r"\[[ \d]{4}\d\.\d{0,5}[^\d\]]")
# Of the levels `notice` and `info`, which neither `quiet` nor `loglevel=4` lets onto the console; from all over a
# boot.
_TALKS = re.compile(
    r"Linux version \d|Kernel command line: |Memory: \d+K/|clocksource: |NET: Registered |io scheduler \w+ "
    r"registered|registered new |\bmmc\d: new |: (?:re-)?mounted filesystem|UBIFS: mounted|VFS: Mounted root|Freeing "
    r"unused kernel |random: crng init done|audit: type=|: configuring for |systemd-journald\[\d+\]: "
    r"(?:Received|Collecting) |systemd\[1\]: (?:systemd \d|Detected |Hostname set|Set hostname|Created "
    r"slice|Listening on|Reached target|Start(?:ing|ed) |Mount(?:ing|ed) )"
)


@define
class BootKernelLog:
    """Follows the lines of a boot.

    Attributes:
        troubles: text -> its meaning, of the board type.
        counts: flag -> number of lines.
        lines: the first of them.
        stamped: number of lines with the kernel's time.
        talks: a line came that no quiet kernel prints.
        torn: lines in which another one begins or ends: bytes between are lost.
        own: the last line is the kernel's own, as far as its form and its time tell.
        split_s: since power on, when the last line came that went on with the first kernel's clock.
        first: the kernel's first own line behind its time 0, and when it came since power on; empty: none.
        marks: the times of some of its lines, by which a log is known as its own.
        printed_again: a log that began at 0 once more had a late line of the first one: another kernel has other times.
    """

    troubles: Mapping[str, Sign]
    counts: dict[str, int] = field(factory=dict, init=False)
    lines: list[str] = field(factory=list, init=False)
    stamped: int = field(default=0, init=False)
    talks: bool = field(default=False, init=False)
    torn: int = field(default=0, init=False)
    own: bool = field(default=False, init=False)
    split_s: float = field(default=0.0, init=False)
    first: dict[str, float] = field(factory=dict, init=False)
    marks: list[str] = field(factory=list, init=False)
    printed_again: bool = field(default=False, init=False)
    _marked: int = field(default=0, init=False)  # lines of which every so many is a mark
    _stamped_before: int = field(default=0, init=False)  # lines before the kernel's start
    _befores: Counter[str] = field(factory=Counter, init=False)  # what stands before the kernel's part of its lines
    _latest_s: float = field(default=0.0, init=False)
    _times: list[float] = field(factory=list, init=False)
    _zero_s: float = field(default=math.inf, init=False)  # since power on, of the first kernel's time 0, at the latest
    _younger: list[str] = field(factory=list, init=False)  # lines that a second kernel may have printed
    _kexec: bool = field(default=False, init=False)
    _begun: bool = field(default=False, init=False)  # a log began at 0 once more: printed again, or another kernel's
    _known: set[int] = field(factory=set, init=False)

    def whole_line(self, line: str, since_power_s: float) -> None:
        """Take a console line and its time since power on."""
        match = _find(line)
        kind = next((sign.means for text, sign in self.troubles.items() if re.search(text, line)), "")
        self.talks = self.talks or _TALKS.search(line) is not None
        self.own = match is None and (self.stamped == 0 or _CUT_STAMP.match(line) is not None)
        if match is not None:
            self.stamped += 1
            before = _CHANGES.sub("", line[: match.start()])
            self._befores[before] += 1
            usual = 2 * self._befores[before] > self.stamped
            kernel_s = kernel_time_s(line) or 0.0
            in_time = self._latest_s - BACK_S <= kernel_s <= since_power_s + AHEAD_S
            self.own = usual and in_time and _BY_PROGRAM.match(match["text"]) is None
            if self.own and kernel_s > 0 and not self.first:
                self.first[line.strip()] = since_power_s
            if usual:
                self._clock(line, kernel_s, since_power_s)
            if self.own and match["text"].strip() in _KEXEC:
                self._kexec, self._younger = True, [line.strip()]
            if match["level"] and int(match["level"]) & 7 <= ERROR_LEVEL:
                kind = kind or "level"
            self.torn += _torn(match)
        elif _BEGIN_OF_STAMP.match(line):
            self.torn += 1
        if kind:
            self.note(kind, line)

    def begin(self) -> None:
        """The kernel starts now: earlier times are another's, or quoted."""
        self._latest_s, self._times, self._zero_s, self._younger = 0.0, [], math.inf, []
        self._kexec = self._begun = False
        self.torn = 0  # what an adapter kept of the boot before is cut
        self.first, self.marks, self._marked, self.printed_again = {}, [], 0, False
        self._stamped_before = self.stamped

    @property
    def has_times(self) -> bool:
        """True if the kernel's lines have its time."""
        return self.stamped > self._stamped_before

    @property
    def restarted(self) -> str:
        """The line that shows that the kernel began anew; empty: none."""
        return self._younger[0] if len(self._younger) >= (1 if self._kexec else BACK_LINES) else ""

    def note(self, kind: str, line: str) -> None:
        """Count a line of trouble."""
        self.counts[kind] = self.counts.get(kind, 0) + 1
        if len(self.lines) < KEPT_LINES and line.strip() not in self.lines[-1:]:
            self.lines.append(line.strip())

    def _clock(self, line: str, kernel_s: float, since_power_s: float) -> None:
        """Detect a restarted kernel by its times.

        A log that is printed again repeats lines, and a program prints one faster than its times go on.
        """
        if kernel_s == 0:
            self._begun = self._begun or self._latest_s > 0
        if kernel_s > since_power_s + AHEAD_S or kernel_s == 0:
            return
        zero_s, line_key = since_power_s - kernel_s, hash(line.strip())
        # A clock in ms steps (jiffies, CONFIG_HZ) gives lines of two kernels the same times
        stamp, is_in_us = f"{kernel_s:.6f}", round(kernel_s * 1e6) % 1000 > 0
        is_repeated, is_young = is_in_us and line_key in self._known, zero_s > (self._zero_s + self.split_s) / 2
        self._known.add(line_key)
        if is_repeated:
            self.printed_again |= self._begun and not self._younger and kernel_s > max(self._latest_s / 2, EARLY_S)
            return
        if is_young and (self._younger or self._begun or kernel_s < self._latest_s - BACK_S):
            self._younger.append(line.strip())
            return
        self._younger, self._kexec, self._begun = [], False, False
        self._times = [*self._times, kernel_s][-STEADY_LINES:]
        self._latest_s = max(self._latest_s, statistics.median_low(self._times))
        self._zero_s = min(self._zero_s, zero_s)
        self.split_s = since_power_s
        if not is_in_us:
            return
        # some of the times are kept, from all over the log
        stride = 1
        while self._marked >= stride * MARKS:
            stride *= 2
        if self._marked % stride == 0:
            if len(self.marks) == MARKS:
                self.marks = self.marks[::2]
            self.marks.append(stamp)
        self._marked += 1


def _torn(match: re.Match[str]) -> bool:
    """True if a line contains another line's time, or its end.

    An earlier time does not count: a program may print it.
    """
    inner = _TORN.search(match["text"])
    if inner is None:
        return _END_OF_STAMP.match(_BRACKETS.sub("", match["text"])) is not None
    return float(f"{inner['s']}.{inner['us']}") >= float(f"{match['s']}.{match['us']}")


def kernel_time_s(line: str) -> float | None:
    """The kernel's time of a line; None: it has none."""
    match = _find(line)
    return None if match is None else float(f"{match['s']}.{match['us']}")


def _find(line: str) -> re.Match[str] | None:
    """Find the kernel's part of a line.

    A logger's own stamp, or terminal sequences, may precede it.
    """
    match = _LINE.search(line[:STAMPED_CHARACTERS])
    if match is None or not _BEFORE.fullmatch(line, 0, match.start()):
        return None
    return _LINE.match(line, match.start())
