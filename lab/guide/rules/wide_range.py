"""One cell whose runs differ several times."""

from __future__ import annotations

from collections.abc import Iterator

from lab.guide.rulebook import Remark, Rule, Severity
from lab.guide.sheet import Sheet

_TIMES = 5.0
# bw_mem mixes two operations, ipsec has a rule of its own, and a context switch may cost next to nothing.
_NOT_JUDGED = ("lmbench.bw_mem", "lmbench.lat_ctx", "ipsec.", "cyclictest.")
_LEAST_LOAD = 1.0  # percent: below it a tick of the accounting clock is a multiple


def check(sheet: Sheet, _older: Sheet | None) -> Iterator[Remark]:
    """The average of a boot of 15 s and one of 128 s is no boot time."""
    for metric in sheet.by_metric:
        for reading in () if metric.startswith(_NOT_JUDGED) else sheet.of(metric):
            low, high = reading.cell.value.low, reading.cell.value.high
            if not low or not high or low < 0 or (metric.endswith("cpu_load") and low < _LEAST_LOAD):
                continue
            if high >= _TIMES * low:
                yield Remark(
                    f"averages runs from {low:g} to {high:g}, {high / low:.1f} times: some of them did something else, and the "
                    "average is of neither",
                    reading,
                )


RULE = Rule(id="wide-range", title="Runs that differ several times", severity=Severity.WARNING, check=check)
