"""Audio rows whose throughput belongs to another sampling rate."""

from __future__ import annotations

from collections.abc import Iterator

from lab.guide.rulebook import Remark, Rule, Severity
from lab.guide.sheet import Sheet

_BITS_PER_FRAME = 32  # two channels of 16 bits
_TOLERANCE = 0.02
_CODEC_TOLERANCE = 0.005
_CODEC_HZ = (8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000, 64000, 88200, 96000, 176400, 192000)


def check(sheet: Sheet, _older: Sheet | None) -> Iterator[Remark]:
    """The throughput is the sampling rate that the codec really ran at."""
    for reading in sheet.of("audio.throughput"):
        rate = reading.params.get("rate_hz", "")
        if not rate.isdecimal() or int(rate) == 0 or not reading.number:
            continue
        real = reading.number / _BITS_PER_FRAME
        if abs(real / int(rate) - 1) <= _TOLERANCE:
            continue
        text = f"{reading.number:.0f} bit/s are {real:.0f} frames of {_BITS_PER_FRAME} bits a second"
        if any(abs(real / codec - 1) <= _CODEC_TOLERANCE for codec in _CODEC_HZ):
            yield Remark(
                f"{text}: the codec did not run at {rate} Hz, so this row measures another rate",
                reading,
            )
        else:
            yield Remark(
                f"{text}, and no codec runs at that; the row may average several rates, or the stream stood still for a while, "
                "which the guide does not tell",
                reading,
                severity=Severity.NOTE,
            )


RULE = Rule(id="audio-rate", title="Another sampling rate", severity=Severity.WARNING, check=check)
