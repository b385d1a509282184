"""A tape: a console's bytes one by one, each with the time at which it arrived, and how they were read.

Mutations of what the board or the line did cut and join tapes. `events` gives the recording that the console server
would have made of a tape.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
from attrs import evolve, field, frozen

from lab.console.model import Chunk, Event, Lateness, LineTiming

READ_GAP_NS = 40_000  # between two reads of a server that has something waiting; a look with epoll takes so long
READ_BYTES = 4096  # as lab.console.loop: a tty never has more for one read


@frozen(eq=False)
class Tape:
    """Bytes in the order of their arrival; all arrays are of one length.

    Attributes:
        text: the bytes.
        t_ns: when each was there to be read.
        ends: whether a read ended behind it.
        mark: 0, or the number of the moment, from 1, whose last byte this truly is.
        late_ns: evidence that the server recorded just before the read that this byte came in; 0: none.
    """

    text: npt.NDArray[np.uint8] = field(repr=False)
    t_ns: npt.NDArray[np.int64] = field(repr=False)
    ends: npt.NDArray[np.bool_] = field(repr=False)
    mark: npt.NDArray[np.int16] = field(repr=False)
    late_ns: npt.NDArray[np.int64] = field(repr=False)

    def __len__(self) -> int:
        """How many bytes."""
        return len(self.text)

    @property
    def data(self) -> bytes:
        """The bytes."""
        return self.text.tobytes()

    def part(self, start: int, stop: int | None = None) -> Tape:
        """The bytes from `start` to before `stop`."""
        span = slice(start, stop)
        return Tape(self.text[span], self.t_ns[span], self.ends[span], self.mark[span], self.late_ns[span])

    def moved(self, by_ns: int) -> Tape:
        """The same, later by so much."""
        return evolve(self, t_ns=self.t_ns + by_ns)

    def ended(self) -> Tape:
        """The same, and a read ends behind it."""
        ends = self.ends.copy()
        ends[-1:] = True
        return evolve(self, ends=ends)

    def unmarked(self) -> Tape:
        """The same, without marks: a copy is not what it copies."""
        return evolve(self, mark=np.zeros_like(self.mark))

    def without(self, keep: npt.NDArray[np.bool_]) -> Tape:
        """Only the bytes at which `keep` is true; a read whose end is lost ends with its last byte that is left."""
        number: npt.NDArray[np.int64] = np.cumsum(self.ends) - self.ends  # of the read that a byte came in
        kept = Tape(self.text[keep], self.t_ns[keep], self.ends[keep], self.mark[keep], self.late_ns[keep])
        left: npt.NDArray[np.int64] = number[keep]
        ends = np.ones(len(left), dtype=np.bool_)
        if len(left):
            ends[:-1] = left[1:] != left[:-1]
        return evolve(kept, ends=ends)

    def with_text(self, data: bytes) -> Tape:
        """Other bytes, as many as there are."""
        return evolve(self, text=np.frombuffer(data, dtype=np.uint8))

    def marks(self) -> dict[int, int]:
        """Number of a moment -> when its true last byte arrived; the first counts."""
        found: dict[int, int] = {}
        for at in np.flatnonzero(self.mark).tolist():
            found.setdefault(int(self.mark[at]), int(self.t_ns[at]))
        return found


def joined(*tapes: Tape) -> Tape:
    """One after the other, as their times are."""
    return Tape(
        *(
            np.concatenate([getattr(tape, name) for tape in tapes])
            for name in ("text", "t_ns", "ends", "mark", "late_ns")
        )
    )


def typed(data: bytes, start_ns: int, byte_ns: int, fifo: int) -> Tape:
    """Bytes that a board sends back to back, from `start_ns` on; reads bring `fifo` of them at a time."""
    count = len(data)
    ends = np.zeros(count, dtype=np.bool_)
    ends[fifo - 1 :: fifo] = True
    ends[-1:] = True
    return Tape(
        np.frombuffer(data, dtype=np.uint8),
        start_ns + np.arange(1, count + 1, dtype=np.int64) * byte_ns,
        ends,
        np.zeros(count, dtype=np.int16),
        np.zeros(count, dtype=np.int64),
    )


def queued(tape: Tape, byte_ns: int) -> Tape:
    """The same bytes, none sooner after the one before than the line can bring it: what was pushed back, waits."""
    steps = np.arange(len(tape), dtype=np.int64) * byte_ns
    return evolve(tape, t_ns=np.maximum.accumulate(tape.t_ns - steps) + steps)


def recorded(events: Iterable[Event], timing: LineTiming) -> Tape:
    """The tape of a recording without gaps; a read's bytes came back to back, and none before the read before."""
    parts: list[Tape] = []
    byte_ns = timing.bytes_ns(1)
    late_ns = 0
    previous_ns: int | None = None
    for event in events:
        if isinstance(event, Lateness):
            late_ns = max(late_ns, event.lateness_ns)
        if not isinstance(event, Chunk) or not event.data:
            continue
        count = len(event.data)
        t_ns = event.t_ns - np.arange(count - 1, -1, -1, dtype=np.int64) * byte_ns
        if previous_ns is not None:
            t_ns = np.maximum(t_ns, previous_ns)
        read = typed(event.data, 0, byte_ns, count)
        late = read.late_ns.copy()
        late[0], late_ns = late_ns, 0
        parts.append(evolve(read, t_ns=t_ns, late_ns=late))
        previous_ns = event.t_ns
    return joined(*parts) if parts else typed(b"", 0, byte_ns, 1)


