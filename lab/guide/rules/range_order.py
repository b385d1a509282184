"""min > avg, or avg > max."""

from __future__ import annotations

from collections.abc import Iterator

from lab.guide.rulebook import Remark, Rule, Severity
from lab.guide.sheet import Sheet

_ROUNDING = 0.0101  # average and bound are each rounded to two decimals


def check(sheet: Sheet, _older: Sheet | None) -> Iterator[Remark]:
    """An average outside its own range is of other samples than the range, or a digit is wrong."""
    for reading in sheet.readings:
        value = reading.cell.value
        if value.number is None or value.low is None or value.high is None:
            continue
        if value.low > value.high:
            yield Remark(f"the minimum {value.low:g} is above the maximum {value.high:g}", reading)
        elif not value.low - _ROUNDING <= value.number <= value.high + _ROUNDING:
            yield Remark(
                f"the average {value.number:g} lies outside its range, {value.low:g} to {value.high:g}", reading
            )


RULE = Rule(id="range-order", title="The average lies outside its range", severity=Severity.ERROR, check=check)
