"""Bare logs of a console: text without stamps, as terminal programs write it.

`read` removes what the program has added, e.g. a time before each line, and what came after the boot.
"""

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
GARBAGE_SHARE: Final = 0.3  # a log with a larger share of bytes that no console prints is refused, as a live boot is
NUL_SHARE: Final = 0.01  # a UART that is switched on sends a NUL or two; a larger share means a binary file
LINE_NS: Final = 20_000_000  # made-up time from one line to the next
LONGEST_NS: Final = 20 * NS_PER_S  # longest made-up pause between two lines; a longer one would count as a hang
FIRST_NS: Final = NS_PER_S  # made-up time from power on to the first line
PREFIX_SHARE: Final = 0.9  # if so many lines begin with a time of one shape, a program has put it there
TYPED_CHARACTERS: Final = 80  # longer text after a prompt is not taken for typed input
AUTOMATIC: Final = "(automatic login)"  # agetty prints it after the user's name, which nobody typed then

# A time that a terminal program puts before each line: time of day, seconds since 1970, or seconds of the log. The
# kernel's own format is not among them. The text before the time, e.g. a date or a level, and a port's name after it
# have the same shape on each line.
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
PADDED_SHARE: Final = 0.5  # if so many lines are filled with blanks to one width, a program has filled them
_KERNEL_TIME = re.compile(rb"[\r ]*(?:<\d+>)?\[ *(\d{1,6})\.(\d{6})(?:@\d+)?\]")
UNSEEN = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|[@-Z\\^_78=>])|[\x00\x07\r]")


@frozen
class BareLog:
    """The text of a log, as the board has printed it.

    Attributes:
        where: path of the file.
        lines: with their line ends.
        notes: one sentence for each change that `read` has made to the text.
        answer: the shell's prompt after Enter, if the board asks for Enter; empty: the log does not show it.
    """

    where: str
    lines: tuple[bytes, ...] = field(repr=False)
    notes: tuple[str, ...] = ()
    answer: bytes = b""

    @cached_property
    def _ends(self) -> list[int]:
        """Position behind each line."""
        return list(accumulate(len(line) for line in self.lines))

    def line_at(self, position: int) -> int:
        """Return the number, from 1, of the line with the byte before this position."""
        return bisect_left(self._ends, position) + 1

    def text(self, number: int) -> str:
        """Return the line of this number, from 1, without its blanks."""
        return self.lines[number - 1].decode("latin-1").strip()

    def events(self, timing: LineTiming) -> list[Chunk]:
        """Return the lines with made-up stamps, which are never earlier than the kernel's printed times."""
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
    """Read the log of one boot from a file.

    Args:
        board: its prompts tell where the boot ends.

    Raises:
        ConfigurationError: the file cannot be read, is empty, too large, or not a text.
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
    # The newline after a prompt at the end of a log is of the program that has written it, not of the board.
    last = lines[-1].rstrip(b"\r")
    text = last.decode("latin-1")
    waits = any(end.search(text) for end in ends) or re.match(board.prompts.uboot, text) is not None
    return BareLog(
        str(path), (*(line + b"\n" for line in lines[:-1]), last if waits else lines[-1] + b"\n"), tuple(notes), answer
    )


def bare_lines(path: Path) -> Sequence[bytes]:
    """Read the lines of a log, without what a program has put before or after each.

    Raises:
        ConfigurationError: as `read`.
    """
    lines: Sequence[bytes] = _lines(path)
    return _without_margins(_without_prefixes(lines) or lines)[0]


def _lines(path: Path) -> list[bytes]:
    """Read the lines of a file that is a text.

    Raises:
        ConfigurationError: the file cannot be read, is empty, too large, or not a text.
    """
    try:
        if path.exists() and not path.is_file():
            raise ConfigurationError(f"{path}: is a folder or a device; give the file of the log")
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
        raise ConfigurationError(f"{path}: is empty; give the log of a console")
    if data.count(0) > NUL_SHARE * len(data) or garbage(data) > GARBAGE_SHARE:
        raise ConfigurationError(
            f"{path}: is not a text; give the log of a console, unpacked, in UTF-8 or ASCII. If it is one, the "
            "console's speed was wrong"
        )
    return data.split(b"\n")


def _without_prefixes(lines: Sequence[bytes]) -> list[bytes] | None:
    """Return the lines without the time that a program has put before each; None: there is no such time."""
    full = [line for line in lines if line.strip()]
    for prefix in _PREFIXES:
        shapes = Counter(_shape(match) for line in full if (match := prefix.match(line)))
        usual, count = next(iter(shapes.most_common(1)), (None, 0))
        if count >= PREFIX_SHARE * len(full):
            matches = [prefix.match(line) for line in lines]
            return [
                line[match.end() :] if match and _shape(match) == usual else line
                for line, match in zip(lines, matches, strict=True)
            ]
    return None


def _shape(match: re.Match[bytes]) -> tuple[bytes, bytes]:
    """Return the parts of a prefix that are the same on all lines, without the digits of a date."""
    return _NO_DIGITS.sub(b"0", match["lead"]), match["port"]


def _without_margins(lines: Sequence[bytes]) -> tuple[Sequence[bytes], list[str]]:
    """Remove an indent that all lines have, and blanks that fill them to one width.

    Returns:
        The lines, and a note for each removal.
    """
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
    """Restore the blank at the end of prompts, which some programs remove.

    Returns:
        The lines, and the numbers of the restored ones.
    """
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
    """Cut a log at the line that asks for Enter.

    Returns:
        The lines up to it, and the shell's prompt that came after it. If no prompt came: all lines, and empty.
    """
    texts = [line.decode("latin-1").rstrip("\r") for line in lines]
    asking = next((n for n, text in enumerate(texts) if ASKS.search(text) and any(e.search(text) for e in ends)), None)
    shells = [re.compile(board.prompts.shell), *(end for end in ends if not ASKS.search(end.pattern))]
    behind = texts[asking + 1 :] if asking is not None else []
    answer = next((text for text in behind if any(shell.search(text) for shell in shells)), "")
    return (lines[: asking + 1], answer.encode("latin-1")) if asking is not None and answer else (lines, b"")


def _until_typed(lines: Sequence[bytes], ends: Sequence[re.Pattern[str]]) -> tuple[Sequence[bytes], int]:
    """Cut a log at the first prompt with typed input.

    Returns:
        The lines up to the prompt, and its number from 1. If nothing is typed: all lines, and 0.
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
