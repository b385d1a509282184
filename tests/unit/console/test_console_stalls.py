"""Stamps of a reader that stood still: each byte came within the ± of its stamp, whatever the buffers brought afterwards."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from lab.boards import MomentPattern
from lab.console import Chunk, Event, Lateness, LineTiming, find_moments
from lab.console.delays import DelayTracker
from lab.host.clock import WALL_SLEW_LIMIT, WALL_TOLERANCE_NS, ClockMonitor

S, MS = 1_000_000_000, 1_000_000
TIMING = LineTiming(speed_bd=115200, adapter_latency_ns=1_000_000, fifo_bytes=1, scheduling_ns=200_000)
BYTE_NS = TIMING.bytes_ns(1)
READ_BYTES = 4095  # what n_tty keeps for one read; the rest waits behind it


def arrivals(bursts: list[tuple[int, int]]) -> list[int]:
    """When each byte came: bursts of (pause before it in ms, bytes), at the line's speed."""
    t_ns, times = 10 * S, []
    for pause_ms, count in bursts:
        t_ns += pause_ms * MS
        for _ in range(count):
            t_ns += BYTE_NS
            times.append(t_ns)
    return times


def read(times: list[int], stalls: list[tuple[int, int]]) -> list[Event]:
    """What a server records that reads every millisecond, but for its stalls (begin and length in ms)."""
    events: list[Event] = []
    spans = [(10 * S + at * MS, 10 * S + (at + length) * MS) for at, length in stalls]
    at, now_ns = 0, 10 * S
    while at < len(times):
        now_ns += MS
        held = [end for start, end in spans if start <= now_ns < end]
        if held:
            before_ns, now_ns = now_ns, max(held)
            events.append(Lateness(now_ns, at, now_ns - before_ns + MS))
        while at < len(times) and times[at] <= now_ns:
            end = at
            while end < len(times) and end - at < READ_BYTES and times[end] <= now_ns:
                end += 1
            events.append(Chunk(now_ns, at, b"x" * (end - at)))
            at = end
            now_ns += 20_000  # one round of the loop
    return events


bursts = st.lists(st.tuples(st.integers(0, 400), st.integers(1, 3000)), min_size=1, max_size=12)
stalls = st.lists(st.tuples(st.integers(0, 4000), st.integers(30, 5000)), max_size=4)


@given(bursts, stalls)
@example([(0, 40_000)], [(1000, 3000)])  # 3 s of a line that never pauses: several full reads
@example([(0, 9000), (50, 10), (5, 7)], [(100, 600)])
@example([(0, 20_000), (1, 3), (1, 3), (1, 3)], [(100, 400), (520, 400)])
def test_every_byte_came_within_the_bound_of_its_read(
    lines: list[tuple[int, int]], stood: list[tuple[int, int]]
) -> None:
    times = arrivals(lines)
    events = read(times, stood)
    tracker = DelayTracker(TIMING)
    for event in events:
        if isinstance(event, Lateness):
            tracker.take_evidence(event)
        elif isinstance(event, Chunk):
            delay = tracker.delay(event)
            waited_ns = event.t_ns - times[event.end - 1]
            assert waited_ns <= delay.late_ns + delay.backlog_ns + TIMING.delivery_ns + TIMING.scheduling_ns


def test_the_read_behind_a_full_one_is_as_late_as_the_stall_was() -> None:
    times = arrivals([(0, 11_520 * 5)])
    events = read(times, [(1000, 3000)])
    marker = next(e for e in events if isinstance(e, Chunk) and len(e.data) == READ_BYTES).end + 10
    named = [
        Chunk(e.t_ns, e.position, e.data[: marker - e.position] + b"login" + e.data[marker - e.position + 5 :])
        if isinstance(e, Chunk) and e.position <= marker < e.end
        else e
        for e in events
    ]
    (moment,) = find_moments(named, [MomentPattern(name="x", pattern="login")], TIMING)
    late_ns = moment.t_ns - times[marker + 4]
    assert late_ns > 2 * S
    assert late_ns <= moment.uncertainty_ns < 3 * S


