"""What a reader finds in a file, before its tables become cells: raw tables, their captions, evaluation modules.

Guides print `Table:  **Title**` before the table or after it, one way throughout a document. The captions that have a
table on one side only tell which way it is; the others follow.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from attrs import define, field, frozen

from lab.guide.assemble import RawTable
from lab.guide.model import Condition, Module, Repair, Unread
from lab.guide.text import decimals


@define
class Document:
    """What a file says, in its order; the readers fill it."""

    title: str = ""
    tables: list[RawTable] = field(factory=list)
    modules: list[Module] = field(factory=list)
    conditions: list[Condition] = field(factory=list)
    unread: list[Unread] = field(factory=list)
    repairs: list[Repair] = field(factory=list)


_CLOCK = re.compile(r"ARM\s+running\s+at\s+(\d+(?:\.\d+)?)\s*([GM])Hz", re.IGNORECASE)


def is_module_table(raw: RawTable) -> bool:
    """Whether a table lists modules, not results."""
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
    """A table without a title of its own; `index` is its place among all tables."""

    index: int


Event = Caption | Untitled | None  # None: something that separates (a heading, prose, a table with its own title)


def assign_captions(events: Sequence[Event]) -> dict[int, tuple[str, str]]:
    """Table index -> (title, "before" or "after"), for the tables that a caption names.

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
    found: dict[int, tuple[str, str]] = {}
    used: set[int] = set()
    for step, source in sides:
        for i in captions:
            caption, table = padded[i], padded[i + step]
            if not isinstance(caption, Caption) or not isinstance(table, Untitled):
                continue
            if i not in used and table.index not in found:
                found[table.index] = (caption.text, source)
                used.add(i)
    return found
