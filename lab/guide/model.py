"""Model of a performance guide: tables, cells, conditions."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from attrs import evolve, field, frozen

from lab.judge.labels import REAL_TIME, is_real_time


class CellKind(enum.StrEnum):
    """Kind of a cell's content."""

    VALUE = "value"  # one number
    RANGE = "range"  # avg (min a, max b)
    NOT_AVAILABLE = "n/a"
    EMPTY = "empty"
    APPROXIMATE = "approximate"  # ~11.04
    TEXT = "text"
    IDENTIFIER = "identifier"  # a name printed as a number, e.g. test 2500005.00
    UNATTRIBUTED = "unattributed"  # its row has another length than the header: which column it belongs to is unknown


@frozen
class Value:
    """The content of one cell.

    Attributes:
        number: the value, or the average of a range; None where the cell holds none.
        low: smallest reading of a range.
        high: largest one.
        text: as printed, without the blanks around it.
    """

    kind: CellKind
    text: str
    number: float | None = None
    low: float | None = None
    high: float | None = None


_NUMBER = r"[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:[eE][-+]?\d{1,3})?|[-+]?\.\d+"
_PLAIN = re.compile(rf"({_NUMBER})\s*%?")
_APPROXIMATE = re.compile(rf"[~≈]\s*({_NUMBER})\s*%?")
_RANGE = re.compile(
    rf"({_NUMBER})\s*%?\s*\(\s*(?:min[.:=]?\s*)?({_NUMBER})\s*%?\s*,\s*(?:max[.:=]?\s*)?({_NUMBER})\s*%?\s*\)",
    re.IGNORECASE,
)
_MARKS = re.compile(r"(?<=[\d)%a])(?:\s*\[#?\d{1,3}\]_?)+$")
_NOT_AVAILABLE = frozenset({"n/a", "na", "n.a.", "n.a", "-", "--", "–", "not available", "not applicable"})


def value_of(text: str) -> Value:
    """Parse a cell's text.

    It never fails: a text without a number is text. References to footnotes behind it are no part of it.
    """
    text = _MARKS.sub("", text.strip())
    if not text:
        return Value(CellKind.EMPTY, "")
    if text.lower() in _NOT_AVAILABLE:
        return Value(CellKind.NOT_AVAILABLE, text)
    words = " ".join(text.split())  # runs of blanks would make the patterns backtrack
    if match := _PLAIN.fullmatch(words):
        return Value(CellKind.VALUE, text, _number(match[1]))
    if match := _RANGE.fullmatch(words):
        return Value(CellKind.RANGE, text, _number(match[1]), _number(match[2]), _number(match[3]))
    if match := _APPROXIMATE.fullmatch(words):
        return Value(CellKind.APPROXIMATE, text, _number(match[1]))
    return Value(CellKind.TEXT, text)


def decimals(text: str) -> int:
    """Count the decimals of a cell's first number."""
    match = re.search(r"\d\.(\d+)", text)
    return len(match[1]) if match else 0


def _number(text: str) -> float:
    return float(text.replace(",", ""))


def row_unit(row: str) -> tuple[str, str | None]:
    """Split a row's name from its unit: "bw_pipe (MB/s)" -> "bw_pipe", "MB/s"."""
    name, parenthesis, rest = row.strip().rpartition("(")
    if not parenthesis or not rest.endswith(")") or ")" in rest[:-1]:
        return row.strip(), None
    return name.rstrip(), rest[:-1].strip() or None


@frozen
class Column:
    """A column of a table.

    Attributes:
        text: the header cell as printed.
        board: the text before the first ": "; None where the header names no board.
        metric: the text after it.
        unit: the unit in its parentheses, as printed; None where there is none or where the row names it ("perf").
        is_key: the column tells rows apart (frame size, algorithm) and holds no result.
    """

    text: str
    board: str | None
    metric: str
    unit: str | None
    is_key: bool


@frozen
class Cell:
    """A cell that stands in a row after the row's first column.

    Attributes:
        table: index of its table in the guide.
        row: the row's first cell as printed, without the blanks around it.
        column: index of the column that it stands under; of an unattributed cell, its place in the short row.
        board: None where the table names none, or where the row is too short to tell.
        metric: the header's text without the board; None for an unattributed cell.
        unit: as printed in the header, or in the row's name where the header says "perf".
        params: what tells the row apart, header text -> cell text; the first column and further key columns.
        likely_board: for an unattributed cell, the board that the table's empty columns point to
            (docs/guides/index.md).
        likely_metric: for an unattributed cell, the metric, where each board of the table has the same columns.
    """

    table: int
    row: str
    column: int
    board: str | None
    metric: str | None
    unit: str | None
    value: Value
    line: int
    params: Mapping[str, str] = field(factory=dict)
    likely_board: str | None = None
    likely_metric: str | None = None

    @property
    def kind(self) -> CellKind:
        """Kind of the content; "unattributed" in a row of the wrong length."""
        return CellKind.UNATTRIBUTED if self.metric is None else self.value.kind

    @property
    def number(self) -> float | None:
        """The value or average."""
        return self.value.number