def test_once_reads_come_at_the_lines_pace_the_stall_is_over() -> None:
    times = arrivals([(0, 11_520 * 5)])
    tracker, last = DelayTracker(TIMING), 0
    for event in read(times, [(1000, 500)]):
        if isinstance(event, Lateness):
            tracker.take_evidence(event)
        elif isinstance(event, Chunk):
            last = tracker.delay(event).late_ns
            if event.t_ns > 11_700 * MS:  # the stall ended at 11.5 s
                assert last <= 2 * MS
    assert last == 0


def test_a_first_read_that_was_held_up_is_at_least_as_late_as_its_bytes_took() -> None:
    delay = DelayTracker(TIMING).delay(Chunk(10 * S, 0, b"x" * 2000))
    assert delay.late_ns == TIMING.bytes_ns(2000)
    assert DelayTracker(TIMING).delay(Chunk(10 * S, 0, b"x" * 32)).late_ns == 0


class Clocks:
    """Two clocks that go together, until one is stopped."""

    name = "test"

    def __init__(self) -> None:
        self.raw_ns = self.other_ns = 5 * S

    def now_ns(self) -> int:
        return self.raw_ns

    def other(self) -> int:
        return self.other_ns

    def run(self, ns: int, *, other_ns: int | None = None) -> None:
        self.raw_ns += ns
        self.other_ns += ns if other_ns is None else other_ns


@given(st.lists(st.integers(1, 2 * S), max_size=50), st.sampled_from([-500, 0, 500]))
def test_slewing_is_no_suspend(steps: list[int], ppm: int) -> None:
    clocks = Clocks()
    monitor = ClockMonitor(clocks, clocks.other)
    for step in steps:
        clocks.run(step, other_ns=step + step * ppm // 1_000_000)
        assert monitor.missing_ns() == 0


def test_a_suspend_is_as_long_as_the_other_clock_says() -> None:
    clocks = Clocks()
    monitor = ClockMonitor(clocks, clocks.other)
    clocks.run(50 * MS)
    clocks.run(10 * MS, other_ns=4 * S + 10 * MS)
    assert monitor.missing_ns() == 4 * S
    assert monitor.missing_ns() == 0


def test_a_clock_that_stands_still_is_noticed_however_often_it_is_looked_at() -> None:
    clocks = Clocks()
    monitor = ClockMonitor(clocks, clocks.other)
    missing = 0
    for _ in range(2000):
        clocks.run(0, other_ns=MS // 2)
        missing += monitor.missing_ns()
    assert abs(missing - S) < 3 * MS


def test_a_clock_that_jumps_ahead_is_noticed() -> None:
    clocks = Clocks()
    monitor = ClockMonitor(clocks, clocks.other)
    clocks.run(3 * S, other_ns=MS)
    assert monitor.missing_ns() == -3 * S + MS


@given(st.lists(st.integers(1, 200 * MS), max_size=50), st.sampled_from([-83_333, -500, 0, 500, 83_333]))
def test_a_wall_clock_that_is_slewed_is_no_pause(steps: list[int], ppm: int) -> None:
    clocks = Clocks()
    monitor = ClockMonitor(clocks, clocks.other, WALL_TOLERANCE_NS, WALL_SLEW_LIMIT, compared_ns=0)
    for step in steps:
        clocks.run(step, other_ns=step + step * ppm // 1_000_000)
        assert monitor.missing_ns() == 0


def test_a_wall_clock_that_is_set_is_noticed_at_the_next_look() -> None:
    clocks = Clocks()
    monitor = ClockMonitor(clocks, clocks.other, WALL_TOLERANCE_NS, WALL_SLEW_LIMIT, compared_ns=0)
    clocks.run(50 * MS)
    assert monitor.missing_ns() == 0
    clocks.run(50 * MS, other_ns=150 * MS)
    assert monitor.missing_ns() == 100 * MS
    clocks.run(50 * MS)
    assert monitor.missing_ns() == 0
