"""Kernel lines beyond their text: restarts, lost bytes, severity.

The kernel's own lines begin alike, with its time, and their times go on. A program that quotes some (a log of the boot before, dmesg)
puts something before them, or prints them sooner than the kernel could.
"""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Mapping

from attrs import define, field

from lab.boards import Sign

KEPT_LINES = 20  # of trouble, with the attempt
BACK_S = 1.0  # further back than processors' clocks differ, and messages overtake each other
BACK_LINES = 3  # in a row, and behind the median of the last five: garbled digits are no restart
STEADY_LINES = 5
SAME_CLOCK_S = 0.3  # a line whose two times are as far apart as before: the kernel's clock has gone on
AHEAD_S = 5.0  # the kernel's clock may have run before power on was acknowledged, not longer
ERROR_LEVEL = 3  # KERN_ERR of <linux/kern_levels.h>; smaller is worse
STAMPED_CHARACTERS = 200  # of a line, in which the kernel's time stands
# `<level>` with console_msg_format=syslog; a caller stands behind the time with CONFIG_PRINTK_CALLER.
_LINE = re.compile(r"(?:<(?P<level>\d+)>)?\[ *(?P<s>\d{1,9})\.(?P<us>\d{6})\](?P<text>.*)", re.DOTALL)
# No part of it can match in two ways: a console may print anything, and must not keep who looks at it busy.
_BEFORE = re.compile(r"(?:(?:\x1b\[[0-9;]*m|[\w :.,+/-])*(?:[ \t]|\x1b\[[0-9;]*m))?")
_TORN = re.compile(r"\S[^\n]*?\[ {0,4}(?P<s>\d{1,9})\.(?P<us>\d{6})\](?:\[ *[TC]\d+\])? ")
_KEXEC = {"kexec_core: Starting new kernel", "kexec: Starting new kernel"}  # Linux kernel/kexec_core.c
_BY_PROGRAM = re.compile(r"(?:\[ *[TC]\d+\])? *[\w.@:-]+\[\d+\]: ")  # written to /dev/kmsg
_CUT_STAMP = re.compile(r"[\r ]*\[ *\d+\.\d+\] ")
_CHANGES = re.compile(r"\x1b\[[0-9;]*m|[\d:.,/+ \t-]+")  # from line to line, in a logger's own stamp
_BRACKETS = re.compile(r"\[[^\[\]]*\]")
_END_OF_STAMP = re.compile(r"[^\[]*\d\] \S")  # its bracket was never opened
_BEGIN_OF_STAMP = re.compile(r"\[[ \d]{4}\d\.\d{0,5}[^\d\]]")
# Of the levels `notice` and `info`, which neither `quiet` nor `loglevel=4` lets onto the console; from all over a boot.
_TALKS = re.compile(
    r"Linux version \d|Kernel command line: |Memory: \d+K/|clocksource: |NET: Registered |io scheduler \w+ registered|registered new "
    r"|\bmmc\d: new |: (?:re-)?mounted filesystem|UBIFS: mounted|VFS: Mounted root|Freeing unused kernel |random: crng init done"
    r"|audit: type=|: configuring for |systemd-journald\[\d+\]: (?:Received|Collecting) "
    r"|systemd\[1\]: (?:systemd \d|Detected |Hostname set|Set hostname|Created slice|Listening on|Reached target|Start(?:ing|ed) |Mount(?:ing|ed) )"
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
        restarted: the line that shows that the kernel began anew; empty: none.
        went_on_s: since power on, when the last line came that went on with the first kernel's clock.
    """

    troubles: Mapping[str, Sign]
    counts: dict[str, int] = field(factory=dict, init=False)
    lines: list[str] = field(factory=list, init=False)
    stamped: int = field(default=0, init=False)
    talks: bool = field(default=False, init=False)
    torn: int = field(default=0, init=False)
    own: bool = field(default=False, init=False)
    restarted: str = field(default="", init=False)
    went_on_s: float = field(default=0.0, init=False)
    _befores: Counter[str] = field(factory=Counter, init=False)  # what stands before the kernel's part of its lines
    _latest_s: float = field(default=0.0, init=False)
    _times: list[float] = field(factory=list, init=False)
    _behind: list[float] = field(factory=list, init=False)  # of the last lines: the host's time less the kernel's
    _back: int = field(default=0, init=False)
    _repeated: int = field(default=0, init=False)
    _begun: bool = field(default=False, init=False)  # a log began at 0 once more: printed again, or another kernel's
    _first_behind: float = field(default=0.0, init=False)  # of the lines that went back
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
            kernel_s = float(f"{match['s']}.{match['us']}")
            in_time = self._latest_s - BACK_S <= kernel_s <= since_power_s + AHEAD_S
            self.own = usual and in_time and _BY_PROGRAM.match(match["text"]) is None
            if usual:
                self._clock(line, kernel_s, since_power_s)
            if self.own and match["text"].strip() in _KEXEC:
                self.restarted = line.strip()
            if match["level"] and int(match["level"]) & 7 <= ERROR_LEVEL:
                kind = kind or "level"
            self.torn += _torn(match)
        elif _BEGIN_OF_STAMP.match(line):
            self.torn += 1
        if kind:
            self.note(kind, line)

    def begin(self) -> None:
        """The kernel starts now: earlier times are another's, or quoted."""
        self._latest_s, self._times, self._behind, self._back, self._begun = 0.0, [], [], 0, False
        self.restarted = ""

    def note(self, kind: str, line: str) -> None:
        """Count a line of trouble."""
        self.counts[kind] = self.counts.get(kind, 0) + 1
        if len(self.lines) < KEPT_LINES and line.strip() not in self.lines[-1:]:
            self.lines.append(line.strip())

    def _clock(self, line: str, kernel_s: float, since_power_s: float) -> None:
        """Detect a restarted kernel by its times.

        A log printed again repeats earlier lines, or comes faster than its times go on; and the clock of before goes on behind
        it.
        """
        if kernel_s > since_power_s + AHEAD_S:
            return
        if kernel_s == 0:
            self._begun = self._begun or self._latest_s > 0
            return
        known, behind_s = hash(line.strip()), since_power_s - kernel_s
        if self._back and self._first_behind - behind_s > AHEAD_S:
            self.restarted = ""  # no kernel's time runs faster than the host's
            return
        if self._back and self._behind and abs(behind_s - statistics.median_low(self._behind)) < SAME_CLOCK_S:
            self.restarted, self._back, self._begun = "", 0, False
        if kernel_s > self._latest_s - (0 if self._begun else BACK_S) and not self.restarted:
            self._back = self._repeated = 0
            self._begun = False
            self._times = [*self._times, kernel_s][-STEADY_LINES:]
            self.went_on_s = since_power_s
            self._behind = [*self._behind, behind_s][-STEADY_LINES:]
            self._latest_s = max(self._latest_s, statistics.median_low(self._times))
        elif known in self._known:
            self._repeated += 1
        else:
            self._back += 1
            self._first_behind = behind_s if self._back == 1 else self._first_behind
            if self._back >= BACK_LINES and self._back > self._repeated and not self.restarted:
                self.restarted = line.strip()
        self._known.add(known)


def _torn(match: re.Match[str]) -> bool:
    """True if a line contains another line's time, or its end.

    An earlier time does not count: a program may print it.
    """
    inner = _TORN.search(match["text"])
    if inner is None:
        return _END_OF_STAMP.match(_BRACKETS.sub("", match["text"])) is not None
    return float(f"{inner['s']}.{inner['us']}") >= float(f"{match['s']}.{match['us']}")


def _find(line: str) -> re.Match[str] | None:
    """Find the kernel's part of a line.

    A logger's own stamp, or terminal sequences, may precede it.
    """
    match = _LINE.search(line[:STAMPED_CHARACTERS])
    if match is None or not _BEFORE.fullmatch(line, 0, match.start()):
        return None
    return _LINE.match(line, match.start())
