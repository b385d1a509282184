"""Rows that lost a board's cells and moved the others to the left."""

from __future__ import annotations

from collections.abc import Iterator

from lab.guide.model import CellKind
from lab.guide.rulebook import Remark, Rule, Severity
from lab.guide.sheet import Sheet, group


def check(sheet: Sheet, _older: Sheet | None) -> Iterator[Remark]:
    """Which board a cell of a short row belongs to is not printed, and filling from the left gives it its neighbour's."""
    loose = (r for r in sheet.readings if r.cell.kind is CellKind.UNATTRIBUTED)
    for (table_index, _line), readings in group(loose, lambda r: (r.cell.table, r.cell.line)).items():
        table = sheet.guide.tables[table_index]
        count = max(r.cell.column for r in readings) + 1
        if count > len(table.columns):
            continue
        boards = list(dict.fromkeys(r.cell.likely_board for r in readings if r.cell.likely_board))
        likely = f"; the columns that a board leaves empty say {' and '.join(boards)}" if boards else ""
        yield Remark(
            f"row {readings[0].cell.row!r} has {count} of {len(table.columns)} cells: a board without data was dropped and the "
            f"rest moved left, so its values are not attributed{likely}",
            readings[0],
            also=readings[1:],
        )


RULE = Rule(id="left-packed", title="A short row", severity=Severity.WARNING, check=check)
