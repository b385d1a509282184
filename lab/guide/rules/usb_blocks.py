"""150 blocks of 1 MB on a disk of 16 MB."""

from __future__ import annotations

from collections.abc import Iterator

from lab.guide.rulebook import Remark, Rule, Severity
from lab.guide.sheet import Sheet

_DISK_MB = 16


def check(sheet: Sheet, _older: Sheet | None) -> Iterator[Remark]:
    """The gadget's disk is a file of 16 MB, and dd stops where it is full."""
    for reading in sheet.of("usb.device.throughput"):
        blocks = reading.params.get("blocks", "")
        if blocks.isdecimal() and int(blocks) > _DISK_MB:
            yield Remark(
                f"{blocks} blocks of 1 MB do not fit the gadget's disk of {_DISK_MB} MB: the number is of a transfer of at most "
                f"{_DISK_MB} MB",
                reading,
            )


RULE = Rule(id="usb-blocks", title="More blocks than the disk has", severity=Severity.INFO, check=check)
