"""Audio rows whose throughput belongs to another sampling rate."""

from __future__ import annotations

from collections.abc import Iterator

from lab.guide.rulebook import Remark, Rule, Severity
from lab.guide.sheet import Sheet

_BITS_PER_FRAME = 32  # two channels of 16 bits
_TOLERANCE = 0.02


def check(sheet: Sheet, _older: Sheet | None) -> Iterator[Remark]:
    """The throughput is the sampling rate that the codec really ran at."""
    for reading in sheet.of("audio.throughput"):
        rate = reading.params.get("rate_hz", "")
        if not rate.isdecimal() or int(rate) == 0 or not reading.number:
            continue
        real = reading.number / _BITS_PER_FRAME
        if abs(real / int(rate) - 1) > _TOLERANCE:
            yield Remark(
                f"{reading.number:.0f} bit/s are {real:.0f} frames of {_BITS_PER_FRAME} bits a second: the codec did not run at "
                f"{rate} Hz, so this row measures another rate",
                reading,
            )


RULE = Rule(id="audio-rate", title="Another sampling rate", severity=Severity.WARNING, check=check)