@frozen
class Table:
    """A table of results.

    Attributes:
        chapter: headings above it, outermost first, without the document's title and front matter.
        title: inline, from the caption before or after it, or inherited from the nearest rubric or heading.
        title_source: "inline", "before", "after" or "inherited".
        line: of the directive, or of the line that announces the table.
        cells: in reading order.
    """

    index: int
    chapter: tuple[str, ...]
    title: str
    title_source: str
    line: int
    header: tuple[str, ...]
    columns: tuple[Column, ...]
    cells: tuple[Cell, ...]

    @property
    def name(self) -> str:
        """Name of the table in messages."""
        return self.title or " / ".join(self.chapter) or f"table {self.index + 1}"


@frozen
class Module:
    """A row of the table "Evaluation Modules": what was measured.

    Attributes:
        clock_mhz: "ARM running at 1.4GHz", in MHz; None where the description names none.
        clock_step_mhz: the value of its last printed digit.
    """

    name: str
    description: str
    clock_mhz: float | None
    clock_step_mhz: float
    line: int


@frozen
class Condition:
    """A condition of the preceding numbers of its chapter.

    Attributes:
        after_table: number of tables before it.
        boards: the boards that it names first ("a1-fs, b2-fs: …"); empty: all boards of the tables.
    """

    text: str
    chapter: tuple[str, ...]
    after_table: int
    line: int
    boards: tuple[str, ...] = ()


def split_boards(condition: Condition, boards: frozenset[str]) -> Condition:
    """A condition that begins with names of boards is about them alone."""
    before, colon, text = condition.text.partition(": ")
    names = tuple(name.strip() for name in before.split(","))
    return evolve(condition, text=text.strip(), boards=names) if colon and boards.issuperset(names) else condition


@frozen
class Unread:
    """A part of the file that was not read, and why."""

    line: int
    reason: str


@frozen
class Repair:
    """A malformed part of the file, and the way it was read."""

    line: int
    reason: str


@frozen
class Guide:
    """One performance guide.

    Attributes:
        path: as given by the user.
        format: "rst" or "text".
        release: e.g. "11.01", from the title, else from the file's name; None where neither tells.
        release_source: where the release was found: "title", "file name", "text", or "given"; empty without one.
        unread: what the reader had to leave out; empty for a sound file.
        repairs: what it read although it is malformed; empty for a sound file.
    """

    path: str
    format: str
    title: str
    release: str | None
    modules: tuple[Module, ...]
    tables: tuple[Table, ...]
    conditions: tuple[Condition, ...]
    unread: tuple[Unread, ...]
    repairs: tuple[Repair, ...] = ()
    release_source: str = ""

    @property
    def boards(self) -> tuple[str, ...]:
        """Every board that a header names, in order of appearance."""
        return tuple(dict.fromkeys(c.board for t in self.tables for c in t.columns if c.board))

    @property
    def kernel_release(self) -> str | None:
        """The release as the store names it; "-rt" marks the real-time kernel.

        So the numbers of two kernels never mix. A given release is taken as it is. None: the guide names none.
        """
        named = f"{self.title} {Path(self.path).stem}".replace("_", " ")
        if not self.release or self.release_source == "given" or is_real_time(self.release) or not is_real_time(named):
            return self.release
        return f"{self.release}{REAL_TIME}"


_RELEASE = re.compile(r"(?<![\d.])(\d{1,2}(?:[._]\d{1,2}){1,3})(?![\d.])")


def release_of(text: str) -> str | None:
    """Release in a title or file name, e.g. "09.02.00"; None without one."""
    match = _RELEASE.search(text)
    return match[1].replace("_", ".") if match else None


_DIFFERS = re.compile(r"'[^']*'|\"[^\"]*\"|\d+")  # names and numbers, from place to place


@frozen
class ReasonGroup:
    """A reason, and the lines where it holds."""

    reason: str
    lines: tuple[int, ...]

    @property
    def text(self) -> str:
        """The reason at its first place, and how often it holds."""
        more = len(self.lines) - 1
        return self.reason + (f" (and {more} more like it, the last in line {self.lines[-1]})" if more else "")


def group_reasons(parts: Iterable[Unread | Repair]) -> Iterator[ReasonGroup]:
    """The causes, in order of appearance."""
    groups: dict[str, list[Unread | Repair]] = {}
    for part in parts:
        groups.setdefault(_DIFFERS.sub("", part.reason.partition(": ")[0]), []).append(part)
    for members in groups.values():
        yield ReasonGroup(members[0].reason, tuple(part.line for part in members))
