"""CPU loads that never fall below one core's share."""

from __future__ import annotations

from collections.abc import Iterator

from lab.guide.rulebook import Remark, Rule, Severity
from lab.guide.sheet import Sheet, group

_CORES = (2, 4, 8)
_LEAST_ROWS = 10
_LEAST_TABLES = 2
_ABOVE = 3.0  # percent: what the lightest test adds


def check(sheet: Sheet, _older: Sheet | None) -> Iterator[Remark]:
    """A test that waits for a card needs a few percent; where nothing is below 25, one of four cores does something else."""
    loads = sheet.of(
        *(m for m in sheet.by_metric if m.endswith("cpu_load") and not m.startswith(("openssl.", "crypto.")))
    )
    for board, readings in group(loads, lambda r: r.board).items():
        if len(readings) < _LEAST_ROWS or len({r.cell.table for r in readings}) < _LEAST_TABLES:
            continue
        lowest = min(r.number or 0.0 for r in readings)
        cores = next((n for n in _CORES if 100 / n <= lowest <= 100 / n + _ABOVE), None)
        if cores is not None:
            yield Remark(
                f"none of {len(readings)} CPU loads of {board or 'this guide'} is below {100 / cores:g} %, the share of one of "
                f"{cores} cores: one core seems to be busy with something else all the time, and every load has it in it",
                readings[0],
                also=readings[1:],
            )


RULE = Rule(id="load-floor", title="One core is always busy", severity=Severity.SUSPECT, check=check)
