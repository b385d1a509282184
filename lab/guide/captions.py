"""Which caption belongs to which table.

Guides print `Table:  **Title**` before the table or after it, one way throughout a document. The captions that have a
table on one side only tell which way it is; the others follow.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen


@frozen
class Caption:
    """A paragraph `Table: Title`."""

    text: str


@frozen
class Untitled:
    """A table without a title of its own; `index` is its place among all tables."""

    index: int


Event = Caption | Untitled | None  # None: something that separates (a heading, prose, a table with its own title)


def assign(events: Sequence[Event]) -> dict[int, tuple[str, str]]:
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
