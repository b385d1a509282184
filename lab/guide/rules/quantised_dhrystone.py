"""Dhrystone: a fixed number of runs over whole seconds."""

from __future__ import annotations

from collections.abc import Iterator

from lab.guide.rulebook import Remark, Rule, Severity
from lab.guide.sheet import Sheet

_RUNS = (200e6, 100e6)  # what the vendor's program runs
_TOLERANCE = 1e-6  # it prints in single precision
_DECIMAL = 0.1  # DMIPS/MHz has one decimal


def check(sheet: Sheet, _older: Sheet | None) -> Iterator[Remark]:
    """One tick of the clock is several percent of the result."""
    per_mhz = {r.board: r for r in sheet.of("dhrystone.per_mhz")}
    for reading in sheet.of("dhrystone.rate"):
        rate = reading.number
        if not rate or rate <= 0:
            continue
        runs = (
            next((n for n in _RUNS if abs(n / round(n / rate) / rate - 1) < _TOLERANCE), None) if rate < 50e6 else None
        )
        if runs is None:
            continue
        seconds = round(runs / rate)
        step = rate / seconds
        text = f"is {runs / 1e6:.0f} million runs in {seconds} whole seconds: one second more or less is {100 / seconds:.1f} %"
        yield Remark(text, reading, resolution=step)
        other = per_mhz.get(reading.board)
        if other is not None and other.number:
            tick = max(_DECIMAL, other.number / seconds)
            yield Remark(f"{text}, and it is printed with one decimal", other, resolution=tick + 0.01)


RULE = Rule(id="quantised-dhrystone", title="Dhrystone counts whole seconds", severity=Severity.INFO, check=check)
