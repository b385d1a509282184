"""The maximum delay of a read."""

from __future__ import annotations

from attrs import define, field, frozen

from lab.console.model import LATE_WINDOW_NS, Chunk, Lateness, LineTiming

# Two things bound how long the last byte of a read can have waited:
#
# - The evidence of the second before (`Lateness`): how long the reading process, or the kernel's tty worker, was held
# up. It says nothing about a read of more than an adapter hands on at once; that one was held up for sure.
# - The line's speed: *n* bytes take *n* byte times, so the last of them came no earlier than that after the last byte
# of the read before. What is known of that byte is carried from read to read. A stall that outlasts the buffers makes
# many late reads, and each of them is only as sure as the one before it.
#
# The chain of reads ends where the buffers were empty: reads that came at the line's pace for `SETTLED_NS`, or that
# long a silence without evidence of a stall. The process was awake then, and nothing waited for it.


SETTLED_NS = 20_000_000  # two bytes of the probe (lab.console.latency); a waiting byte is handed on in microseconds


@frozen
class Delay:
    """The delay of one read.

    Attributes:
        late_ns: maximum wait of its last byte beyond the usual.
        backlog_ns: by how much it brought more than the line can send since the read before: that one was behind too,
            or the line is faster than its speed says.
        early_ns: by how much it came before the line can have brought its last byte, beyond the evidence of the second
            before: that time is missing in the stamps, or the line is faster.
    """

    late_ns: int
    backlog_ns: int
    early_ns: int = 0


@define
class DelayTracker:
    """Follows the reads of a port."""

    timing: LineTiming
    _previous: Chunk | None = field(default=None, init=False)
    _arrived_ns: int = field(default=0, init=False)  # no byte of the previous read that was its last arrived before
    _at_pace_since_ns: int | None = field(default=None, init=False)
    _evidence: list[Lateness] = field(factory=list, init=False)

    @property
    def previous(self) -> Chunk | None:
        """The read before the next one; None after missing bytes."""
        return self._previous

    def take_evidence(self, late: Lateness) -> None:
        """The reader of the port was held up."""
        self._evidence = [earlier for earlier in self._evidence if late.t_ns - earlier.t_ns <= LATE_WINDOW_NS]
        self._evidence.append(late)

    def forget(self) -> None:
        """Forget the last read after missing bytes."""
        self._previous = None
        self._at_pace_since_ns = None

    def delay(self, chunk: Chunk) -> Delay:
        """Return the maximum delay of this read."""
        timing, previous, size = self.timing, self._previous, len(chunk.data)
        self._previous = chunk
        evidence_ns = max(
            (evidence.lateness_ns for evidence in self._evidence if chunk.t_ns - evidence.t_ns <= LATE_WINDOW_NS),
            default=0,
        )
        if previous is None:
            held_ns = timing.bytes_ns(size) if size > timing.handover_bytes else 0  # at least; nothing says how long
            late_ns = max(evidence_ns, held_ns)
            self._arrived_ns = chunk.t_ns - timing.hold_ns - late_ns
            return Delay(late_ns, 0)
        since_ns = chunk.t_ns - previous.t_ns
        backlog_ns = max(0, timing.bytes_ns(size) - since_ns - timing.hold_ns)
        at_pace = size <= timing.handover_bytes and not backlog_ns
        # The clock is settled: no bytes waited behind the previous read.
        if not at_pace:
            self._at_pace_since_ns = None
        elif self._at_pace_since_ns is None:
            self._at_pace_since_ns = previous.t_ns
        quiet = chunk.t_ns - previous.t_ns >= SETTLED_NS and evidence_ns < SETTLED_NS
        if quiet or (self._at_pace_since_ns is not None and chunk.t_ns - self._at_pace_since_ns >= SETTLED_NS):
            self._arrived_ns = previous.t_ns - timing.hold_ns
        # Two workers may overtake each other on a busy host: a read may have been held up for longer than the evidence
        # says.
        early_ns = max(0, self._arrived_ns + timing.bytes_ns(size) - chunk.t_ns - evidence_ns)
        earliest_ns = min(chunk.t_ns, self._arrived_ns + timing.bytes_ns(size))
        longest_ns = min(chunk.t_ns - earliest_ns, max(0, chunk.t_ns - self._arrived_ns - timing.hold_ns))
        late_ns = longest_ns if size > timing.handover_bytes else min(evidence_ns, longest_ns)
        self._arrived_ns = max(earliest_ns, chunk.t_ns - timing.hold_ns - late_ns)
        return Delay(late_ns, backlog_ns, early_ns)
