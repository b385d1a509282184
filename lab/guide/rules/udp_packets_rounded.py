"""UDP packet rates in whole thousands: 0.00 for 200 packets a second."""

from __future__ import annotations

from collections.abc import Iterator

from lab.guide import udp
from lab.guide.rulebook import Effect, Remark, Rule, Severity
from lab.guide.sheet import Sheet

_FEW_K = 10  # below it, half a thousand is more than 5 %


def check(sheet: Sheet, _older: Sheet | None) -> Iterator[Remark]:
    """The throughput has two decimals and gives the rate back."""
    for rows in udp.tables(sheet).values():
        for row in rows:
            if row.packets is None or row.packets.number is None or row.definition is None or not row.fits:
                continue
            is_whole = row.packets.number == round(row.packets.number)
            if is_whole and row.packets.number < _FEW_K and row.packets_k > 0:
                yield Remark(
                    f"{row.packets.cell.value.text} thousand packets a second is rounded to whole thousands; the throughput "
                    f"gives {row.packets_k:.2f}",
                    row.packets,
                    corrected=round(row.packets_k, 2),
                    resolution=0.01,
                )


RULE = Rule(
    id="udp-packets-rounded",
    title="Packets in whole thousands",
    severity=Severity.INFO,
    check=check,
    effect=Effect.RECOVERED,
)
