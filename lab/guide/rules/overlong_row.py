"""Rows with more cells than the header."""

from __future__ import annotations

from collections.abc import Iterator

from lab.guide.model import CellKind
from lab.guide.rulebook import Remark, Rule, Severity
from lab.guide.sheet import Sheet, group


def check(sheet: Sheet, _older: Sheet | None) -> Iterator[Remark]:
    """A cell too many, perhaps a comma outside quotes, shifts an unknown part of the row."""
    loose = (r for r in sheet.readings if r.cell.kind is CellKind.UNATTRIBUTED)
    for (table_index, _line), readings in group(loose, lambda r: (r.cell.table, r.cell.line)).items():
        table = sheet.guide.tables[table_index]
        count = max(r.cell.column for r in readings) + 1
        if count > len(table.columns):
            header = f"{len(table.columns)} columns" if table.columns else "no header that could be read"
            yield Remark(
                f"row {readings[0].cell.row!r} has {count} cells, its table has {header}; its values are not attributed",
                readings[0],
                also=readings[1:],
            )


RULE = Rule(id="overlong-row", title="A row that is too long", severity=Severity.ERROR, check=check)