def events(tape: Tape, position: int = 0) -> tuple[Event, ...]:
    """What the console server would have recorded: each read at the time of its last byte, evidence before it."""
    data = tape.data
    stops = (np.flatnonzero(tape.ends) + 1).tolist()
    if len(tape) and (not stops or stops[-1] != len(tape)):
        stops.append(len(tape))
    starts = [0, *stops[:-1]]
    if not stops:
        return ()
    late = np.maximum.reduceat(tape.late_ns, starts).tolist()
    times = np.maximum.accumulate(tape.t_ns[np.asarray(stops) - 1]).tolist()
    found: list[Event] = []
    for start, stop, t_ns, late_ns in zip(starts, stops, times, late, strict=True):
        if late_ns:
            found.append(Lateness(t_ns, position + start, late_ns))
        found.append(Chunk(t_ns, position + start, data[start:stop]))
    return tuple(found)


def shuffled(tape: Tape, pieces: Sequence[tuple[int, int]]) -> Tape:
    """The pieces of the tape in another order; when bytes came, and how they were read, stays."""
    begin = min(start for start, _ in pieces)
    end = max(stop for _, stop in pieces)
    said, slots = joined(*(tape.part(*piece) for piece in pieces)), tape.part(begin, end)
    return joined(tape.part(0, begin), evolve(slots, text=said.text, mark=said.mark), tape.part(end))


def held(tape: Tape, start_ns: int, stop_ns: int, evidence_ns: int, buffer_bytes: int) -> Tape:
    """A tape as it was read by a server that stood still: its times are those of the reads.

    What came meanwhile is read afterwards, at most `READ_BYTES` at a time; what the kernel could not keep is lost.

    Args:
        evidence_ns: what the server then recorded about it.
        buffer_bytes: how much the kernel keeps.
    """
    last = np.flatnonzero(tape.ends)
    reads = tape.t_ns[last[np.minimum(np.searchsorted(last, np.arange(len(tape))), len(last) - 1)]]
    waited = np.flatnonzero((reads >= start_ns) & (reads < stop_ns))
    if not len(waited):
        return tape
    begin, end = int(waited[0]), int(waited[-1]) + 1
    kept = tape.part(begin, min(end, begin + buffer_bytes))
    number = np.arange(len(kept)) // READ_BYTES
    ends = np.append(number[1:] != number[:-1], True)
    late_ns = np.zeros_like(kept.late_ns)
    late_ns[0] = max(evidence_ns, int(kept.late_ns.max()))
    came = Tape(kept.text, stop_ns + number * READ_GAP_NS, ends, kept.mark, late_ns)
    return joined(tape.part(0, begin), came, tape.part(end))
