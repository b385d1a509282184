"""A bare log of a console, without stamps, as a boot prints it."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Final

from attrs import field, frozen

from lab.benchmarks.boot import ENDS
from lab.benchmarks.boot.prompt import ASKS
from lab.benchmarks.output import garbage
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
PREFIX_SHARE: Final = 0.9  # of the lines, that begin with a time where a program has put one before each
TYPED_CHARACTERS: Final = 80
AUTOMATIC: Final = "(automatic login)"  # of agetty, behind the user's name: nobody typed it

# A time that a terminal program puts before each line: of day, of the epoch, or of the log in seconds. The kernel's
# own is not among them. What stands before it, e.g. a date or a level, and a port's name behind it look the same on
# each line.
_TIMES = (
    rb"\d{1,2}[:.]\d\d[:.]\d\d(?:[.,:]\d+)?(?: ?[AaPp][Mm])?(?:Z| ?[+-]\d\d:?\d\d| (?:19|20)\d\d)?",
    rb"\d{9,13}(?:[.,]\d+)?",
    rb"\d+\.\d{6} \d+\.\d{6}",
    rb"\d+[.,](?:\d{1,5}|\d{7,9}) ?s?",
)
_PREFIXES = tuple(
    re.compile(rb"(?P<lead>[^\n]{0,32}?)" + time + rb" {0,2}[])}>|:;,-]{0,2}" + port + rb"(?: |\t|\r?$)")
    for time in _TIMES
    for port in (rb"(?P<port> [\w./-]{1,32}[:>|])", rb"(?P<port>)")
)
_NO_DIGITS = re.compile(rb"[\d ]+")
PADDED_SHARE: Final = 0.5  # of the lines, that blanks fill up to one width
_KERNEL_TIME = re.compile(rb"[\r ]*(?:<\d+>)?\[ *(\d{1,6})\.(\d{6})(?:@\d+)?\]")
UNSEEN = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|[@-Z\\^_78=>])|[\x00\x07\r]")


@frozen
class BareLog:
    """The text of a log, as for a live boot.

    Attributes:
        where: the file.
        lines: with line ends.
        notes: changes of the text, for people.
        answer: what came behind Enter, where the board asks for it; empty: not in it.
    """

    where: str
    lines: tuple[bytes, ...] = field(repr=False)
    notes: tuple[str, ...] = ()
    answer: bytes = b""

    @cached_property
    def _ends(self) -> list[int]:
        return list(accumulate(len(line) for line in self.lines))

    def line_at(self, position: int) -> int:
        """The line number, from 1, of the byte before this position."""
        return bisect_left(self._ends, position) + 1

    def text(self, number: int) -> str:
        """The line of that number."""
        return self.lines[number - 1].decode("latin-1").strip()

    def events(self, timing: LineTiming) -> list[Chunk]:
        """The lines with made-up stamps, at least as fast as kernel times."""
        chunks: list[Chunk] = []
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
            chunks.append(Chunk(t_ns, position, line))
            position += len(line)
        return chunks


def read(path: Path, board: BoardType) -> BareLog:
    """The log in a file.

    Raises:
        ConfigurationError: it cannot be read, is empty, too large, or no text.
    """
    lines: Sequence[bytes] = _lines(path)
    notes = []
    shorter = _without_prefixes(lines)
    if shorter is not None:
        lines = shorter
        notes.append("each line's time was left out")
    lines, margins = _without_margins(lines)
    notes += margins
    ends = [re.compile(pattern.regex) for pattern in board.markers if pattern.name in ENDS]
    lines, restored = _with_blanks(lines, ends)
    if restored:
        notes.append(f"the blank behind the prompt was lost, and put back in line {restored[0]}")
    lines, typed = _until_typed(lines, ends)
    lines, answer = _until_enter(lines, ends, board)
    if answer:
        notes.append(
            f"read as far as line {len(lines)}, which asks for Enter; {answer.decode('latin-1')!r} answered it"
        )
    elif typed:
        notes.append(f"read as far as the prompt in line {typed}, which has typed input")
    while len(lines) > 1 and not lines[-1].strip():
        lines = lines[:-1]
    last = lines[-1].rstrip(b"\r")  # the program that keeps a log ends its last line, not the board
    text = last.decode("latin-1")
    waits = any(end.search(text) for end in ends) or re.match(board.prompts.uboot, text) is not None
    return BareLog(
        str(path), (*(line + b"\n" for line in lines[:-1]), last if waits else lines[-1] + b"\n"), tuple(notes), answer
    )


def bare_lines(path: Path) -> Sequence[bytes]:
    """The lines of a log, without what a program put before or behind each.

    Raises:
        ConfigurationError: as of `read`.
    """
    lines: Sequence[bytes] = _lines(path)
    return _without_margins(_without_prefixes(lines) or lines)[0]


def _lines(path: Path) -> list[bytes]:
    try:
        if path.exists() and not path.is_file():
            raise ConfigurationError(f"{path}: no file, but a folder or a device; name the log itself")
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a name with a NUL
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigurationError(f"{path}: cannot be read: {reason}; check the path") from error
    if len(data) > MAX_BYTES:
        raise ConfigurationError(
            f"{path}: larger than {MAX_BYTES // 1_000_000} MB, and a boot prints some 50 kB: cut one boot out of it"
        )
    if not data.strip():
        raise ConfigurationError(f"{path}: empty; a log of a console is needed")
    if data.count(0) > NUL_SHARE * len(data) or garbage(data) > GARBAGE_SHARE:
        raise ConfigurationError(
            f"{path}: no text: a log of a console is needed, unpacked, in UTF-8 or ASCII. If it is one, the console's "
            "speed was wrong"
        )
    return data.split(b"\n")


def _without_prefixes(lines: Sequence[bytes]) -> list[bytes] | None:
    """The lines without a program's time prefixes; None: no prefixes."""
    full = [line for line in lines if line.strip()]
    for prefix in _PREFIXES:
        shapes = Counter(_shape(match) for line in full if (match := prefix.match(line)))
        usual, count = max(shapes.items(), key=lambda found: found[1], default=(None, 0))
        if count >= PREFIX_SHARE * len(full):
            matches = [prefix.match(line) for line in lines]
            return [
                line[match.end() :] if match and _shape(match) == usual else line
                for line, match in zip(lines, matches, strict=True)
            ]
    return None


