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
        unit: behind the number.
    """

    kind: CellKind
    text: str
    number: float | None = None
    low: float | None = None
    high: float | None = None
    unit: str | None = None


# A unit as guides print it: "%", "Mbits/sec", "mW", "packets/s".
UNIT = (
    r"(?:%|[kmg]?(?:bits?|bytes?|b)(?:\s*/\s*s(?:ec)?)?|[kmg]bps|mb\\s|[munkmg]?(?:s|sec|w|v|a|hz)|seconds?"
    r"|microsec|nanosec|millisec|fps|kpps|\w+\s*/\s*(?:s|sec)|bytes in hex)"
)
_NUMBER = r"(?:[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:e[-+]?\d{1,3}|\s?[x×]\s?10\^[-+]?\d{1,3})?|[-+]?\.\d+)"
_BEHIND = rf"(?:\s*%|\s{UNIT}|(?=\D\D){UNIT})"  # "2A" may be a hexadecimal number, "2 A" is a current
_VALUE = rf"(?P<number>{_NUMBER})(?P<unit>{_BEHIND})?"
_AVERAGE = rf"(?:(?:avg|average|mean)[.:=]?\s*)?{_VALUE}"
_MIN, _MAX = r"min(?:imum)?[.:=]?\s*", r"max(?:imum)?[.:=]?\s*"
_BETWEEN = rf"(?:{_BEHIND})?\s*(?P<between>[,;/–—-]|\.\.+|…|\bto\b|(?=max))\s*"
_LOW, _HIGH = rf"(?P<low>{_NUMBER}){_BETWEEN}", rf"(?P<high>{_NUMBER})(?:{_BEHIND})?"
_FORMS = tuple(
    (kind, re.compile(form, re.IGNORECASE))
    for kind, form in (
        (CellKind.VALUE, _VALUE),
        (CellKind.RANGE, rf"{_AVERAGE}\s*[(\[]\s*(?:{_MIN})?{_LOW}(?:{_MAX})?{_HIGH}\s*[)\]]"),
        (CellKind.RANGE, rf"{_AVERAGE}[,;]?\s*{_MIN}{_LOW}{_MAX}{_HIGH}"),
        (CellKind.RANGE, rf"(?P<number>{_NUMBER})\s*(?:±|\+/-)\s*(?P<error>{_NUMBER})(?P<unit>\s(?!%){UNIT})?"),
        (CellKind.APPROXIMATE, rf"(?:[~≈]|approx(?:\.|imately)?|about|ca\.?)\s*{_VALUE}"),
    )
)  # fmt: skip
_MARKS = re.compile(r"(?<=[\w)%\]*`])(?:\s*(?:\[(?:#[\w-]*|\d{1,3}|\*)\]_?|(?:(?<=\.10)|(?<!10))\^\d{1,2}))+$")
_STARS = re.compile(r"(?<=[\d)%])\s*(?:\*{1,3}|[†‡§])$")
_EMPHASIS = re.compile(r"(\*\*|``)(\S(?:.*\S)?)\1")
_GROUPED = re.compile("(?<=\\d)[\u00a0\u2009\u202f'’](?=\\d{3}(?!\\d))")
_PLAIN_CHARACTERS = str.maketrans({"\u00a0": " ", "\u2009": " ", "\u202f": " ", "\u2212": "-"})
_NOT_AVAILABLE = frozenset(
    {"n/a", "na", "n.a.", "n.a", "-", "--", "–", "—", "nan", "tbd", "not available", "not applicable", "not supported"}
)


def unmark(text: str) -> str:
    """A text without references to footnotes, emphasis of the whole, and odd blanks."""
    text = _GROUPED.sub("", text).translate(_PLAIN_CHARACTERS).strip()
    match = _EMPHASIS.fullmatch(text)
    text = match[2] if match and match[1] not in match[2] else text
    return _MARKS.sub("", text)


def value_of(text: str) -> Value:
    """Parse a cell's text.

    It never fails: a text without a number is text. References to footnotes behind it are no part of it. A range that
    has neither a comma, as the vendor prints it, nor the words min and max counts only around its number.
    """
    text = _STARS.sub("", unmark(text))
    if not text:
        return Value(CellKind.EMPTY, "")
    if text.lower() in _NOT_AVAILABLE:
        return Value(CellKind.NOT_AVAILABLE, text)
    words = " ".join(text.split())  # runs of blanks would make the patterns backtrack
    for kind, form in _FORMS:
        if match := form.fullmatch(words):
            parts = match.groupdict()
            number, low, high, error = (_number(parts.get(name)) for name in ("number", "low", "high", "error"))
            if number is not None and error is not None:
                low, high = number - error, number + error
            is_around = low is None or low <= (number or 0.0) <= (high or 0.0)
            if not (is_around or parts["between"] == "," or "min" in words.lower()):
                continue
            return Value(kind, text, number, low, high, (parts["unit"] or "").strip() or None)
    return Value(CellKind.TEXT, text)


def decimals(text: str) -> int:
    """Count the decimals of a cell's first number."""
    match = re.search(r"\d\.(\d+)", text)
    return len(match[1]) if match else 0


def _number(text: str | None) -> float | None:
    return None if text is None else float(re.sub(r"\s?[x×]\s?10\^", "e", text.replace(",", "")))


_ROW_UNIT = re.compile(rf"\s*(?:\(([^()]*)\)|\[([^\[\]\d]*)\]|,\s*((?:in )?{UNIT}))$", re.IGNORECASE)


def row_unit(row: str) -> tuple[str, str | None]:
    """Split a row's name from its unit: "bw_pipe (MB/s)" -> "bw_pipe", "MB/s"."""
    match = _ROW_UNIT.search(row.strip())
    if match is None:
        return row.strip(), None
    return row.strip()[: match.start()], next(filter(None, match.groups()), "").strip() or None


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
