"""A rule for guides: a number that is suspiciously round."""

from __future__ import annotations

from collections.abc import Iterator

from lab.guide.measurements import MeasuredGuide
from lab.guide.rulebook import Remark, Severity, rule


@rule("example-round", "A round number", Severity.INFO, address="https://example.org/round")
def round_number(sheet: MeasuredGuide, _older: MeasuredGuide | None) -> Iterator[Remark]:
    """Find boot times without decimals."""
    for reading in sheet.of("boot.time"):
        if reading.number is not None and reading.number == round(reading.number):
            yield Remark(f"{reading.number:g} s is a round number", reading)
