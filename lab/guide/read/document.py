"""Raw content of a file: tables, captions, evaluation modules.

Guides print `Table:  **Title**` before the table or after it, one way throughout a document. Captions with a table on
one side only decide which way it is; the others follow.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from attrs import define, evolve, field, frozen

from lab.guide.model import Condition, Module, Repair, Unread, decimals, unmark
from lab.guide.read import raw_table
from lab.guide.read.markup import plain
from lab.guide.read.raw_table import RawRow, RawTable

_CAPTION = re.compile(r"Table\s*[\d.]*\s*:\s*(\S.*)", re.DOTALL)
_ANNOUNCED = re.compile(r"Table\s+\d+(?:[.-]\d+)*[.:]?\s+(\S.*)", re.DOTALL)
_BOLD = re.compile(r"\*\*([^*]*[^*.:])\*\*")  # a title; a bold sentence is none
_SECTION_NUMBER = re.compile(r"^\d+(?:\.\d+)*\.\s+(?=\S)")
_FRONT_MATTER = frozenset({"read this first", "about this manual", "if you need assistance"})
SOFTWARE, SUMMARY = "Software", "Summary"  # first columns of a written guide's tables of versions, of boards
_CLOCK = re.compile(r"ARM\s+running\s+at\s+(\d+(?:\.\d+)?)\s*([GM])Hz", re.IGNORECASE)


@define
class Document:
    """Content of a file in its order; the readers fill it."""

    title: str = ""
    tables: list[RawTable] = field(factory=list)
    modules: list[Module] = field(factory=list)
    conditions: list[Condition] = field(factory=list)
    unread: list[Unread] = field(factory=list)
    repairs: list[Repair] = field(factory=list)


def is_module_table(raw: RawTable) -> bool:
    """Return whether a table lists modules instead of results."""
    return [text.strip().lower() for text in raw.header] == ["name", "description"]


def modules_of(raw: RawTable) -> Iterator[Module]:
    """Its modules."""
    for row in raw.rows:
        if len(row.cells) == 2:
            yield module(row.cells[0].strip(), row.cells[1].strip(), row.line)


def module(name: str, description: str, line: int) -> Module:
    """A module with the clock that its description names."""
    match = _CLOCK.search(description)
    if not match:
        return Module(name, description, None, 0.0, line)
    scale = 1000.0 if match[2].upper() == "G" else 1.0
    return Module(name, description, float(match[1]) * scale, scale * 10.0 ** -decimals(match[1]), line)


@frozen
class Caption:
    """A paragraph `Table: Title`."""

    text: str


@frozen
class Untitled:
    """A table without a title; `index` counts all tables."""

    index: int


Event = Caption | Untitled | None  # None: something that separates (a heading, prose, a table with its own title)


def assign_captions(events: Sequence[Event]) -> dict[int, tuple[str, str]]:
    """Map table index to (title, "before" or "after") for captioned tables.

    Args:
        events: captions, untitled tables and separators in document order.
    """
    padded = [None, *events, None]
    captions = [i for i, event in enumerate(padded) if isinstance(event, Caption)]
    before_only = sum(
        isinstance(padded[i + 1], Untitled) and not isinstance(padded[i - 1], Untitled) for i in captions
    )
    after_only = sum(isinstance(padded[i - 1], Untitled) and not isinstance(padded[i + 1], Untitled) for i in captions)
    sides = ((1, "before"), (-1, "after")) if before_only >= after_only else ((-1, "after"), (1, "before"))
    captioned: dict[int, tuple[str, str]] = {}
    used: set[int] = set()
    for step, source in sides:
        for i in captions:
            caption, table = padded[i], padded[i + step]
            if not isinstance(caption, Caption) or not isinstance(table, Untitled):
                continue
            if i not in used and table.index not in captioned:
                captioned[table.index] = (caption.text, source)
                used.add(i)
    return captioned


@define
class Builder:
    """Collects a file's content from top to bottom; `finish` returns the document."""

    document: Document = field(factory=Document)
    _open: list[tuple[int, str]] = field(factory=list)
    _rubric: str = ""
    _events: list[Event] = field(factory=list)
    _inherited: list[str] = field(factory=list)

    @property
    def chapter(self) -> tuple[str, ...]:
        """The headings above, outermost first."""
        return tuple(text for _, text in self._open if text)

    def heading(self, depth: int, text: str) -> None:
        """A heading; it ends sections of its level or deeper."""
        self.close(depth)
        heading = heading_text(text)
        if not self.document.title and "performance guide" in heading.lower():
            self.document.title = heading
        counts = heading != self.document.title and heading.lower() not in _FRONT_MATTER
        self._open.append((depth, heading if counts else ""))

    def close(self, depth: int) -> None:
        """End the sections of this depth and deeper."""
        while self._open and self._open[-1][0] >= depth:
            self._open.pop()
        self._rubric = ""
        self.separator()

    def rubric(self, text: str) -> None:
        """A heading that opens no section."""
        self._rubric = heading_text(text)
        self.separator()

    def separator(self) -> None:
        """Something that stands between captions and tables."""
        self._events.append(None)

    def table(self, title: str, line: int, header: tuple[str, ...], rows: Iterable[RawRow]) -> None:
        """A table; the title is its own, or empty."""
        cleaned = tuple(evolve(row, cells=tuple(map(unmark, row.cells))) for row in rows)
        raw = RawTable(self.chapter, caption_text(title), "inline", line, tuple(map(unmark, header)), cleaned)
        if is_module_table(raw):
            self.document.modules.extend(modules_of(raw))
            self.separator()
            return
        if raw.header[:1] in ((SOFTWARE,), (SUMMARY,)):
            self.separator()
            return
        headings = [*self.chapter, self._rubric]
        self._inherited.append(next((h for h in reversed(headings) if h and not raw_table.is_board(h)), ""))
        self._events.append(None if raw.title else Untitled(len(self.document.tables)))
        self.document.tables.append(raw)

    def more_rows(self, rows: Iterable[RawRow]) -> bool:
        """Add rows to the last table if it has none.

        Returns False if the rows belong to no table.
        """
        if not self.document.tables or self.document.tables[-1].rows or not self.document.tables[-1].header:
            return False
        self.document.tables[-1] = evolve(self.document.tables[-1], rows=tuple(rows))
        return True

    def caption(self, text: str) -> None:
        """A title that stands before or after its table."""
        self._events.append(Caption(caption_text(text)))

    def paragraph(self, text: str, line: int) -> None:
        """Prose, which may be a caption or a condition."""
        if match := _CAPTION.fullmatch(plain(text)) or _ANNOUNCED.fullmatch(plain(text)) or _BOLD.fullmatch(text):
            self.caption(match[1])
            return
        self.separator()
        if text.startswith("The measurements shown are from"):
            self.condition(" ".join(text.split()), line)

    def items(self, items: Iterable[tuple[str, int]]) -> None:
        """Take a list.

        After a table of its chapter it states the conditions of the numbers.
        """
        top = self.chapter[:1]
        if any(table.chapter[:1] == top for table in self.document.tables):
            for text, line in items:
                self.condition(plain(text), line)
        self.separator()

    def condition(self, text: str, line: int) -> None:
        """A statement about how numbers were captured."""
        condition = Condition(text, self.chapter, len(self.document.tables), line)
        if not any(evolve(condition, line=other.line) == other for other in self.document.conditions):
            self.document.conditions.append(condition)

    def unread(self, line: int, reason: str) -> None:
        """Something had to be left out."""
        self.document.unread.append(Unread(line, reason))

    def repair(self, line: int, reason: str) -> None:
        """Something was read although it is malformed."""
        self.document.repairs.append(Repair(line, reason))

    def finish(self) -> Document:
        """Give every table its title."""
        captions = assign_captions(self._events)
        for index, raw in enumerate(self.document.tables):
            if raw.title:
                continue
            title, source = captions.get(index, (self._inherited[index], "inherited"))
            self.document.tables[index] = evolve(raw, title=title, title_source=source)
        return self.document


def heading_text(text: str) -> str:
    """Text of a heading without markup, number and link mark."""
    return _SECTION_NUMBER.sub("", plain(text.rstrip("¶🔗# \t\uf0c1")), count=1)


def caption_text(text: str) -> str:
    """Title of a table without markup, "Table", number and link mark."""
    stripped = plain(unmark(text.rstrip("¶🔗# \t\uf0c1")))
    match = _ANNOUNCED.fullmatch(stripped)
    return match[1] if match else stripped
