"""Reader of guides as lines of text.

It reads Sphinx's plain text, Markdown, and pages copied with tabs.

The three differ in how they draw a table (grid, bars, tabs) and mark a heading (underline, #, number), and no mark of
one means another thing in the others. So one reader takes them all, also mixed.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from attrs import define, field

from lab.guide.read import drawn_table
from lab.guide.read.document import Builder, Document
from lab.guide.read.markup import plain, unescape
from lab.guide.read.raw_table import RawRow

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
_BARRED = re.compile(r".*\|")
_TABBED = re.compile(r"[^\S\n]*\S[^\t\n]*\t")
_HASHES = re.compile(r"(#{1,6})\s+(\S.*?)\s*#*\s*$")
_UNDERLINE = re.compile(r"([=\-~*+\"^'`#:.])\1+\s*$")
_DEPTHS = '*=-~"+'  # Sphinx's text builder, outermost first; the titles of tables have ^
_RUBRIC = re.compile(r"-\[ (.*) \]-$")
_NUMBERED = re.compile(r"(\d+(?:\.\d+)+)\.\s+(\S.*)$")
_BULLET = re.compile(r"\s*(?:[•·*+-]|\d+\.)\s+(\S.*)$")
_PANDOC_CAPTION = re.compile(r"\s{0,3}:\s+(\S.*)$")
_CODE = re.compile(r"^`([^`]+)`$")
_TAG = re.compile(r"</?(?:p|b|strong|em|i|u|center|div|span|caption|h[1-6]|br)\b[^>]*>", re.IGNORECASE)
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
    whole_words = frozenset(drawn_table.count_words(text)) | _HEADER_WORDS
    return _Reader(text.split("\n"), frozenset(w.lower() for w in whole_words) | whole_words).read()


@define
class _Reader:
    lines: Sequence[str]
    whole_words: frozenset[str]
    at: int = 0
    builder: Builder = field(factory=Builder)

    def read(self) -> Document:
        while self.at < len(self.lines):
            line = self.lines[self.at]
            if not line.strip():
                self.at += 1
            elif drawn_table.BORDER.match(line) and line.lstrip().startswith("+"):
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

    def _take(self, count: int) -> list[tuple[int, str]]:
        lines = [(i + 1, self.lines[i]) for i in range(self.at, self.at + count)]
        self.at += count
        return lines

    def _count_while(self, belongs: re.Pattern[str], first: int = 0) -> int:
        """Count the lines from `first` on that belong together, and those before."""
        count = first
        while self.at + count < len(self.lines) and belongs.match(self.lines[self.at + count]):
            count += 1
        return count

    def _grid(self) -> None:
        count = 1
        while self.at + count < len(self.lines) and drawn_table.is_line(self.lines[self.at + count]):
            count += 1
        lines = self._take(count)
        table = drawn_table.parse(lines, self.whole_words)
        if table.rows:
            self.builder.table("", lines[0][0], table.header, table.rows)
        else:
            self.builder.unread(lines[0][0], "a drawn table without rows")

    def _pipes(self) -> None:
        line = self.at + 1
        header = _split_bars(self._take(2)[0][1])
        rows = [RawRow(number, _split_bars(text)) for number, text in self._take(self._count_while(_BARRED))]
        self.builder.table("", line, header, rows)

    def _tabs(self) -> None:
        lines = self._take(self._count_while(_TABBED, first=1))
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
        text = _TAG.sub("", " ".join(paragraph)).strip()
        if not text:
            return
        # a copied page marks neither its headings nor the titles of its tables
        if len(paragraph) > 1 or is_indented or not _may_be_heading(text) or plain(text).lower().startswith("table"):
            self.builder.paragraph(text, number)
        elif "performance guide" in text.lower() and not self.builder.document.title:
            self.builder.heading(0, text)
        else:
            self.builder.rubric(text)

    def _bullets(self) -> list[tuple[str, int]]:
        """The items of a list, each with the lines that continue it."""
        items: list[tuple[str, int]] = []
        while self.at < len(self.lines):
            line = self._line(0)
            if match := _BULLET.match(line):
                items.append((match[1].strip(), self.at + 1))
            elif line.strip() and line[0] in " \t":
                items[-1] = (f"{items[-1][0]} {line.strip()}", items[-1][1])
            elif line.strip() or not _BULLET.match(self._line(1)):
                return items
            self.at += 1
        return items

    def _begins_table(self) -> bool:
        line, following = self._line(0), self._line(1)
        return bool(
            drawn_table.BORDER.match(line) or ("|" in line and PIPES.match(following)) or _begins_tabs(line, following)
        )


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


def _split_bars(line: str) -> tuple[str, ...]:
    """The cells between bars; a backslash protects a bar."""
    inside = line.strip()
    if inside.startswith("|"):
        inside = inside[1:] if inside.endswith("\\|") else inside[1:].removesuffix("|")
    return tuple(
        unescape(_CODE.sub(r"\1", re.sub(r"<br ?/?>", " ", part.strip()))) for part in re.split(r"(?<!\\)\|", inside)
    )
