"""Bytes that come sooner than the line can send them tell of clocks that stood still."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from support.console_bench import paced

from lab.console import Chunk, Event, Lateness, LineTiming
from lab.console.moments import missing_ns

MS = 1_000_000
TIMING = LineTiming(speed_bd=115200, adapter_latency_ns=1 * MS, fifo_bytes=62, scheduling_ns=300_000)
TEXT = b"a line of a kernel\r\n" * 3000


def joined(events: Sequence[Event], begin_ns: int, end_ns: int) -> list[Event]:
    """The events of a reader that stood still: what came meanwhile comes at its end, in reads of at most 4096 bytes."""
    waiting = [event for event in events if isinstance(event, Chunk) and begin_ns <= event.t_ns < end_ns]
    data = b"".join(event.data for event in waiting)
    reads = [data[start : start + 4096] for start in range(0, len(data), 4096)]
    late = [Chunk(end_ns + n, waiting[0].position + n * 4096, read) for n, read in enumerate(reads)]
    before = [event for event in events if event.t_ns < begin_ns]
    after = [event for event in events if event.t_ns >= end_ns]
    return [*before, Lateness(end_ns, 0, end_ns - begin_ns), *late, *after]


def without(events: Sequence[Event], begin_ns: int, lost_ns: int) -> list[Event]:
    """The events on clocks that did not count so much time from `begin_ns` on."""
    return [evolve(event, t_ns=event.t_ns - lost_ns) if event.t_ns > begin_ns else event for event in events]


@given(st.integers(0, 3000), st.integers(0, 2000))
def test_a_stall_is_no_missing_time(begin_ms: int, length_ms: int) -> None:
    events = paced(TEXT, TIMING, sizes=(62,))
    begin_ns = events[0].t_ns + begin_ms * MS
    assert missing_ns(events, TIMING) == 0
    assert missing_ns(joined(events, begin_ns, begin_ns + length_ms * MS), TIMING) == 0


@given(st.integers(100, 2500), st.integers(8, 60), st.floats(0.6, 1.0))
def test_a_read_that_waited_longer_than_the_evidence_says_is_no_missing_time(
    begin_ms: int, held_ms: int, seen: float
) -> None:
    events = paced(TEXT, TIMING, sizes=(62,))
    at = next(i for i, event in enumerate(events) if event.t_ns >= events[0].t_ns + begin_ms * MS)
    held, rest = events[at], events[at + 1 :]
    end_ns = held.t_ns + held_ms * MS
    evidence = Lateness(end_ns - MS, 0, round(seen * held_ms * MS))
    # It is handed on alone, and what came meanwhile just behind it.
    behind = joined(rest, held.t_ns, end_ns + MS)
    late = [*events[:at], evidence, evolve(held, t_ns=end_ns), *(e for e in behind if not isinstance(e, Lateness))]
    assert missing_ns(late, TIMING) == 0


@given(st.integers(100, 2500), st.integers(50, 2000))
def test_of_a_pause_while_the_board_talks_nearly_all_is_seen(begin_ms: int, length_ms: int) -> None:
    events = paced(TEXT, TIMING, sizes=(62,))
    begin_ns, lost_ns = events[0].t_ns + begin_ms * MS, length_ms * MS
    stood = joined(events, begin_ns, begin_ns + lost_ns)
    woken = [event for event in stood if not isinstance(event, Lateness)]  # no clock has seen the pause
    assert 0.8 * lost_ns - 20 * MS < missing_ns(without(woken, begin_ns, lost_ns), TIMING) <= lost_ns


def test_a_line_that_is_faster_than_its_speed_is_not_one_whose_clock_stands_still() -> None:
    slow = LineTiming(speed_bd=9600, fifo_bytes=62)
    bursts = [
        evolve(event, t_ns=event.t_ns + event.position // 620 * 100 * MS)
        for event in paced(TEXT, TIMING, sizes=(620,))
    ]
    assert missing_ns(bursts, slow) == 0
    assert missing_ns(bursts[:5], slow) > 0
