"""The records of a console: reads, disturbances, moments."""

from __future__ import annotations

import enum
from typing import NamedTuple

from attrs import field, frozen, validators

from lab.host.clock import NS_PER_S
from lab.metrics import Moment, uncertainty

BITS_PER_BYTE = 10  # 8N1: one start bit, eight data bits, one stop bit
# Of a full-speed adapter (USB 2.0, 5.8.3); a faster one does not fill its larger ones at a console.
USB_PACKET_BYTES = 64
RX_TIMEOUT_BYTES = 4  # a 16550 hands over a partly filled FIFO after four characters of silence (PC16550D data sheet)
LATE_WINDOW_NS = NS_PER_S  # evidence of lateness counts for stamps so long after it: a busy host stays busy


class RecordKind(enum.IntEnum):
    """The kind of a record in a recording or a reader's stream.

    The record's number `n` means: bytes (DATA), microseconds (LATE), errno (LOST), nothing (BACK), bytes that are not
    in this recording (UNRECORDED), bytes that this reader did not get (DROPPED), microseconds (SUSPENDED), a CRC-32
    (DIGEST).
    """

    DATA = 0
    LATE = 1
    LOST = 2
    BACK = 3
    UNRECORDED = 4
    DROPPED = 5
    SUSPENDED = 6
    DIGEST = 7  # of a recording's files only, see lab.console.recording


@frozen
class Chunk:
    """The bytes of one read(2).

    Attributes:
        t_ns: the host's CLOCK_MONOTONIC_RAW just after the read returned.
        position: offset of data[0] in the port's stream.
    """

    t_ns: int
    position: int
    data: bytes

    @property
    def end(self) -> int:
        """Offset just after the last byte."""
        return self.position + len(self.data)


@frozen
class Lateness:
    """A delay of the reader: stamps near `t_ns` may be late.

    They are late by up to `lateness_ns`.
    """

    t_ns: int
    position: int
    lateness_ns: int


@frozen
class Gap:
    """Bytes may be missing before `position`.

    Attributes:
        kind: LOST (the port went away), BACK (it was opened again), UNRECORDED or DROPPED.
        amount: errno for LOST; number of missing bytes for UNRECORDED and DROPPED.
    """

    t_ns: int
    position: int
    kind: RecordKind
    amount: int = 0


@frozen
class Suspended:
    """A stop or jump of the stamping clock at `t_ns`.

    Intervals across `t_ns` are wrong by `missing_ns`.

    Attributes:
        missing_ns: by how much CLOCK_BOOTTIME went further than CLOCK_MONOTONIC_RAW; negative: less far.
    """

    t_ns: int
    position: int
    missing_ns: int


Event = Chunk | Lateness | Gap | Suspended


@frozen
class LineTiming:
    """Latency from the UART to the stamp.

    Attributes:
        speed_bd: baud rate of the line.
        adapter_latency_ns: maximum hold time of a byte in the adapter (FTDI: its latency timer).
        fifo_bytes: number of bytes that the receiving UART collects before a handover; 1: none.
        scheduling_ns: usual maximum lateness of the reading process, see `lab.host.scheduling`.
    """

    speed_bd: int = field(validator=validators.gt(0))
    adapter_latency_ns: int = field(default=0, validator=validators.ge(0))
    fifo_bytes: int = field(default=1, validator=validators.ge(1))
    scheduling_ns: int = field(default=300_000, validator=validators.ge(0))

    def bytes_ns(self, count: int) -> int:
        """Time that `count` bytes take on the line."""
        return count * BITS_PER_BYTE * NS_PER_S // self.speed_bd

    @property
    def hold_ns(self) -> int:
        """Maximum age of a punctual read's first byte: adapter latency and FIFO."""
        return self.adapter_latency_ns + self.bytes_ns(self.fifo_bytes)

    @property
    def handover_bytes(self) -> int:
        """Maximum bytes of one handover by the adapter.

        Its FIFO or a USB packet, and the bytes that arrive within its latency.
        """
        return max(self.fifo_bytes, USB_PACKET_BYTES) + self.adapter_latency_ns // self.bytes_ns(1)

    @property
    def delivery_ns(self) -> int:
        """Maximum age of a punctual read's last byte.

        Adapter latency, and the time-out of a FIFO that is not full.
        """
        return self.adapter_latency_ns + (self.bytes_ns(RX_TIMEOUT_BYTES) if self.fifo_bytes > 1 else 0)


class Interval(NamedTuple):
    """The time between two moments; `uncertainty_s` bounds its error on both sides."""

    seconds: float
    uncertainty_s: float


def interval(first: Moment, last: Moment) -> Interval:
    """The time from one moment to another, and its ± (`lab.metrics.uncertainty.of_interval`)."""
    return Interval(
        seconds=(last.t_ns - first.t_ns) / NS_PER_S,
        uncertainty_s=uncertainty.of_interval(first.uncertainty_ns, last.uncertainty_ns) / NS_PER_S,
    )