def _shape(match: re.Match[bytes]) -> tuple[bytes, bytes]:
    """The parts of a prefix that all lines have."""
    return _NO_DIGITS.sub(b"0", match["lead"]), match["port"]


def _without_margins(lines: Sequence[bytes]) -> tuple[Sequence[bytes], list[str]]:
    """The lines without an indent that all have, and without blanks that fill them up; and notes on it."""
    notes = []
    full = [line.rstrip(b"\r") for line in lines if line.strip()]
    indent = min((len(line) - len(line.lstrip(b" \t")) for line in full), default=0)
    if indent:
        lines = [line[indent:] if line.strip() else b"" for line in lines]
        notes.append(f"all lines are indented; {indent} characters of each were left out")
    widths = Counter(len(line) for line in full if line.endswith(b"  "))
    if widths and max(widths.values()) >= PADDED_SHARE * len(full):
        lines = [line.rstrip(b" \r") for line in lines]
        notes.append("the blanks that fill up the lines were left out")
    return lines, notes


def _with_blanks(lines: Sequence[bytes], ends: Sequence[re.Pattern[str]]) -> tuple[list[bytes], list[int]]:
    """The lines with prompts' trailing blanks restored, and their numbers."""
    whole_lines, restored = [], []
    for number, line in enumerate(lines, start=1):
        text = line.rstrip(b"\r").decode("latin-1")
        if not any(end.search(text) for end in ends) and any(end.search(text + " ") for end in ends):
            whole_lines.append(line.rstrip(b"\r") + b" ")
            restored.append(number)
        else:
            whole_lines.append(line)
    return whole_lines, restored


def _until_enter(
    lines: Sequence[bytes], ends: Sequence[re.Pattern[str]], board: BoardType
) -> tuple[Sequence[bytes], bytes]:
    """The lines up to one that asks for Enter, and the shell's prompt behind it; empty: none came."""
    texts = [line.decode("latin-1").rstrip("\r") for line in lines]
    asking = next((n for n, text in enumerate(texts) if ASKS.search(text) and any(e.search(text) for e in ends)), None)
    shells = [re.compile(board.prompts.shell), *(end for end in ends if not ASKS.search(end.pattern))]
    behind = texts[asking + 1 :] if asking is not None else []
    answer = next((text for text in behind if any(shell.search(text) for shell in shells)), "")
    return (lines[: asking + 1], answer.encode("latin-1")) if asking is not None and answer else (lines, b"")


def _until_typed(lines: Sequence[bytes], ends: Sequence[re.Pattern[str]]) -> tuple[Sequence[bytes], int]:
    """The lines up to the first typed command, and its number.

    0: nothing is typed.
    """
    for number, line in enumerate(lines, start=1):
        text = line.decode("latin-1")
        for end in ends:
            match = end.search(text)
            typed = UNSEEN.sub("", text[match.end() :]).strip() if match else ""
            if (
                match
                and typed
                and not typed.endswith(AUTOMATIC)
                and len(typed) <= TYPED_CHARACTERS
                and not _KERNEL_TIME.match(typed.encode("latin-1"))
            ):
                return [*lines[: number - 1], text[: match.end()].encode("latin-1")], number
    return lines, 0
