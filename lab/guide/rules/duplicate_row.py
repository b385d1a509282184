"""The same measurement twice, with different numbers."""

from __future__ import annotations

from collections.abc import Iterator

from lab.guide.catalogue import CellReading
from lab.guide.rulebook import Remark, Rule, Severity
from lab.guide.sheet import Sheet, group


def check(sheet: Sheet, _older: Sheet | None) -> Iterator[Remark]:
    """Two rows of one table, board and column that a reader cannot tell apart, and that differ."""
    attributed = (r for r in sheet.readings if r.cell.metric is not None and r.quantity is not None and not r.is_alias)
    places = group(attributed, lambda r: (r.cell.table, r.cell.column, _same(r)))
    for readings in places.values():
        first = readings[0]
        for other in readings[1:]:
            if other.cell.value.text != first.cell.value.text:
                yield Remark(
                    f"row {other.cell.row!r} stands in line {first.cell.line} too, with {first.cell.value.text}; which of the "
                    "two is meant is not known",
                    other,
                    also=(first,),
                )


def _same(reading: CellReading) -> tuple[tuple[str, str], ...]:
    """What tells a row apart; letter case and blanks do not."""
    return tuple((name, " ".join(text.lower().split())) for name, text in reading.cell.params.items())


RULE = Rule(id="duplicate-row", title="One row twice", severity=Severity.SUSPECT, check=check)
