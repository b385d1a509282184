"""A table that names a board of another guide."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from lab.guide.rulebook import Remark, Rule, Severity
from lab.guide.sheet import Sheet

_FEW_TABLES = 0.1
_LEAST_TABLES = 8
_FAMILY_LETTERS = 4  # am62, am43, j721


def check(sheet: Sheet, _older: Sheet | None) -> Iterator[Remark]:
    """One table with a board of another device family was likely copied from that family's guide."""
    tables = [frozenset(c.board for c in t.columns if c.board) for t in sheet.guide.tables]
    counts = Counter(board for boards in tables for board in boards)
    families = Counter(board[:_FAMILY_LETTERS] for board, count in counts.items() for _ in range(count))
    if len(tables) < _LEAST_TABLES or len(families) < 2:
        return
    for table, boards in zip(sheet.guide.tables, tables, strict=True):
        for board in sorted(boards):
            if families[board[:_FAMILY_LETTERS]] <= _FEW_TABLES * len(tables):
                yield Remark(
                    f"table {table.name!r} is of {board}, a board that only this part of the guide knows: likely copied from "
                    "another guide, unless that board was measured here on purpose",
                    line=table.line,
                )


RULE = Rule(id="foreign-board", title="A board of another guide", severity=Severity.SUSPECT, check=check)
