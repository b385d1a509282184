"""Whetstone: 10000 over whole seconds."""

from __future__ import annotations

from collections.abc import Iterator

from lab.guide.rulebook import Remark, Rule, Severity
from lab.guide.sheet import Sheet

_LOOPS = 10_000.0  # MIPS that one second would give
_PRINTED = 0.06  # one decimal
_MOST_SECONDS = 20


def check(sheet: Sheet, _older: Sheet | None) -> Iterator[Remark]:
    """The result can only be 10000, 5000, 3333.3 ...: a halving may be one tick."""
    for reading in sheet.of("whetstone.rate"):
        value = reading.cell.value
        samples = [v for v in (value.low, value.high) if v] or [v for v in (value.number,) if v]
        if not samples or not all(_is_tick(v) for v in samples):
            continue
        seconds = round(_LOOPS / max(samples))
        neighbour = _LOOPS / (seconds - 1) if seconds > 1 else _LOOPS / 2
        yield Remark(
            f"is 10000 over whole seconds (here {seconds}): the next possible result is {neighbour:.1f}",
            reading,
            resolution=abs(neighbour - max(samples)),
        )


def _is_tick(value: float) -> bool:
    seconds = round(_LOOPS / value)
    return 1 <= seconds <= _MOST_SECONDS and abs(_LOOPS / seconds - value) < _PRINTED


RULE = Rule(id="quantised-whetstone", title="Whetstone counts whole seconds", severity=Severity.INFO, check=check)
