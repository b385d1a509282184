"""A column of frame sizes that holds datagrams."""

from __future__ import annotations

from collections.abc import Iterator

from lab.guide import udp
from lab.guide.rulebook import Remark, Rule, Severity
from lab.guide.sheet import Sheet

_LARGEST_FRAME, _LARGEST_DATAGRAM = 1518, 1472
_CLOCKS = 1.0005  # two ends' clocks


def check(sheet: Sheet, _older: Sheet | None) -> Iterator[Remark]:
    """1472 is the largest datagram; and no frame of 1024 bytes carries 939 Mbit/s of payload."""
    for rows in udp.tables(sheet).values():
        sizes = {row.size for row in rows}
        for row in rows:
            if row.size != row.frame:
                continue  # the column says that these are datagrams
            if row.size == _LARGEST_DATAGRAM and _LARGEST_FRAME not in sizes:
                yield Remark(
                    f"the column says frames, and {_LARGEST_DATAGRAM} is the datagram of a frame of {_LARGEST_FRAME} bytes: the "
                    "row, at least, names its datagram",
                    row.throughput,
                    also=row.readings[1:],
                )
                continue
            rate = row.throughput.number or 0.0
            payload, datagrams = udp.frame_limit(row.frame, udp.Definition.PAYLOAD), udp.datagram_limit(row.size)
            if row.definition is not udp.Definition.FRAME and payload * _CLOCKS < rate <= datagrams * _CLOCKS:
                yield Remark(
                    f"{rate:.2f} Mbit/s is more payload than a gigabit carries in frames of {row.frame} bytes, {payload:.1f} "
                    f"Mbit/s; datagrams of {row.size} bytes carry up to {datagrams:.1f}: the row names its datagram",
                    row.throughput,
                    also=row.readings[1:],
                )


RULE = Rule(id="udp-size-label", title="Frames that are datagrams", severity=Severity.WARNING, check=check)
