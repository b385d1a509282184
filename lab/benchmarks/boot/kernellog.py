"""Kernel lines beyond their text: restarts, lost bytes, severity."""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping

from attrs import define, field

from lab.boards import Sign

KEPT_LINES = 20  # of trouble, with the attempt
BACK_S = 1.0  # further back than processors' clocks differ, and messages overtake each other
BACK_LINES = 3  # in a row, and behind the median of the last five: garbled digits are no restart
STEADY_LINES = 5
AHEAD_S = 5.0  # the kernel's clock may have run before power on was acknowledged, not longer
ERROR_LEVEL = 3  # KERN_ERR of <linux/kern_levels.h>; smaller is worse
STAMPED_CHARACTERS = 200  # of a line, in which the kernel's time stands
# `<level>` with console_msg_format=syslog; a caller stands behind the time with CONFIG_PRINTK_CALLER.
_LINE = re.compile(r"(?:<(?P<level>\d+)>)?\[ *(?P<s>\d{1,9})\.(?P<us>\d{6})\](?P<text>.*)", re.DOTALL)
# No part of it can match in two ways: a console may print anything, and must not keep who looks at it busy.
_BEFORE = re.compile(r"(?:(?:\x1b\[[0-9;]*m|[\w :.,+/-])*(?:[ \t]|\x1b\[[0-9;]*m))?")
_TORN = re.compile(r"\S[^\n]*?\[ {0,4}(?P<s>\d{1,9})\.(?P<us>\d{6})\](?:\[ *[TC]\d+\])? ")
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
        restarted: the line that shows that the kernel began anew; empty: none.
    """

    troubles: Mapping[str, Sign]
    counts: dict[str, int] = field(factory=dict, init=False)
    lines: list[str] = field(factory=list, init=False)
    stamped: int = field(default=0, init=False)
    talks: bool = field(default=False, init=False)
    torn: int = field(default=0, init=False)
    restarted: str = field(default="", init=False)
    _latest_s: float = field(default=0.0, init=False)
    _times: list[float] = field(factory=list, init=False)
    _back: int = field(default=0, init=False)
    _known: set[int] = field(factory=set, init=False)

    def whole_line(self, line: str, since_power_s: float) -> None:
        """Take a console line and its time since power on."""
        match = _find(line)
        kind = next((sign.means for text, sign in self.troubles.items() if re.search(text, line)), "")
        self.talks = self.talks or _TALKS.search(line) is not None
        if match is not None:
            self.stamped += 1
            self._clock(line, float(f"{match['s']}.{match['us']}"), since_power_s)
            if match["level"] and int(match["level"]) & 7 <= ERROR_LEVEL:
                kind = kind or "level"
            self.torn += _torn(match)
        elif _BEGIN_OF_STAMP.match(line):
            self.torn += 1
        if kind:
            self.counts[kind] = self.counts.get(kind, 0) + 1
            if len(self.lines) < KEPT_LINES:
                self.lines.append(line.strip())

    def _clock(self, line: str, kernel_s: float, since_power_s: float) -> None:
        """Detect a restarted kernel by its times.

        A log printed again repeats earlier lines; a restarted kernel has others.
        """
        if kernel_s == 0 or kernel_s > since_power_s + AHEAD_S:
            return
        known = hash(line.strip())
        if kernel_s > self._latest_s - BACK_S:
            self._back = 0
            self._times = [*self._times, kernel_s][-STEADY_LINES:]
            self._latest_s = max(self._latest_s, statistics.median_low(self._times))
        elif known not in self._known:
            self._back += 1
            if self._back == BACK_LINES and not self.restarted:
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
