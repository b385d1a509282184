"""OSPI raw reads: a size over `time -p`, which has 10 ms."""

from __future__ import annotations

from collections.abc import Iterator

from lab.guide.rulebook import Remark, Rule, Severity
from lab.guide.sheet import Sheet

_TICK_S = 0.01
_WORTH_SAYING = 0.01  # relative


def check(sheet: Sheet, _older: Sheet | None) -> Iterator[Remark]:
    """50 MiB in 0.29 s: the next possible result is 3 % away."""
    for reading in sheet.of("ospi.raw.throughput"):
        value = reading.number
        size = reading.params.get("file", "")
        if not value or not size.isdecimal() or int(size) == 0:
            continue
        seconds = int(size) / value
        if reading.cell.value.low is not None or not _is_one_run(seconds, value):
            continue  # an average over runs has finer steps
        step = value * _TICK_S / seconds
        if step / value >= _WORTH_SAYING:
            yield Remark(
                f"is {size} MiB in {seconds:.2f} s by a clock of 10 ms: one tick is {100 * step / value:.1f} %",
                reading,
                resolution=step,
            )


def _is_one_run(seconds: float, value: float) -> bool:
    """Whether the time is a whole number of ticks, as far as two decimals of the throughput tell."""
    ticks = seconds / _TICK_S
    return abs(ticks - round(ticks)) <= ticks * 0.006 / value + 1e-6


RULE = Rule(id="quantised-dd", title="The clock of `time -p` has 10 ms", severity=Severity.INFO, check=check)
