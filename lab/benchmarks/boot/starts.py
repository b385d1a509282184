"""How often a board began to boot: by the markers of its start, and by lines that were nearly such markers.

A banner that a glitch has garbled is no moment. But a board prints the same banner each time, so a line that nearly is one
that came as it should, before or after it, shows that it came once more.
"""

from __future__ import annotations

import re
from collections import Counter

from attrs import define, field

from lab.benchmarks.boot.records import START, MomentLike
from lab.boards import BoardType, MomentPattern
from lab.errors import BoardTransientError

LAST_OF_START = "first_printk"  # up to this moment, one that comes too often is a boot that began anew
ALIKE_SHARE = 0.4  # of the characters in their places; other lines of a boot have a tenth
ALIKE_CHARACTERS = 20  # shorter lines are alike by chance
_VARIABLE = re.compile(r"\w+=U-Boot ")  # U-Boot's environment, printed: `ver` holds its banner


@define
class Starts:
    """Counts the markers up to the kernel's first line; a board that has begun anew has one too many."""

    board: BoardType
    _counts: Counter[str] = field(factory=Counter, init=False)
    _banners: dict[str, set[str]] = field(factory=dict, init=False)  # moment -> its lines, as they should be
    _others: list[str] = field(
        factory=list, init=False
    )  # lines before the kernel that are no banner; empty: one that is
    _garbled: Counter[str] = field(factory=Counter, init=False)  # moment -> lines that nearly are its banner
    _piece: str = field(default="", init=False)  # the line before, where it may be the begin of a banner
    _kernel: bool = field(default=False, init=False)
    _planned: bool = field(default=False, init=False)  # the one reset that this board has, as it should

    def moment(self, moment: MomentLike) -> BoardTransientError | None:
        """Take note of a moment. Returns: that the board has reset."""
        self._kernel = self._kernel or moment.name == START
        self._counts[moment.name] += 1
        names = [pattern.name for pattern in self.board.markers]
        last = names.index(LAST_OF_START if LAST_OF_START in names else START)
        if names.index(moment.name) > last:
            return None
        return self._judged(moment.name, moment.text)

    def whole_line(self, line: str) -> BoardTransientError | None:
        """Take a line. Returns: that the board has reset, for its banner came once more, garbled."""
        line = line.strip()
        if self.board.planned_reset and not self._planned and re.search(self.board.planned_reset, line):
            self._planned = True
            self._counts.clear()
            self._others.clear()
            self._garbled.clear()
            return None
        if line.startswith("[") or _VARIABLE.match(line):
            self._piece = ""
            return None
        pattern = next((each for each in self._patterns() if re.search(each.regex, line)), None)
        if pattern is None:
            if not self._kernel:
                self._others.append(line)
            name, self._piece = self._nearly(line, self._piece)
            self._garbled[name] += 1
            return self._judged(name, line) if name else None
        self._piece = ""
        self._others.append("")
        known = self._banners.setdefault(pattern.name, set())
        if line in known:
            return None
        known.add(line)
        self._garbled, piece = Counter(), ""
        for other in self._others:
            name, piece = self._nearly(other, piece)
            self._garbled[name] += 1
        return self._judged(pattern.name, line)

    def _nearly(self, line: str, piece: str) -> tuple[str, str]:
        """The moment whose banner a line nearly is, alone or behind a piece that a garbled newline cut off; empty: none.

        Returns also: what may be such a piece of the next line.
        """
        name = self._resembles(line) or (self._resembles(f"{piece} {line}") if piece else "")
        return name, "" if name else line

    def _patterns(self) -> list[MomentPattern]:
        names = [pattern.name for pattern in self.board.moments]
        return [p for p in self.board.moments[: names.index(START)] if p.required and p.times]

    def _resembles(self, line: str) -> str:
        """The moment whose banner the text nearly is; empty: none."""
        if len(line) < ALIKE_CHARACTERS:
            return ""
        shares = [(alike(line, banner), name) for name, known in self._banners.items() for banner in known]
        share, name = max(shares, default=(0.0, ""))
        return name if share >= ALIKE_SHARE else ""

    def _judged(self, name: str, text: str) -> BoardTransientError | None:
        pattern = next(each for each in self.board.markers if each.name == name)
        garbled = self._garbled[name]
        count = self._counts[name] + garbled
        if not 0 < pattern.times < count:
            return None
        return BoardTransientError(
            f"the board reset while booting: {text.strip()!r} came for the {_ordinal(count)} time{', garbled' if garbled else ''} "
            f"(a healthy boot prints it {pattern.times} ×). Look for a watchdog, a weak supply or a panic before it",
            failure="reset",
        )


def alike(line: str, banner: str) -> float:
    """The share of a banner's characters that a line, or what it ends in, has in their places: a reset breaks off a line."""
    spare = len(line) - len(banner)
    if spare < -len(banner) // 10:
        return 0.0
    places = {max(0, place) for place in (0, 1, 2, *range(spare - 2, spare + 3))}
    return max(
        sum(one == other for one, other in zip(line[place:], banner, strict=False)) / len(banner) for place in places
    )


def _ordinal(number: int) -> str:
    return {2: "second", 3: "third"}.get(number, f"{number}th")
