"""UDP tables: counted bytes of a throughput, and packets per second.

The packet rate, printed in thousands, tells by which size it was multiplied: throughput = rate * 8 * size must hold
within its rounding. 09.02 takes the datagram of a frame of the row's size (46 bytes less). 11.01 takes the row's size
itself. That may mean that whole frames are counted, or that the datagrams have the size that the column calls the
frame's: packets and throughput are the same in both. Only the wire tells: a gigabit link carries 980.8 Mbit/s of
frames of 1024 bytes, and 939.4 Mbit/s of datagrams of 1024 bytes.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable, Mapping

from attrs import frozen

from lab.guide.catalogue import CellReading
from lab.guide.measurements import MeasuredGuide, group

_DATAGRAM = "datagram_bytes"  # the parameter of tables whose first column is the datagram
OVERHEAD_BYTES = 46  # Ethernet 18, IPv4 20, UDP 8: frame size with its checksum less the datagram
WIRE_BYTES = 20  # preamble and gap between frames
_GIGABIT = 1000.0  # Mbit/s
_UDP_BYTES = 8
LARGEST_DATAGRAM = 1472  # in one frame: a packet of 1500 bytes less the headers of IPv4 and UDP
_FRAGMENT_BYTES = 1480  # of a packet of 1500 bytes, less the header of IPv4
_CLOCKS = 1.0005  # two ends' clocks
_FULL = 0.998  # of a link
_ROUNDING = 0.5  # thousand packets
_PRINTED = 0.01  # of a throughput


class Definition(enum.StrEnum):
    """The bytes of a packet that a throughput counts."""

    PAYLOAD = "payload"  # of a frame of the row's size
    FRAME = "frame"  # the row's size: of whole frames, or of datagrams (see `meaning`)


class ColumnMeaning(enum.StrEnum):
    """Meaning of a row's packets, as far as the wire tells."""

    PAYLOAD = "payload"  # frames of the row's size, their payload counted
    FRAME = "frame"  # frames of the row's size, counted whole
    DATAGRAM = "datagram"  # datagrams of the row's size, in larger frames
    UNDECIDED = "undecided"  # frames or datagrams: both fit


