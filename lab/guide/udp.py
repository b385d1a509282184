"""UDP tables: which bytes a throughput counts, and what a row says in packets per second.

09.02 multiplies packets by the datagram (payload), 11.01 by the frame. The packet rate, printed in thousands, tells
which: throughput = rate * 8 * size must hold within its rounding.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Mapping

from attrs import frozen

from lab.guide.catalogue import CellReading
from lab.guide.sheet import Sheet, group

OVERHEAD_BYTES = 46  # Ethernet 18, IPv4 20, UDP 8: frame size with its checksum less the datagram
WIRE_BYTES = 20  # preamble and gap between frames
_ROUNDING = 0.5  # thousand packets
_PRINTED = 0.01  # of a throughput


class Definition(enum.StrEnum):
    """The bytes of a packet that a throughput counts."""

    PAYLOAD = "payload"
    FRAME = "frame"


@frozen
class UdpRow:
    """One row of one board in a UDP table.

    Attributes:
        frame: bytes with the checksum.
        definition: of this table and board, by majority of the rows that can tell; None if no row can.
        fits: False where the row contradicts every definition.
        packets_k: packets in thousands per second, from the throughput, or as printed without a definition.
    """

    frame: int
    throughput: CellReading
    packets: CellReading | None
    loss: CellReading | None
    cpu: CellReading | None
    definition: Definition | None
    fits: bool
    packets_k: float

    @property
    def readings(self) -> tuple[CellReading, ...]:
        """Every result of the row."""
        return tuple(r for r in (self.throughput, self.packets, self.cpu, self.loss) if r is not None)


def counted_bytes(frame: int, definition: Definition) -> int:
    """How many bytes of a packet a definition counts."""
    return frame if definition is Definition.FRAME else frame - OVERHEAD_BYTES


def tables(sheet: Sheet) -> Mapping[tuple[int, str | None], tuple[UdpRow, ...]]:
    """(Table, board) -> its rows by frame size."""
    by_row = group(
        sheet.of("ethernet.udp.throughput", "ethernet.udp.packets", "ethernet.udp.loss", "ethernet.udp.cpu_load"),
        lambda r: (r.cell.table, r.board, r.cell.row),
    )
    found: dict[tuple[int, str | None], list[dict[str, CellReading]]] = {}
    for (table, board, row), readings in by_row.items():
        named = {r.metric.removeprefix("ethernet.udp."): r for r in readings}
        if "throughput" in named and row.isdecimal() and int(row) > OVERHEAD_BYTES:
            found.setdefault((table, board), []).append(named)
    return {place: _rows(named) for place, named in found.items()}


def _rows(named: list[dict[str, CellReading]]) -> tuple[UdpRow, ...]:
    votes = Counter(d for row in named for d in [_only_definition(row)] if d is not None)
    definition = votes.most_common(1)[0][0] if votes else None
    rows = [_row(row, definition) for row in named]
    return tuple(sorted(rows, key=lambda row: row.frame))


def _row(named: Mapping[str, CellReading], definition: Definition | None) -> UdpRow:
    throughput, packets = named["throughput"], named.get("packets")
    frame = int(throughput.cell.row)
    if definition is not None:
        packets_k = (throughput.number or 0.0) * 1000 / 8 / counted_bytes(frame, definition)
    else:
        packets_k = (packets.number or 0.0) if packets else 0.0
    fits = packets is None or bool(_definitions(named))
    return UdpRow(frame, throughput, packets, named.get("loss"), named.get("cpu_load"), definition, fits, packets_k)


def _only_definition(named: Mapping[str, CellReading]) -> Definition | None:
    fitting = _definitions(named)
    return fitting[0] if len(fitting) == 1 else None


def _definitions(named: Mapping[str, CellReading]) -> list[Definition]:
    """The definitions under which throughput and packets of a row agree."""
    packets = named.get("packets")
    if packets is None or packets.number is None:
        return []
    frame, throughput = int(named["throughput"].cell.row), named["throughput"].number or 0.0
    return [
        definition
        for definition in Definition
        if abs(throughput * 1000 / 8 / counted_bytes(frame, definition) - packets.number)
        <= _ROUNDING + _PRINTED * 1000 / 8 / counted_bytes(frame, definition)
    ]
