"""The good boot that is tortured: its tape, and where on it what is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from random import Random

import numpy as np
import numpy.typing as npt
from attrs import evolve, field, frozen

from lab.benchmarks.boot import ENDS, START, PowerEdge
from lab.boards import NORMAL, BoardType, way_of
from lab.console.model import Chunk, Event, Gap, Lateness, LineTiming
from lab.console.moments import find_moments
from lab.console.printk import AGREE_APART_NS
from lab.console.recording import Recording
from lab.errors import ConfigurationError
from lab.host.clock import NS_PER_S
from lab.metrics import Flag, Sample, SampleRecord
from lab.metrics.catalogue import HEADLINE_NAMES
from lab.run.rewatch import PromptReply, RewatchResult, rewatch

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


POWER = "power on"  # in a truth, beside the names of moments
BEFORE_FIRST_BYTE_NS = NS_PER_S // 2  # a recording does not say when its board was switched on; this is as good as any
# They say that a boot's numbers may be wrong.
DOUBTS = frozenset(
    {
        Flag.CLOCK_DISAGREES,
        Flag.CONSOLE_OVERRUN,
        Flag.FLOW_UNVERIFIED,
        Flag.NOT_CROSS_CHECKED,
        Flag.PROMPT_REPEATED,
        Flag.UNCERTAIN,
    }
)
QUEUED_NS = 20_000_000  # a kernel's line that came so much later than others was waiting for the line
KERNEL_TIME = re.compile(rb"^\[ *(\d{1,6})\.(\d{6})\]", re.MULTILINE)
NEAR_BYTES = 60  # of a moment, where places are chosen more often


@frozen
class Mutated:
    """A boot in which something happened.

    Attributes:
        truth_ns: when each moment truly was; one that is missing makes every number that needs it wrong.
        what: what happened, in words.
        kernel_ns: when the kernel that runs at the prompt was started; None: as `truth_ns` has it.
    """

    events: tuple[Event, ...] = field(repr=False)
    truth_ns: Mapping[str, int]
    what: str
    kernel_ns: int | None = None


@frozen(eq=False)
class GoodBoot:
    """A good boot.

    Attributes:
        flow: which way it booted.
        names: of its moments; `tape.mark` counts them from 1.
        samples: what it gives untouched.
        prompt: the text of its prompt, as far as its line has it.
    """

    board: BoardType
    medium: str
    flow: str
    timing: LineTiming
    power: PowerEdge
    tape: Tape = field(repr=False)
    names: tuple[str, ...]
    samples: tuple[SampleRecord, ...]
    prompt: str

    @property
    def byte_ns(self) -> int:
        """How long a byte takes on the line."""
        return self.timing.bytes_ns(1)

    @property
    def number(self) -> Sample:
        """Its boot time."""
        return next(sample for sample in self.samples if sample.metric in HEADLINE_NAMES)

    @property
    def start(self) -> str:
        """The moment from which its boot time counts."""
        way = way_of(self.flow)
        return START if way == NORMAL else self.board.flows[way].start

    @cached_property
    def read_bytes(self) -> int:
        """How many bytes a read brings while the board talks without a pause."""
        stops = np.flatnonzero(self.tape.ends)
        return max(1, int(np.percentile(np.diff(stops, prepend=-1), 90)))

    @cached_property
    def at(self) -> dict[str, int]:
        """Name of a moment -> offset just after its last byte."""
        where = np.flatnonzero(self.tape.mark)
        return {self.names[int(self.tape.mark[at]) - 1]: int(at) + 1 for at in where}

    @cached_property
    def lines(self) -> list[int]:
        """Offsets at which lines begin."""
        return [0, *(match.end() for match in re.finditer(rb"\n", self.tape.data))]

    @property
    def end(self) -> str:
        """The name of the prompt's moment."""
        return next(name for name in ENDS if name in self.at)

    @property
    def kernel_at(self) -> int:
        """Where the kernel's first line begins."""
        return self.line_of(self.at["first_printk"] if "first_printk" in self.at else self.at[self.start])

    def truth(self, tape: Tape) -> dict[str, int]:
        """When which moment was, by the marks of a tape."""
        return {
            POWER: self.power.acknowledged_ns,
            **{self.names[mark - 1]: t_ns for mark, t_ns in tape.marks().items()},
        }

    def of(self, tape: Tape) -> GoodBoot:
        """The same boot on another tape."""
        return evolve(self, tape=tape)

    def line_of(self, offset: int) -> int:
        """Where the line begins that holds this offset."""
        return self.lines[int(np.searchsorted(self.lines, offset, side="right")) - 1]

    def line_after(self, offset: int) -> int:
        """Where the next line begins; the tape's end behind the last."""
        number = int(np.searchsorted(self.lines, offset, side="right"))
        return self.lines[number] if number < len(self.lines) else len(self.tape)

    def place(self, rng: Random) -> int:
        """Any offset: evenly over the bytes, over the time, or near a moment."""
        size = len(self.tape)
        match rng.randrange(3):
            case 0:
                return rng.randrange(size)
            case 1:
                first, last = int(self.tape.t_ns[0]), int(self.tape.t_ns[-1])
                return min(size - 1, int(np.searchsorted(self.tape.t_ns, rng.randint(first, last))))
            case _:
                near = rng.choice(sorted(self.at.values())) + rng.randint(-NEAR_BYTES, NEAR_BYTES)
                return min(max(0, near), size - 1)

    def line_place(self, rng: Random) -> int:
        """The beginning of any line."""
        return self.line_of(self.place(rng))

    def marker(self, rng: Random) -> tuple[int, int]:
        """Where the line of any moment begins, and where the moment's text ends."""
        end = rng.choice(sorted(self.at.values()))
        return self.line_of(end - 1), end

    def splits_marker(self, offset: int) -> bool:
        """Whether a cut here takes the end of a moment from its beginning."""
        return any(self.line_of(end - 1) < offset < end for end in self.at.values())

    @cached_property
    def pauses(self) -> list[int]:
        """Offsets of the kernel's lines that came at once, and did not wait for the line."""
        found = []
        for match in KERNEL_TIME.finditer(self.tape.data, self.kernel_at):
            found.append((match.start(), int(self.tape.t_ns[match.start()]) - _stamp_ns(match)))
        least = min((wait for _, wait in found), default=0)
        return [offset for offset, wait in found if wait - least <= QUEUED_NS]

    @property
    def clock_shown_ns(self) -> tuple[int, int] | None:
        """When kernel's lines first and last showed what time it was; None where that was for less than a second.

        One line shows nothing: two have to agree, and they are some way apart.
        """
        shown = [int(self.tape.t_ns[offset]) for offset in self.pauses]
        apart = [t_ns for t_ns in shown if t_ns - shown[0] > 2 * AGREE_APART_NS]
        return (apart[0], apart[-1]) if apart and apart[-1] - apart[0] > NS_PER_S else None

    def pause_after(self, offset: int) -> int:
        """The next offset where the board may have paused: not amid what the kernel said long before."""
        if offset < self.kernel_at or not self.pauses or offset >= self.pauses[-1]:
            return offset
        return self.pauses[int(np.searchsorted(self.pauses, offset))]

    def pause_place(self, rng: Random) -> int:
        """The beginning of any line before which the board may have paused."""
        return self.pause_after(self.line_place(rng))

    def later(self, offset: int, by_ns: int) -> Tape:
        """The board was later by so much from this offset on, and its kernel knows."""
        tail = self.tape.part(offset).moved(by_ns)
        if offset > self.kernel_at:
            tail = tail.with_text(KERNEL_TIME.sub(lambda match: _later(match, by_ns), tail.data))
        return joined(self.tape.part(0, offset).ended(), tail)  # no read waits for what comes after a pause

    def another_kernel(self, tape: Tape, rng: Random) -> Tape:
        """What a kernel prints in another boot: its times are never the same twice."""
        early_us, rate = rng.randrange(1, 500), rng.uniform(-2e-3, 2e-3)

        def other(match: re.Match[bytes]) -> bytes:
            return _later(match, round(rate * _stamp_ns(match)) + early_us * 1000)

        return tape.with_text(KERNEL_TIME.sub(other, tape.data))


