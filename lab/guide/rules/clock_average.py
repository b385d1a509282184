"""A CPU clock that is the average of several."""

from __future__ import annotations

from collections.abc import Iterator

from lab.guide.rulebook import Remark, Rule, Severity
from lab.guide.sheet import Sheet

_APART = 1.01


def check(sheet: Sheet, _older: Sheet | None) -> Iterator[Remark]:
    """1310 MHz of 1250 and 1400: no board ran at it, and every CPU-bound average mixes the two."""
    for reading in sheet.of("cpu.clock"):
        value = reading.cell.value
        if value.low and value.high and value.high >= _APART * value.low:
            yield Remark(
                f"averages runs at {value.low:g} and {value.high:g} MHz: no run had {value.number:g} MHz, and whatever follows the "
                "CPU clock may be an average over both",
                reading,
            )


RULE = Rule(id="clock-average", title="An average over two clocks", severity=Severity.WARNING, check=check)
