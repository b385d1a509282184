"""IPSec "Packets/Sec" that are thousands."""

from __future__ import annotations

from collections.abc import Iterator

from lab.guide.rulebook import Remark, Rule, Severity
from lab.guide.sheet import Sheet, group

_PACKET_BYTES = (900, 1700)  # what a packet of the test can carry, the truncation of the rate included


def check(sheet: Sheet, _older: Sheet | None) -> Iterator[Remark]:
    """267 Mbit/s in 23 packets would be packets of a megabyte each; in 23 thousand they have 1400 bytes."""
    rows = group(sheet.of("ipsec."), lambda r: (r.cell.table, r.cell.row, r.board))
    for readings in rows.values():
        named = {r.metric: r for r in readings}
        throughput, packets = named.get("ipsec.throughput"), named.get("ipsec.packets")
        if throughput is None or packets is None or not packets.number or not throughput.number:
            continue
        low = throughput.number * 1e6 / 8 / ((packets.number + 1) * 1000)  # the rate is truncated
        high = throughput.number * 1e6 / 8 / (packets.number * 1000)
        if high >= _PACKET_BYTES[0] and low <= _PACKET_BYTES[1]:
            yield Remark(
                f"is thousands of packets a second, whatever the header says: {throughput.cell.value.text} Mbit/s in packets of "
                f"{low:.0f} to {high:.0f} bytes",
                packets,
                corrected=packets.number * 1000,
            )


RULE = Rule(id="ipsec-kilopackets", title="Packets/Sec are thousands", severity=Severity.WARNING, check=check)
