"""Reader of guides as lines of text.

It reads Sphinx's plain text, Markdown, and pages copied with tabs.

The three differ in how they draw a table (grid, bars, tabs) and mark a heading (underline, #, number), and no mark of
one means another thing in the others. So one reader takes them all, also mixed.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from attrs import define, field, frozen

from lab.guide.read.assemble import RawRow
from lab.guide.read.document import Builder, Document
from lab.guide.read.markup import plain, unescaped

# Words of the vendor's headers and rows; with the file's own prose they tell where a narrow column cut a word.
_HEADER_WORDS = frozenset(
    """
    fs perf frame size udp datagram throughput packets per second cpu load packet loss boot time in seconds
    avg min max read write raw ext2 ext3 ext4 vfat buffer file sampling rate algorithm rail name voltage power
    low mode total resume latency command used benchmark benchmarks score fps number of blocks configuration
    bandwidth tcp window linux from mmcsd with default rootfs when init is and or the for to resolution format
    packets/sec
    """.split()  # noqa: SIM905 - a list of one word a line says no more
)
_GRID = re.compile(r"^[^\S\n]*\|=[=|]*\|[^\S\n]*$", re.MULTILINE)
PIPES = re.compile(r"^\s*\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)+\|?\s*$|^\s*\|\s*:?-+:?\s*\|\s*$")
_TABBED = re.compile(r"[^\S\n]*\S[^\t\n]*\t")
_HASHES = re.compile(r"(#{1,6})\s+(\S.*?)\s*#*\s*$")
_UNDERLINE = re.compile(r"([=\-~*+\"^'`#:.])\1+\s*$")
_DEPTHS = '*=-~"+'  # Sphinx's text builder, outermost first; the titles of tables have ^
_RUBRIC = re.compile(r"-\[ (.*) \]-$")
_NUMBERED = re.compile(r"(\d+(?:\.\d+)+)\.\s+(\S.*)$")
_BULLET = re.compile(r"\s*(?:[•·*+-]|\d+\.)\s+(\S.*)$")
_PANDOC_CAPTION = re.compile(r"\s{0,3}:\s+(\S.*)$")
_LONGEST_HEADING = 80


def form(text: str) -> str | None:
    """Form of a text: "plain text", "markdown", "tab-separated", or None."""
    if _GRID.search(text):
        return "plain text"
    lines = text.split("\n")
    if any("|" in before and PIPES.match(line) for before, line in itertools.pairwise(lines)):
        return "markdown"
    if any(_begins_tabs(a, b) for a, b in itertools.pairwise(lines)):
        return "tab-separated"
    return None


def read(text: str) -> Document:
    """Parse a guide."""
    known = frozenset(words(text)) | _HEADER_WORDS
    return _Reader(text.split("\n"), frozenset(w.lower() for w in known) | known).read()


@define
class _Reader:
    lines: Sequence[str]
    known: frozenset[str]
    at: int = 0
    builder: Builder = field(factory=Builder)

    def read(self) -> Document:
        while self.at < len(self.lines):
            line = self.lines[self.at]
            if not line.strip():
                self.at += 1
            elif BORDER.match(line) and line.lstrip().startswith("+"):
                self._grid()
            elif "|" in line and PIPES.match(self._line(1)):
                self._pipes()
            elif _begins_tabs(line, self._line(1)):
                self._tabs()
            elif not self._heading():
                self._text()
        return self.builder.finish()

    def _line(self, ahead: int) -> str:
        return self.lines[self.at + ahead] if self.at + ahead < len(self.lines) else ""

    def _taken(self, count: int) -> list[tuple[int, str]]:
        found = [(i + 1, self.lines[i]) for i in range(self.at, self.at + count)]
        self.at += count
        return found

    def _while(self, belongs: re.Pattern[str]) -> int:
        count = 0
        while self.at + count < len(self.lines) and belongs.match(self.lines[self.at + count]):
            count += 1
        return count

    def _while_after_first(self, belongs: re.Pattern[str]) -> int:
        self.at += 1
        count = self._while(belongs)
        self.at -= 1
        return count

    def _grid(self) -> None:
        count = 1
        while self.at + count < len(self.lines) and is_line(self.lines[self.at + count]):
            count += 1
        lines = self._taken(count)
        table = parse(lines, self.known)
        if table.rows:
            self.builder.table("", lines[0][0], table.header, table.rows)
        else:
            self.builder.unread(lines[0][0], "a drawn table without rows")

    def _pipes(self) -> None:
        line = self.at + 1
        header = _piped(self._taken(2)[0][1])
        rows = [RawRow(number, _piped(text)) for number, text in self._taken(self._while(re.compile(r".*\|")))]
        self.builder.table("", line, header, rows)

    def _tabs(self) -> None:
        lines = self._taken(1 + self._while_after_first(_TABBED))
        cells = [
            RawRow(number, tuple(part.strip() for part in text.rstrip("\n").split("\t"))) for number, text in lines
        ]
        self.builder.table("", lines[0][0], cells[0].cells, cells[1:])

    def _heading(self) -> bool:
        """Take a heading, with its underline if it has one."""
        text = self.lines[self.at].strip()
        under = _UNDERLINE.match(self._line(1).strip())
        if match := _RUBRIC.fullmatch(text):
            self.builder.rubric(match[1])
            self.at += 1
        elif under and len(under[0].strip()) >= min(len(text), 3) and not _UNDERLINE.fullmatch(text):
            if under[1] == "^":
                self.builder.caption(text)
            else:
                self.builder.heading(_DEPTHS.find(under[1]) + 1, text)
            self.at += 2
        elif match := _HASHES.fullmatch(text):
            self.builder.heading(len(match[1]), match[2])
            self.at += 1
        elif (match := _NUMBERED.fullmatch(text)) and len(text) <= _LONGEST_HEADING:
            self.builder.heading(match[1].count("."), match[2])
            self.at += 1
        else:
            return False
        return True

    def _text(self) -> None:
        """Take a list, a caption or a paragraph."""
        if _BULLET.match(self.lines[self.at]):
            self.builder.items(self._bullets())
            return
        if match := _PANDOC_CAPTION.fullmatch(self.lines[self.at]):
            self.builder.caption(match[1])
            self.at += 1
            return
        number = self.at + 1
        is_indented = self.lines[self.at][0] in " \t"  # a command, or a quotation
        paragraph: list[str] = []
        while self.at < len(self.lines) and self.lines[self.at].strip() and not (paragraph and self._begins_table()):
            paragraph.append(self.lines[self.at].strip())
            self.at += 1
        text = " ".join(paragraph)
        if len(paragraph) == 1 and not is_indented and _may_be_heading(text):
            self._bare_heading(text)
        else:
            self.builder.paragraph(text, number)

    def _bare_heading(self, text: str) -> None:
        """Take a short line as heading.

        A copied page marks neither its headings nor the titles of its tables.
        """
        if "performance guide" in text.lower() and not self.builder.document.title:
            self.builder.heading(0, text)
        elif plain(text).lower().startswith("table"):
            self.builder.paragraph(text, self.at)
        else:
            self.builder.rubric(text)

    def _bullets(self) -> list[tuple[str, int]]:
        """The items of a list, each with the lines that continue it."""
        found: list[tuple[str, int]] = []
        while self.at < len(self.lines):
            line = self._line(0)
            if match := _BULLET.match(line):
                found.append((match[1].strip(), self.at + 1))
            elif line.strip() and line[0] in " \t":
                found[-1] = (f"{found[-1][0]} {line.strip()}", found[-1][1])
            elif line.strip() or not _BULLET.match(self._line(1)):
                return found
            self.at += 1
        return found

    def _begins_table(self) -> bool:
        line, following = self._line(0), self._line(1)
        return bool(BORDER.match(line) or ("|" in line and PIPES.match(following)) or _begins_tabs(line, following))


def _begins_tabs(line: str, following: str) -> bool:
    """Return whether two lines are a table's first rows.

    The first column may have no header.
    """
    is_headless = line[:1] == "\t" and line.count("\t") == following.count("\t") and line.strip() != ""
    return _TABBED.match(following) is not None and (_TABBED.match(line) is not None or is_headless)


def _may_be_heading(text: str) -> bool:
    return (
        len(text) <= _LONGEST_HEADING and text[-1] not in ".:;,\\" and text[0] not in "./$#<|`" and " --" not in text
    )


def _piped(line: str) -> tuple[str, ...]:
    """The cells between bars; a backslash protects a bar."""
    inside = line.strip().removeprefix("|")
    inside = inside.removesuffix("|") if not inside.endswith("\\|") else inside
    return tuple(unescaped(part.strip()) for part in re.split(r"(?<!\\)\|", inside))


# --- Tables drawn with + - = | ---
# Sphinx's text builder gives each column an equal share of the line and cuts what is longer. A line of a cell that is
# shorter than its column ends a word, unless it ends in a hyphen; a line that fills it may end anywhere, so there the words
# that the file uses elsewhere decide.


BORDER = re.compile(r"[^\S\n]*(?=[+|][^\n]*(?:--|==))[+|][-=+|:]*[+|]\s*$")
_CONTENT = re.compile(r"\s*\|.*\|\s*$")
_WORD = re.compile(r"[A-Za-z0-9_%/.:-]+")
_CUT_TAIL = re.compile(r"[A-Za-z0-9_%/.:\\-]+$")
_CUT_HEAD = re.compile(r"^[A-Za-z0-9_%/.:\\-]+")
_NUMBER_TAIL = re.compile(r"(?:^|[\s(])-?\d[\d.,]*$")
_LONGEST_WORD = 200


@frozen
class Grid:
    """Header and rows of a drawn table.

    Without a line of equal signs the header is empty.
    """

    header: tuple[str, ...]
    rows: tuple[RawRow, ...]


@frozen
class _Part:
    """A line of a cell, and the width that it had."""

    text: str
    width: int


def is_line(text: str) -> bool:
    """Return whether a line belongs to a drawn table."""
    return BORDER.match(text) is not None or _CONTENT.match(text) is not None


def words(text: str) -> Counter[str]:
    """The words that stand outside drawn tables, which no column has cut."""
    found: Counter[str] = Counter()
    for line in text.split("\n"):
        if not line.lstrip().startswith(("|", "+")):
            found.update(word.strip(".:") for word in _WORD.findall(line))
    return found


def parse(lines: Sequence[tuple[int, str]], known: Collection[str]) -> Grid:
    """Read the numbered lines of one table, from border to border.

    Args:
        known: words of the file that are whole.
    """
    header: tuple[str, ...] = ()
    rows: list[RawRow] = []
    drawn: list[list[_Part]] = []
    start = 0
    for number, line in lines:
        if BORDER.match(line):
            if drawn:
                rows.append(RawRow(start, tuple(_joined(cell, known) for cell in drawn)))
            if "=" in line and rows and not header:
                header, rows = rows[-1].cells, []
            drawn = []
            continue
        parts = _cells(line)
        if drawn and len(parts) == len(drawn):
            for cell, part in zip(drawn, parts, strict=True):
                cell.append(part)
        elif not drawn:
            start, drawn = number, [[part] for part in parts]
    return Grid(header, tuple(rows))


def _cells(line: str) -> list[_Part]:
    """The parts between the bars; Sphinx puts a blank on both sides."""
    return [
        _Part(text[1:].rstrip() if text[:1] == " " else text.rstrip(), len(text) - 2)
        for text in line.strip()[1:-1].split("|")
    ]


def _joined(parts: Iterable[_Part], known: Collection[str]) -> str:
    pieces: list[str] = []
    tail = ""  # the end of the text, as far as it can matter
    last: _Part | None = None
    for part in parts:
        if part.text.strip():
            between = _between(tail, last, part, known) if last else ""
            pieces += [between, part.text.strip()]
            tail = (tail + between + part.text.strip())[-_LONGEST_WORD:]
            last = part
    return " ".join("".join(pieces).split())


def _between(text: str, last: _Part, following: _Part, known: Collection[str]) -> str:
    """A blank, or nothing where a word was cut."""
    right = following.text.lstrip()
    if last.text.endswith("-") and not last.text.endswith(" -"):
        return ""
    if len(last.text) < last.width or _would_fit(text, right, following):
        return " "
    if _NUMBER_TAIL.search(text):
        return "" if re.match(r"[\d.,)%]", right) else " "
    if right.startswith("("):
        return " "
    left_word, right_word = _CUT_TAIL.search(text), _CUT_HEAD.match(right)
    if left_word is None or right_word is None:
        return ""
    is_whole = _is_known(left_word[0], known) and not _is_known(left_word[0] + right_word[0], known)
    return " " if is_whole else ""


def _would_fit(text: str, right: str, following: _Part) -> bool:
    """Return whether the joined halves fit the column.

    Such a word moves to the next line and is never cut.
    """
    rest = right.split(" ", 1)[0]
    is_cut_again = rest == right and len(following.text) >= following.width
    return not is_cut_again and len(text.rsplit(" ", 1)[-1]) + len(rest) <= following.width


def _is_known(word: str, known: Collection[str]) -> bool:
    bare = word.strip(".:-")
    return bare in known or bare.lower() in known
