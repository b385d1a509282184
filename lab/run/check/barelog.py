"""A bare log of a console: its text, and nothing of when it came."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Final

from attrs import field, frozen

from lab.benchmarks.boot import ENDS
from lab.benchmarks.consoletext import garbage
from lab.boards import BoardType
from lab.console.model import Chunk, LineTiming
from lab.errors import ConfigurationError
from lab.host.clock import NS_PER_S

MAX_BYTES: Final = 5_000_000  # a boot prints some 50 kB
GARBAGE_SHARE: Final = 0.3  # of bytes that no console prints, as in a live boot
NUL_SHARE: Final = 0.01  # a UART that is switched on sends one
LINE_NS: Final = 20_000_000  # from a line to the next, made up
LONGEST_NS: Final = 20 * NS_PER_S  # between two lines; a board that is silent for longer counts as hung
FIRST_NS: Final = NS_PER_S  # from power on to the first line
PREFIX_SHARE: Final = 0.9  # of the lines, that begin with a time of day where a program has put one before each
TYPED_CHARACTERS: Final = 80

# What programs put before each line: grabserial; tio, minicom; ts, journalctl; an ISO time. The kernel's own is not among them.
_PREFIXES = (
    re.compile(rb"\[\d+\.\d{6} \d+\.\d{6}\] "),
    re.compile(rb"\[(?:\d{4}-\d\d-\d\d[ T])?\d\d:\d\d:\d\d(?:\.\d+)?\]:? ?"),
    re.compile(rb"(?:[A-Z][a-z]{2} [ \d]\d )?\d\d:\d\d:\d\d(?:\.\d+)? "),
    re.compile(rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)? "),
)
_KERNEL_TIME = re.compile(rb"[\r ]*(?:<\d+>)?\[ *(\d{1,6})\.(\d{6})\]")
_UNSEEN = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|[@-Z\\^_78=>])|[\x00\x07\r]")


@frozen
class BareLog:
    """The text of a log, as a live boot is given it.

    Attributes:
        where: the file.
        lines: with their ends.
        notes: what was done to the text, for people.
    """

    where: str
    lines: tuple[bytes, ...] = field(repr=False)
    notes: tuple[str, ...] = ()

    @cached_property
    def _ends(self) -> list[int]:
        return list(accumulate(len(line) for line in self.lines))

    def line_at(self, position: int) -> int:
        """The number, from 1, of the line that the byte before this position is in."""
        return bisect_left(self._ends, position) + 1

    def text(self, number: int) -> str:
        """The line of that number."""
        return self.lines[number - 1].decode("latin-1").strip()

    def events(self, timing: LineTiming) -> list[Chunk]:
        """The lines, with made-up stamps that go at least as fast as the kernel's own times."""
        found: list[Chunk] = []
        t_ns, position = FIRST_NS, 0
        kernel_began_ns: int | None = None
        for line in self.lines:
            earliest_ns = t_ns + LINE_NS + timing.bytes_ns(len(line))
            stamp = _KERNEL_TIME.match(line)
            if stamp is not None:
                kernel_ns = int(stamp[1]) * NS_PER_S + int(stamp[2]) * 1000
                if kernel_began_ns is None:
                    kernel_began_ns = earliest_ns - kernel_ns
                earliest_ns = max(earliest_ns, min(kernel_began_ns + kernel_ns, t_ns + LONGEST_NS))
            t_ns = earliest_ns
            found.append(Chunk(t_ns, position, line))
            position += len(line)
        return found


def read(path: Path, board: BoardType) -> BareLog:
    """The log in a file.

    Raises:
        ConfigurationError: it cannot be read, is empty, too large, or no text.
    """
    data = _content(path)
    if not data.strip():
        raise ConfigurationError(f"{path}: empty; a log of a console is needed")
    if data.count(0) > NUL_SHARE * len(data) or garbage(data) > GARBAGE_SHARE:
        raise ConfigurationError(
            f"{path}: no text: a log of a console is needed, unpacked, in UTF-8 or ASCII. If it is one, the console's speed was wrong"
        )
    lines = data.splitlines(keepends=False) if b"\n" not in data else data.split(b"\n")
    return _as_a_boot_prints(str(path), lines, board)


def _content(path: Path) -> bytes:
    try:
        if path.exists() and not path.is_file():
            raise ConfigurationError(f"{path}: no file")
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a name with a NUL
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigurationError(f"{path}: cannot be read: {reason}") from error
    if len(data) > MAX_BYTES:
        raise ConfigurationError(
            f"{path}: larger than {MAX_BYTES // 1_000_000} MB, and a boot prints some 50 kB: cut one boot out of it"
        )
    return data


def _as_a_boot_prints(where: str, lines: Sequence[bytes], board: BoardType) -> BareLog:
    """The lines without what programs and people have done to them since."""
    notes = []
    shorter = _without_prefixes(lines)
    if shorter is not None:
        lines = shorter
        notes.append("each line's time of day was left out")
    ends = [re.compile(pattern.regex) for pattern in board.markers if pattern.name in ENDS]
    lines, restored = _with_blanks(lines, ends)
    if restored:
        notes.append(f"the blank behind the prompt was lost, and put back in line {restored[0]}")
    lines, typed = _until_typed(lines, ends)
    if typed:
        notes.append(f"read as far as the prompt in line {typed}, where somebody types")
    while len(lines) > 1 and not lines[-1].strip():
        lines = lines[:-1]
    last = lines[-1].decode("latin-1")
    waits = any(end.search(last) for end in ends) or re.match(board.prompts.uboot, last) is not None
    return BareLog(where, (*(line + b"\n" for line in lines[:-1]), lines[-1] + b"\n" * (not waits)), tuple(notes))


def _without_prefixes(lines: Sequence[bytes]) -> list[bytes] | None:
    """The lines without the times that a program has put before them; None: there are none."""
    full = [line for line in lines if line.strip()]
    for prefix in _PREFIXES:
        if sum(prefix.match(line) is not None for line in full) >= PREFIX_SHARE * len(full):
            return [prefix.sub(b"", line, count=1) for line in lines]
    return None


def _with_blanks(lines: Sequence[bytes], ends: Sequence[re.Pattern[str]]) -> tuple[list[bytes], list[int]]:
    """The lines, with the blanks at the ends of prompts that an editor took away; and the numbers of those lines."""
    found, restored = [], []
    for number, line in enumerate(lines, start=1):
        text = line.rstrip(b"\r").decode("latin-1")
        if not any(end.search(text) for end in ends) and any(end.search(text + " ") for end in ends):
            found.append(line.rstrip(b"\r") + b" ")
            restored.append(number)
        else:
            found.append(line)
    return found, restored


def _until_typed(lines: Sequence[bytes], ends: Sequence[re.Pattern[str]]) -> tuple[Sequence[bytes], int]:
    """The lines up to the first prompt that somebody types at, and its number; 0: nobody does."""
    for number, line in enumerate(lines, start=1):
        text = line.decode("latin-1")
        for end in ends:
            match = end.search(text)
            typed = _UNSEEN.sub("", text[match.end() :]).strip() if match else ""
            if match and typed and len(typed) <= TYPED_CHARACTERS and not _KERNEL_TIME.match(typed.encode("latin-1")):
                return [*lines[: number - 1], text[: match.end()].encode("latin-1")], number
    return lines, 0