@frozen
class UdpRow:
    """One row of one board in a UDP table.

    Attributes:
        frame: bytes with the checksum.
        definition: of the row where only one fits, else of most rows of this table and board that can tell; None if
            none can.
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
    def size(self) -> int:
        """Size in the row: of the datagram if the column says so."""
        return self.frame - OVERHEAD_BYTES if _DATAGRAM in self.throughput.params else self.frame

    @property
    def readings(self) -> tuple[CellReading, ...]:
        """Every result of the row."""
        return tuple(r for r in (self.throughput, self.packets, self.cpu, self.loss) if r is not None)


def bytes_per_packet(frame: int, definition: Definition) -> int:
    """Number of bytes of a packet that a definition counts."""
    return frame if definition is Definition.FRAME else frame - OVERHEAD_BYTES


def datagram_limit(size: int) -> float:
    """Mbit/s of payload in UDP datagrams over a gigabit link.

    Datagrams above 1472 bytes are fragmented.
    """
    fragments = -(-(size + _UDP_BYTES) // _FRAGMENT_BYTES)
    wire = size + _UDP_BYTES + fragments * (OVERHEAD_BYTES - _UDP_BYTES + WIRE_BYTES)
    return _GIGABIT * size / wire


def frame_limit(frame: int, definition: Definition) -> float:
    """Mbit/s over a gigabit link in frames of a size."""
    return _GIGABIT * bytes_per_packet(frame, definition) / (frame + WIRE_BYTES)


def meaning(row: UdpRow) -> tuple[ColumnMeaning, str]:
    """Meaning of a row's packets, and the evidence.

    The row's definition must be known.
    """
    rate = row.throughput.number or 0.0
    size = row.size
    if row.definition is Definition.PAYLOAD:
        return (
            ColumnMeaning.PAYLOAD,
            f"{rate:.2f} Mbit/s are the packets times {bytes_per_packet(row.frame, Definition.PAYLOAD)} bytes",
        )
    datagrams, frames = datagram_limit(size), frame_limit(size, Definition.FRAME)
    limits = (
        f"datagrams of {size} bytes fill a gigabit at {datagrams:.1f} Mbit/s, "
        f"whole frames of {size} bytes at {frames:.1f}"
    )
    if rate > datagrams * _CLOCKS:
        return ColumnMeaning.FRAME, f"{rate:.2f} Mbit/s is more than datagrams could be: {limits}"
    if rate >= datagrams * _FULL:
        return (
            ColumnMeaning.DATAGRAM,
            f"{rate:.2f} Mbit/s is {100 * rate / datagrams:.2f} % of a full link of datagrams: {limits}",
        )
    return ColumnMeaning.UNDECIDED, f"{rate:.2f} Mbit/s allows both: {limits}"


def meaning_of(rows: Iterable[UdpRow]) -> ColumnMeaning:
    """Meaning of the sizes of a guide, whose rows are of one program.

    It is undecided where no row tells, or they differ.
    """
    meanings = {meaning(row)[0] for row in rows if row.definition is not None} - {ColumnMeaning.UNDECIDED}
    return meanings.pop() if len(meanings) == 1 else ColumnMeaning.UNDECIDED


def tables(sheet: MeasuredGuide) -> Mapping[tuple[int, str | None], tuple[UdpRow, ...]]:
    """(Table, board) -> its rows by frame size."""
    by_row = group(
        sheet.of("ethernet.udp.throughput", "ethernet.udp.packets", "ethernet.udp.loss", "ethernet.udp.cpu_load"),
        lambda r: (r.cell.table, r.board, r.cell.row),
    )
    named_rows: dict[tuple[int, str | None], list[dict[str, CellReading]]] = {}
    for (table, board, _row_name), readings in by_row.items():
        named = {r.metric.removeprefix("ethernet.udp."): r for r in readings}
        if "throughput" in named and _frame(named["throughput"]) > OVERHEAD_BYTES:
            named_rows.setdefault((table, board), []).append(named)
    rows_of: dict[tuple[int, str | None], tuple[UdpRow, ...]] = {}
    for place, named_readings in named_rows.items():
        # A row whose definition its numbers do not show has that of most rows of its table.
        votes = Counter(filter(None, map(_only_definition, named_readings)))
        usual = votes.most_common(1)[0][0] if votes else None
        rows_of[place] = tuple(sorted((_row(named, usual) for named in named_readings), key=lambda row: row.frame))
    return rows_of


def _row(named: Mapping[str, CellReading], common: Definition | None) -> UdpRow:
    throughput, packets = named["throughput"], named.get("packets")
    frame = _frame(throughput)
    definition = _only_definition(named) or common
    if definition is not None:
        packets_k = (throughput.number or 0.0) * 1000 / 8 / bytes_per_packet(frame, definition)
    else:
        packets_k = (packets.number or 0.0) if packets else 0.0
    fits = packets is None or bool(_definitions(named))
    return UdpRow(frame, throughput, packets, named.get("loss"), named.get("cpu_load"), definition, fits, packets_k)


def _frame(reading: CellReading) -> int:
    """Frame size of a row in bytes; 0 without a size."""
    text = reading.cell.row.strip().removesuffix(".00")
    if not text.isdecimal():
        return 0
    return int(text) + (OVERHEAD_BYTES if _DATAGRAM in reading.params else 0)


def _only_definition(named: Mapping[str, CellReading]) -> Definition | None:
    fitting = _definitions(named)
    return fitting[0] if len(fitting) == 1 else None


def _definitions(named: Mapping[str, CellReading]) -> list[Definition]:
    """The definitions under which throughput and packets of a row agree."""
    packets = named.get("packets")
    if packets is None or packets.number is None:
        return []
    frame, throughput = _frame(named["throughput"]), named["throughput"].number or 0.0
    return [
        definition
        for definition in ([Definition.PAYLOAD] if _DATAGRAM in named["throughput"].params else Definition)
        if abs(throughput * 1000 / 8 / bytes_per_packet(frame, definition) - packets.number)
        <= _ROUNDING + _PRINTED * 1000 / 8 / bytes_per_packet(frame, definition)
    ]
