"""U-Boot transfers: a size over U-Boot's `time`, which has 1 ms."""

from __future__ import annotations

import string
from collections.abc import Iterator

from lab.guide.rulebook import Remark, Rule, Severity
from lab.guide.sheet import Sheet

_WORTH_SAYING = 0.01  # relative


def check(sheet: Sheet, _older: Sheet | None) -> Iterator[Remark]:
    """A short transfer takes few milliseconds, and one of them is several percent."""
    for reading in sheet.of("uboot.throughput"):
        size = reading.params.get("file", "")
        if not reading.number or not size or set(size) - set(string.hexdigits):
            continue
        milliseconds = int(size, 16) / 1024 / reading.number * 1000
        if 1 / max(milliseconds, 1) >= _WORTH_SAYING:
            yield Remark(
                f"is {int(size, 16) // 1024} KiB in {milliseconds:.0f} ms by a clock of 1 ms: one tick is "
                f"{100 / milliseconds:.1f} %",
                reading,
                resolution=reading.number / milliseconds,
            )


RULE = Rule(id="quantised-uboot", title="U-Boot's `time` has 1 ms", severity=Severity.INFO, check=check)
