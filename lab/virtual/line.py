"""Model of a serial line with its adapter's timing.

Pure logic over times that the caller passes in; nanoseconds on one clock.
"""

from __future__ import annotations

from collections import deque

from attrs import define, frozen

BITS_PER_BYTE = 10  # 8N1: start bit, 8 data bits, stop bit
SLIP_BYTES = 2  # lateness of a hand-over before the line slips, in byte times


@frozen
class Sent:
    """Bytes of one burst that the adapter handed on together.

    Attributes:
        end_ns: when the last of them had left; the one before it left one byte time earlier.
    """

    end_ns: int
    data: bytes


@define
class _Burst:
    """Bytes back to back.

    `first` is the place of data[0] in the burst, whose first start bit came at `start_ns`.
    """

    start_ns: int
    data: bytearray
    first: int = 0


class UartChannel:
    """One direction of a UART and its USB adapter.

    The adapter hands on what it collected when it has `fifo_bytes`, or at the next tick of its latency timer, which
    runs freely and restarts at each hand-over (as FTDI AN232B-04 describes). With a latency of 0 there is no timer:
    it hands on as soon as the transmitter goes idle.

    The caller calls `take` at `deadline_ns` or a little later. Being late moves the bytes handed on, not
    those behind them, until it exceeds SLIP_BYTES; then the rest of the line slips too, since no UART makes up for
    lost time by sending faster.
    """

    def __init__(self, speed_bd: int = 115200, fifo_bytes: int = 16, latency_ns: int = 0) -> None:
        self._speed_bd = speed_bd
        self._fifo_bytes = fifo_bytes
        self._latency_ns = latency_ns
        self._bursts: deque[_Burst] = deque()
        self._queued = 0
        self._idle_ns = 0  # when the transmitter has sent all it was given
        self._tick_ns = 0
        self._slip_ns = self.duration_ns(SLIP_BYTES)

    @property
    def queued(self) -> int:
        """Bytes pushed and not yet handed on."""
        return self._queued

    def unsent(self, now_ns: int) -> int:
        """Bytes still in the transmitter, for a line on time."""
        left_ns = max(self._idle_ns - now_ns, 0)
        return min(-(-left_ns * self._speed_bd // (BITS_PER_BYTE * 1_000_000_000)), self._queued)

    def set_speed(self, speed_bd: int, fifo_bytes: int) -> None:
        """Change the speed of an idle line.

        Bytes on their way would change their speed, too.
        """
        self._speed_bd = speed_bd
        self._fifo_bytes = fifo_bytes
        self._slip_ns = self.duration_ns(SLIP_BYTES)

    def duration_ns(self, count: int) -> int:
        """Time of `count` bytes on the line."""
        return count * BITS_PER_BYTE * 1_000_000_000 // self._speed_bd

    def push(self, data: bytes, now_ns: int) -> None:
        """Give the transmitter bytes, behind those that it still has."""
        if not data:
            return
        if now_ns < self._idle_ns and self._bursts:
            self._bursts[-1].data += data
        else:
            self._bursts.append(_Burst(max(now_ns, self._idle_ns), bytearray(data)))
        self._queued += len(data)
        self._idle_ns = self._end_ns(self._bursts[-1], len(self._bursts[-1].data))

    def deadline_ns(self) -> int | None:
        """Time of the adapter's next hand-over; None: nothing is waiting."""
        if not self._bursts:
            return None
        head = self._bursts[0]
        if self._latency_ns == 0:
            return self._end_ns(head, min(self._fifo_bytes, len(head.data)))
        waited = max(self._end_ns(head, 1) - self._tick_ns, 1)
        tick_ns = self._tick_ns + -(-waited // self._latency_ns) * self._latency_ns
        full_ns = self._full_ns()
        return tick_ns if full_ns is None else min(tick_ns, full_ns)

    def take(self, now_ns: int) -> list[Sent]:
        """Hand on bytes at `now_ns`, one entry per burst.

        Empty before the deadline.
        """
        due_ns = self.deadline_ns()
        if due_ns is None or now_ns < due_ns:
            return []
        late_ns = now_ns - due_ns
        taken: list[Sent] = []
        space = self._fifo_bytes
        while self._bursts and space:
            head = self._bursts[0]
            count = min(space, len(head.data), self._left_by(head, due_ns))
            if count == 0:
                break
            taken.append(Sent(self._end_ns(head, count) + late_ns, bytes(head.data[:count])))
            del head.data[:count]
            head.first += count
            space -= count
            self._queued -= count
            if not head.data:
                self._bursts.popleft()
            if self._latency_ns == 0:
                break
        self._tick_ns = due_ns
        if late_ns > self._slip_ns:
            self._slip(late_ns, taken[-1].end_ns)
        return taken

    def discard(self, now_ns: int) -> int:
        """Drop bytes that the transmitter lost with its power.

        Bytes that had left it stay with the adapter. Returns the number of lost ones.
        """
        lost = 0
        for burst in self._bursts:
            left = self._left_by(burst, now_ns)
            lost += len(burst.data[left:])
            del burst.data[left:]
        self._bursts = deque(burst for burst in self._bursts if burst.data)
        self._queued -= lost
        self._idle_ns = min(self._idle_ns, now_ns)
        return lost

    def _end_ns(self, burst: _Burst, count: int) -> int:
        return burst.start_ns + self.duration_ns(burst.first + count)

    def _left_by(self, burst: _Burst, now_ns: int) -> int:
        # The largest count whose duration, which is rounded down to whole ns, is not above the elapsed time.
        elapsed_ns = now_ns - burst.start_ns + 1
        sent = (elapsed_ns * self._speed_bd - 1) // (BITS_PER_BYTE * 1_000_000_000) - burst.first
        return min(max(sent, 0), len(burst.data))

    def _full_ns(self) -> int | None:
        missing = self._fifo_bytes
        for burst in self._bursts:
            if missing <= len(burst.data):
                return self._end_ns(burst, missing)
            missing -= len(burst.data)
        return None

    def _slip(self, late_ns: int, sent_ns: int) -> None:
        if self._bursts and self._bursts[0].first:  # the rest of what was just handed on
            self._bursts[0].start_ns += late_ns
        for burst in self._bursts:
            if not burst.first:
                burst.start_ns = max(burst.start_ns, sent_ns)
            sent_ns = self._end_ns(burst, len(burst.data))
        self._idle_ns = max(self._idle_ns, sent_ns)
