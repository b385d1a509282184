"""LMBench latencies that two decimals cannot show."""

from __future__ import annotations

from collections.abc import Iterator

from lab.guide.rulebook import Remark, Rule, Severity
from lab.guide.sheet import Sheet
from lab.guide.text import decimals

_DIGITS = 0.1  # the last printed digit is at least this share of the number


def check(sheet: Sheet, _older: Sheet | None) -> Iterator[Remark]:
    """0.01 us may be anything from 0.005 to 0.015; 0.00 is no latency at all."""
    for reading in sheet.of("lmbench."):
        number, text = reading.number, reading.cell.value.text
        if number is None or reading.quantity is None or reading.quantity.metric.unit not in {"us", "ns"}:
            continue
        step = 10.0 ** -decimals(text)
        if number == 0:
            why = "lmbench subtracts what the loop costs, and less than nothing is printed as zero"
            yield Remark(
                f"no latency is zero: {why if reading.metric == 'lmbench.lat_ctx' else 'it was lost in the two decimals'}",
                reading,
                resolution=step,
                severity=Severity.WARNING,
            )
        elif step / number >= _DIGITS:
            yield Remark(
                f"is printed with steps of {step:g} {reading.quantity.metric.unit}, which is {100 * step / number:.0f} % of it",
                reading,
                resolution=step,
            )


RULE = Rule(id="printed-resolution", title="Two decimals cannot show it", severity=Severity.INFO, check=check)
