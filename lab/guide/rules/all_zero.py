"""Columns that hold nothing but zeros."""

from __future__ import annotations

from collections.abc import Iterator

from lab.guide.rulebook import Effect, Remark, Rule, Severity
from lab.guide.sheet import Sheet, group
from lab.judge import noise

_LEAST_ROWS = 2


def check(sheet: Sheet, _older: Sheet | None) -> Iterator[Remark]:
    """Zero in every row is a test whose output was not understood: no sample became 0."""
    results = (r for r in sheet.readings if r.number is not None and r.quantity is not None)
    for readings in group(results, lambda r: (r.cell.table, r.cell.column)).values():
        first = readings[0]
        rounded = noise.load().of(first.metric, first.params).slack > 0  # loads and packet rates may be 0
        if (
            len(readings) < _LEAST_ROWS
            or any(r.number for r in readings)
            or rounded
            or first.metric.startswith("power.")
        ):
            continue
        yield Remark(
            f"all {len(readings)} rows of {first.table.name!r} are zero: the test's output was not understood and no sample "
            "became 0; nothing was measured",
            first,
            also=readings[1:],
        )


RULE = Rule(id="all-zero", title="Nothing but zeros", severity=Severity.ERROR, check=check, effect=Effect.BROKEN)