def _stamp_ns(match: re.Match[bytes]) -> int:
    return int(match[1]) * NS_PER_S + int(match[2]) * 1000


def _later(match: re.Match[bytes], by_ns: int) -> bytes:
    if _stamp_ns(match) == 0:
        return match[0]
    seconds, micros = divmod(max(0, _stamp_ns(match) + by_ns) // 1000, 1_000_000)
    return b"[%5d.%06d]" % (seconds, micros)


def answer_of(prompt: str, since_ns: int) -> PromptReply:
    """What a board that waits at this prompt prints when it gets a carriage return."""
    return PromptReply(b"\r\n" + prompt.encode(), since_ns)


def good_boot(recording: Recording, board: BoardType, medium: str | None = None) -> GoodBoot:
    """The good boot of a recording.

    Args:
        medium: what it booted from; None: whichever its lines name.

    Raises:
        ConfigurationError: the recording is damaged, has gaps, or its boot gives no number, or one with a doubt.
    """
    found = list(recording.events())
    chunks = [event for event in found if isinstance(event, Chunk)]
    if any(isinstance(event, Gap) for event in found) or not chunks:
        raise ConfigurationError(f"{recording.where}: bytes are missing in it; torture needs a whole boot")
    if medium is not None and medium not in board.media:
        raise ConfigurationError(f"{board.name} has no medium {medium!r}; it has: {', '.join(board.media)}")
    timing = recording.meta.timing
    on_ns = chunks[0].t_ns - timing.bytes_ns(len(chunks[0].data)) - BEFORE_FIRST_BYTE_NS
    power = PowerEdge(on_ns, on_ns)
    prompts = find_moments(found, [pattern for pattern in board.moments if pattern.name in ENDS], timing)
    answer = answer_of(prompts[-1].text, chunks[-1].t_ns) if prompts else None
    for candidate in [medium] if medium else list(board.media):
        result = rewatch(found, board, candidate, power, timing, answer)
        if result.error is None or result.error.failure != "wrong_medium":
            break
    doubts = {flag for sample in result.samples if sample.metric in HEADLINE_NAMES for flag in sample.flags & DOUBTS}
    if result.error is not None or doubts:
        raise ConfigurationError(
            f"{recording.where}: not a good boot of {board.name} from {candidate}: "
            f"{result.error or ', '.join(sorted(doubts))}. Torture needs one that gives a number without a doubt"
        )
    return _marked(found, board, candidate, power, timing, result)


def _marked(
    found: Sequence[Event], board: BoardType, medium: str, power: PowerEdge, timing: LineTiming, result: RewatchResult
) -> GoodBoot:
    boot = next(sample for sample in result.samples if sample.metric in HEADLINE_NAMES)
    names = tuple(pattern.name for pattern in board.markers)
    flow = boot.params.get("flow", NORMAL)
    tape = recorded(found, timing)
    mark = tape.mark.copy()
    prompt = ""
    for moment in reversed(result.moments):  # of each name the first one counts, but of prompts the one of the number
        offset = moment.position - found[0].position
        if moment.name in ENDS and moment.position != boot.log_end:
            continue
        number = names.index(moment.name) + 1
        mark[mark == number] = 0
        mark[offset - 1] = number
        prompt = moment.text if moment.name in ENDS else prompt
    return GoodBoot(board, medium, flow, timing, power, evolve(tape, mark=mark), names, result.samples, prompt)
