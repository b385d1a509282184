"""Rows with more cells than the header."""

from __future__ import annotations

from collections.abc import Iterator

from lab.guide.catalogue import CellReading
from lab.guide.model import CellKind
from lab.guide.rulebook import Remark, Rule, Severity
from lab.guide.sheet import Sheet, group


def check(sheet: Sheet, _older: Sheet | None) -> Iterator[Remark]:
    """A cell too many, perhaps a comma outside quotes, shifts an unknown part of the row; said once for rows alike."""
    loose = (r for r in sheet.readings if r.cell.kind is CellKind.UNATTRIBUTED)
    rows = group(loose, lambda r: (r.cell.table, r.cell.line))
    causes: dict[tuple[int, int], list[CellReading]] = {}
    for (table_index, _line), readings in rows.items():
        count = max(r.cell.column for r in readings) + 1
        if count > len(sheet.guide.tables[table_index].columns):
            causes.setdefault((table_index, count), []).extend(readings)
    for (table_index, count), members in causes.items():
        table = sheet.guide.tables[table_index]
        header = f"{len(table.columns)} columns" if table.columns else "no header that could be read"
        others = len({r.cell.line for r in members}) - 1
        which = f" and {others} more rows have" if others else " has"
        yield Remark(
            f"row {members[0].cell.row!r}{which} {count} cells, the table has {header}; the values are not attributed",
            members[0],
            also=tuple(members[1:]),
        )


RULE = Rule(id="overlong-row", title="A row that is too long", severity=Severity.ERROR, check=check)
