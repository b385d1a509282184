"""Names that are printed as numbers."""

from __future__ import annotations

from collections.abc import Iterator

from lab.guide.model import CellKind
from lab.guide.rulebook import Remark, Rule, Severity
from lab.guide.sheet import Sheet, group


def check(sheet: Sheet, _older: Sheet | None) -> Iterator[Remark]:
    """GLBenchmark's test 2500005 became 2500005.00 on its way through a table of floating-point numbers."""
    names = (r for r in sheet.readings if r.cell.kind is CellKind.IDENTIFIER)
    for readings in group(names, lambda r: (r.cell.table, r.cell.column)).values():
        first = readings[0]
        yield Remark(
            f"{first.cell.metric!r} names a test and is no result: {first.cell.value.text} is test "
            f"{first.cell.value.text.split('.')[0]}",
            first,
            also=readings[1:],
        )


RULE = Rule(id="identifier", title="A name printed as a number", severity=Severity.INFO, check=check)
