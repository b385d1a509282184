"""Starts of a boot's stages: a reset, or a text that only looks like one.

A reset starts stages over. One repeated line proves none: a script prints a version, a log is printed again, two
stages say nearly the same. So a second start of a stage needs a witness: another stage that starts over, or a line
beside it that was beside it the first time. Behind the kernel's start a bootloader's text is a program's; there the
witness is another kernel.

A banner that a glitch has garbled is no moment. But a board prints the same banner each time, so a line that nearly is
one that came as it should, before or after it, shows that it came once more.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Final

from attrs import define, field

from lab.benchmarks.boot.records import EFI_START, ENDS, START, MomentLike
from lab.benchmarks.output import unreadable
from lab.boards import BoardType, MomentPattern
from lab.errors import BoardTransientError

FIRST_PRINTK: Final = "first_printk"
BEGINS: Final = frozenset({START, EFI_START, FIRST_PRINTK, "init"})  # moments of a kernel that runs
FEW_LINES: Final = 3  # of a kernel that has begun in earnest
NEIGHBOURS: Final = 3  # lines before and behind a stage's text that are compared
BROKEN_OFF_CHARACTERS: Final = 8  # a shorter line begins others by chance
ALIKE_SHARE: Final = 0.4  # of the characters in their places; other lines of a boot have a tenth
ALIKE_CHARACTERS: Final = 20  # shorter lines are alike by chance
SURE_SHARE: Final = 0.85  # at which it is no other text
# Else, of the characters that differ: a glitch flips single bits, another text has letters
ONE_BIT_SHARE: Final = 0.75
_VARIABLE: Final = re.compile(r"\w+=U-Boot ")  # U-Boot's environment, printed: `ver` holds its banner
# U-Boot arch/arm/lib/bootm.c, CONFIG_TRACE
FAKE_START: Final = re.compile(r"Starting kernel \.\.\.\(fake run for tracing\)")
_STAGE_WORD: Final = re.compile(r"\b(?:[STV]PL|BL\d\w?)\b")  # of stages that print nearly the same


@define
class Starts:
    """Follows the starts of one boot.

    Attributes:
        suspected: a second start without a witness; None: none.
        kernel: the kernel has begun.
        doubtful: a stage may have started over, garbled, or it is not sure which of two starts began the kernel.
        again: how often a stage's text came once more without a witness.
    """

    board: BoardType
    suspected: BoardTransientError | None = field(default=None, init=False)
    kernel: bool = field(default=False, init=False)
    doubtful: bool = field(default=False, init=False)
    again: int = field(default=0, init=False)
    _markers: dict[str, MomentPattern] = field(init=False)
    _bootloader: list[MomentPattern] = field(init=False)  # of a flow, up to the start of the kernel
    _counts: dict[str, int] = field(factory=lambda: defaultdict(int), init=False)
    _again: set[str] = field(factory=set, init=False)  # stages that started over
    _behind: set[str] = field(factory=set, init=False)  # stages that came behind the kernel's start
    _lines: list[str] = field(factory=list, init=False)  # before the kernel
    _at: dict[str, list[int]] = field(factory=lambda: defaultdict(list), init=False)  # stage -> numbers of its lines
    _garbled: dict[int, str] = field(factory=dict, init=False)  # number of a line that nearly is a banner -> stage
    _awaited: frozenset[str] = field(default=frozenset(), init=False)  # lines of which each proves the reset
    # The line before the suspected start: its whole form proves it, too
    _broken_off: str = field(default="", init=False)
    _awaited_to: int = field(default=0, init=False)
    _planned: bool = field(default=False, init=False)  # the one reset that this board has, as it should

    def __attrs_post_init__(self) -> None:
        self._markers = {marker.name: marker for marker in self.board.markers}
        names: set[str] = set()
        for flow in (self.board.moments, *map(self.board.flow, self.board.flows)):
            begin = next((at for at, moment in enumerate(flow) if moment.name in BEGINS), len(flow))
            names.update(moment.name for moment in flow[: begin + 1])
        names -= {FIRST_PRINTK, "init", *ENDS}  # the kernel's own, and what a user sees
        self._bootloader = [marker for marker in self._markers.values() if marker.name in names]

    def is_foreign(self, moment: MomentLike, kernel_lines: int) -> bool:
        """Return whether a moment is a bootloader's text behind the kernel's start.

        Args:
            kernel_lines: number of lines with the kernel's time.
        """
        is_bootloader = any(marker.name == moment.name for marker in self._bootloader)
        return self.kernel and is_bootloader and not self._shows_bootloader(moment.name, kernel_lines)

    def moment(self, moment: MomentLike, kernel_lines: int = 0) -> BoardTransientError | None:
        """Take a moment; return the error of a reset.

        Args:
            kernel_lines: see `is_foreign`.
        """
        name, foreign = moment.name, self.is_foreign(moment, kernel_lines)
        if self._shows_bootloader(name, kernel_lines):
            self.kernel = False
            self._behind.clear()
            self._counts[FIRST_PRINTK] = 0
            self.suspected, self._awaited = None, frozenset()
        self._counts[name] += 1
        if foreign or (self.kernel and name == FIRST_PRINTK and self._too_often(name)):
            return self._behind_kernel(name, moment.text)
        self.doubtful |= name == FIRST_PRINTK and bool(self._behind)  # before it no program could print those texts
        if not self.kernel and name in BEGINS:
            self.kernel, self.suspected = True, None  # without a witness up to here, it is to blame for nothing later
        return self._suspect(name, moment.text) if not self.kernel and self._too_often(name) else None

    def forget_start(self) -> None:
        """Take back the kernel's start: U-Boot only tried it."""
        self.kernel = False
        self._counts[START] -= 1

    def _shows_bootloader(self, name: str, kernel_lines: int) -> bool:
        """True for a required stage's first coming: no kernel had begun."""
        return self.kernel and self._markers[name].required and not self._counts[name] and kernel_lines < FEW_LINES

    def whole_line(self, line: str) -> BoardTransientError | None:
        """Take a line; return the error of a reset."""
        line = line.strip()
        if self.board.planned_reset and not self._planned and re.search(self.board.planned_reset, line):
            self._planned = True
            self.suspected, self.doubtful, self.again, self._awaited = None, False, 0, frozenset()
            for collection in (self._counts, self._again, self._lines, self._at, self._garbled):
                collection.clear()
            return None
        return None if self.kernel or not line else self._line_before_kernel(line)

    def _line_before_kernel(self, line: str) -> BoardTransientError | None:
        number = len(self._lines)
        self._lines.append(line)
        if number <= self._awaited_to and self._is_awaited(line):
            return self.suspected
        if line.startswith("[") or _VARIABLE.match(line):
            return None
        stages = [marker.name for marker in self._bootloader if re.search(marker.regex, line)]
        if not stages:
            name = self._nearly(number)
            return self._once_more(name, number) if name else None
        for name in stages:
            is_new = all(self._lines[at] != line for at in self._at[name])
            self._at[name].append(number)
            if is_new and self._is_banner(name):
                for at in range(number):
                    self._nearly(at)
            if self._too_often(name):
                error = self._once_more(name, number)
                if error is not None:
                    return error
        return None

    def _is_awaited(self, line: str) -> bool:
        is_whole = len(self._broken_off) >= BROKEN_OFF_CHARACTERS and line.startswith(self._broken_off)
        return line in self._awaited or is_whole

    def _too_often(self, name: str) -> bool:
        return 0 < self._markers[name].times < self._count(name)

    def _count(self, name: str) -> int:
        return self._counts[name] + sum(stage == name for stage in self._garbled.values())

    def _once_more(self, name: str, number: int) -> BoardTransientError | None:
        """Suspect a reset by a line, and note what would prove it."""
        if not self._too_often(name):
            return None
        numbers = [*self._at[name], *(at for at, stage in self._garbled.items() if stage == name)]
        before = [at for at in numbers if at < number]
        followers = [self._lines[at + 1 : min(at + 1 + NEIGHBOURS, number)] for at in before]
        self._awaited = self._awaited.union(*followers) - {self._lines[number]}
        self._awaited_to = number + NEIGHBOURS
        self._broken_off = self._lines[number - 1] if number - 1 not in before else ""
        error = self._suspect(name, self._lines[number])
        last = max(before, default=0)  # what came before it the last time
        again = {*self._lines[max(0, last - NEIGHBOURS) : last]} & {
            *self._lines[max(last, number - NEIGHBOURS) : number]
        }
        return self.suspected if again - {self._lines[number]} else error

    def _suspect(self, name: str, text: str) -> BoardTransientError | None:
        """Return the error if another stage started over, too."""
        self._again.add(name)
        self.again += 1
        self.doubtful |= name in self._garbled.values()  # no image's manner
        self.suspected = self.suspected or self._error(name, text)
        return self.suspected if len(self._again) > 1 else None

    def _behind_kernel(self, name: str, text: str) -> BoardTransientError | None:
        """Return the error if a bootloader and another kernel came."""
        talked = self._counts[FIRST_PRINTK] > (name == FIRST_PRINTK)
        bootloader = self._behind - BEGINS
        self._behind.add(name)
        if name != FIRST_PRINTK:
            self.suspected = self.suspected or self._error(name, text)
        if talked:
            return self.suspected if name == FIRST_PRINTK and self._behind - {FIRST_PRINTK} else None
        self.doubtful = self.doubtful or name in BEGINS  # which of the two started the kernel?
        return self.suspected if name in BEGINS and bootloader else None

    def _error(self, name: str, text: str) -> BoardTransientError:
        times, count = self._markers[name].times, self._count(name)
        often = f"{text.strip()!r} came for the {_ordinal(count)} time" if count > 1 else f"{text.strip()!r} came"
        why = "behind the kernel's start" if self.kernel else f"a healthy boot prints it {times} ×"
        return BoardTransientError(
            f"the board reset while booting: {often} ({why}). Look for a watchdog, a weak supply or a panic before it",
            failure="reset",
        )

    # --- Garbled banners ---

    def _is_banner(self, name: str) -> bool:
        return self._markers[name].required and self._markers[name].times > 0 and name != START

    def _nearly(self, number: int) -> str:
        """The stage whose banner a line nearly is, noted; empty: none.

        The line may follow a piece that a garbled newline cut off.
        """
        line = self._lines[number]
        of_stages = {at for numbers in self._at.values() for at in numbers}
        if number in of_stages or number in self._garbled or line.startswith("[") or _VARIABLE.match(line):
            return ""
        name = self._resembles(line)
        piece = number - 1
        is_piece = number and piece not in of_stages and piece not in self._garbled
        if not name and is_piece and not _VARIABLE.match(self._lines[piece]):
            joined = (self._resembles(self._lines[piece] + " " * blanks + line) for blanks in (1, 2))
            name = next(filter(None, joined), "")
        if name:
            self._garbled[number] = name
        return name

    def _resembles(self, line: str) -> str:
        """The stage whose banner the text nearly is; empty: none."""
        if len(line) < ALIKE_CHARACTERS:
            return ""
        banners = [(self._lines[at], name) for name, at_ in self._at.items() if self._is_banner(name) for at in at_]
        similar = [(share, name) for banner, name in banners if (share := alike(line, banner)) >= ALIKE_SHARE]
        return max(similar, default=(0.0, ""))[1]


def alike(line: str, banner: str) -> float:
    """The share of a banner's characters in a damaged line's end.

    It is 0 for another text. A reset breaks off a line, so the banner may start anywhere.
    """
    spare = len(line) - len(banner)
    if spare < -len(banner) // 10:
        return 0.0
    places = {max(0, offset) for offset in (0, 1, 2, *range(spare - 2, spare + 3))}
    pairs = max(
        (list(zip(line[offset:], banner, strict=False)) for offset in places),
        key=lambda found: sum(character == other for character, other in found),
    )
    differ = [(ord(character) ^ ord(other)).bit_count() for character, other in pairs if character != other]
    share = (len(pairs) - len(differ)) / len(banner)
    if not unreadable(line.encode("latin-1", "replace")):
        stages, banner_stages = _STAGE_WORD.findall(line), _STAGE_WORD.findall(banner)
        if stages and stages != banner_stages:
            return 0.0
        is_sure = stages == banner_stages and share >= SURE_SHARE  # without its stage, a glitch may have garbled that
        if not is_sure and sum(bits == 1 for bits in differ) < ONE_BIT_SHARE * len(differ):
            return 0.0
    return share


def _ordinal(number: int) -> str:
    return {2: "second", 3: "third"}.get(number, f"{number}th")
