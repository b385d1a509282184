"""A table or a row that is printed twice."""

from __future__ import annotations

from collections.abc import Iterator

from lab.guide.model import Table
from lab.guide.rulebook import Remark, Rule, Severity
from lab.guide.sheet import Sheet, group

_LEAST_NUMBERS = 2


def check(sheet: Sheet, _older: Sheet | None) -> Iterator[Remark]:
    """Two tables with the same header and cells; two rows whose names differ only in letter case."""
    first: dict[object, Table] = {}
    for table in sheet.guide.tables:
        cells = tuple((c.row.lower(), c.column, c.value.text) for c in table.cells)
        if sum(c.number is not None for c in table.cells) < _LEAST_NUMBERS or not any(c.board for c in table.columns):
            continue
        other = first.setdefault((table.header, cells), table)
        if other is not table:
            yield Remark(
                f"table {table.name!r} has the header and the numbers of {other.name!r} in line {other.line}: one of the two was "
                "copied",
                line=table.line,
            )
    rows = group(
        sheet.readings, lambda r: (r.cell.table, r.cell.column, r.cell.row.lower(), tuple(r.cell.params.values())[1:])
    )
    said: set[tuple[int, int]] = set()
    for readings in rows.values():
        names = {r.cell.row: r for r in readings}
        place = (readings[0].cell.table, readings[0].cell.line)
        if len(names) > 1 and place not in said and readings[0].cell.metric is not None:
            said.add(place)
            last = list(names.values())[-1]
            yield Remark(f"is row {readings[0].cell.row!r} of line {readings[0].cell.line} in other letters", last)


RULE = Rule(id="duplicate-table", title="Printed twice", severity=Severity.WARNING, check=check)
