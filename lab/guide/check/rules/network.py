"""TCP that moves nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lab.guide.catalogue import CellReading
from lab.guide.measurements import MeasuredGuide, group
from lab.guide.model import CellKind
from lab.guide.rulebook import Effect, Remark, Severity, rule

_DEAD_MBIT_S = 5.0  # no board of the family, however slow, is within two orders of magnitude


@rule("tcp-dead", "TCP that moves nothing", Severity.ERROR, Effect.BROKEN)
def tcp_dead(sheet: MeasuredGuide, _older: MeasuredGuide | None) -> Iterator[Remark]:
    """Find TCP results of a dead connection.

    A TCP test that lost its connection prints what got through: 0.02 Mbit/s at 95.81 % load, beside 1500 to 1860.

    Finding: Below 5 Mbit/s.
    """
    rows = group(sheet.of("ethernet.tcp."), lambda r: (r.cell.table, r.cell.row, r.board))
    for readings in rows.values():
        for reading in readings:
            if reading.metric == "ethernet.tcp.throughput" and (reading.number or 0.0) < _DEAD_MBIT_S:
                yield Remark(
                    f"{reading.cell.value.text} Mbit/s over a gigabit port: the connection stood still, this is no "
                    "result",
                    reading,
                    also=tuple(r for r in readings if r is not reading),
                )


@rule("ingress-cpu-label", "The load of the other side", Severity.INFO)
def ingress_cpu_label(sheet: MeasuredGuide, _older: MeasuredGuide | None) -> Iterator[Remark]:
    """Find CPU loads of ingress tests with the tester's label.

    For ingress the netperf client runs on the tester, so LOCAL_CPU_UTIL would be the tester's load. The printed
    numbers are the board's (REMOTE_CPU_UTIL).

    Finding: One finding a table; the numbers stay.
    """
    loads = [
        r
        for r in sheet.of("ethernet.udp.cpu_load")
        if r.params.get("direction") == "ingress" and "LOCAL_CPU_UTIL" in (r.cell.metric or "")
    ]
    for readings in group(loads, lambda r: r.cell.table).values():
        yield Remark(
            "LOCAL_CPU_UTIL of an ingress test would be the tester's load; the numbers are the board's, which "
            "netperf calls REMOTE_CPU_UTIL there",
            readings[0],
            also=readings[1:],
        )


DEAD_MBIT_S = 5.0
_SPREAD = 10.0  # largest run over smallest, in one cell


@rule("ipsec-broken", "The tunnel did not carry the traffic", Severity.ERROR, Effect.BROKEN)
def ipsec_broken(sheet: MeasuredGuide, _older: MeasuredGuide | None) -> Iterator[Remark]:
    """Find IPSec results of a broken tunnel.

    The tunnel breaks during the test, and the rate of what got through is printed: 1.20 Mbit/s at 51 % load, where
    other releases have 267.

    Finding: 5 Mbit/s or less, or an average over runs that differ more than ten times.
    """
    rows = group(sheet.of("ipsec."), lambda r: (r.cell.table, r.cell.row, r.board))
    best: dict[str | None, float] = {}
    for reading in sheet.of("ipsec.throughput"):
        best[reading.board] = max(best.get(reading.board, 0.0), reading.number or 0.0)
    for readings in rows.values():
        throughput = next((r for r in readings if r.metric == "ipsec.throughput"), None)
        if throughput is not None:
            yield from _row(throughput, readings, best[throughput.board])


def _row(throughput: CellReading, readings: Sequence[CellReading], best: float) -> Iterator[Remark]:
    value = throughput.cell.value
    also = tuple(r for r in readings if r is not throughput)
    if value.number is not None and value.number <= DEAD_MBIT_S:
        load = next((r.number for r in readings if r.metric == "ipsec.cpu_load"), None)
        evidence = [f"with {load:.0f} % CPU load" if load is not None else ""]
        evidence.append(f"while another algorithm of this board reaches {best:.0f}" if best > DEAD_MBIT_S else "")
        yield Remark(
            f"{value.text} Mbit/s {', '.join(e for e in evidence if e)}: the tunnel did not carry the traffic, this "
            "is no result",
            throughput,
            also=also,
        )
    elif value.kind is CellKind.RANGE and value.low is not None and value.high and value.high > _SPREAD * value.low:
        yield Remark(
            f"averages runs from {value.low:g} to {value.high:g} Mbit/s: some of them had a broken tunnel, and the "
            "average means nothing",
            throughput,
            also=also,
        )


_PACKET_BYTES = (900, 1700)  # what a packet of the test can carry, the truncation of the rate included


@rule("ipsec-kilopackets", "Packets/Sec are thousands", Severity.WARNING)
def ipsec_kilopackets(sheet: MeasuredGuide, _older: MeasuredGuide | None) -> Iterator[Remark]:
    """Find IPSec packet rates in thousands.

    The column holds thousands, truncated: 267.4 Mbit/s in 23 packets would be packets of 1.4 MB.

    Finding: Cells that as thousands give packets of 900 to 1700 bytes, corrected by 1000. A zero is left.
    """
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
                f"is thousands of packets a second, contrary to the header: {throughput.cell.value.text} Mbit/s in "
                f"packets of {low:.0f} to {high:.0f} bytes",
                packets,
                corrected=packets.number * 1000,
            )
