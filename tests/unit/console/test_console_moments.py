"""Moments: the same whatever the reads were, stamped never too early, and honest about how sure they are."""

from __future__ import annotations

import bisect
import itertools
import re

import pytest
from attrs import evolve
from hypothesis import example, given
from hypothesis import strategies as st
from support.console_bench import BOOT, BOOT_MOMENTS, paced

from lab import boards
from lab.boards import MomentPattern
from lab.console import (
    Chunk,
    Event,
    Gap,
    Lateness,
    LineTiming,
    Moment,
    MomentFinder,
    Recording,
    RecordingMeta,
    RecordKind,
    Suspended,
    encode,
    find_moments,
    interval,
)
from lab.console.moments import KEPT_BYTES, WINDOW_BYTES, LineMatcher, feed_watch
from lab.errors import ConfigurationError

TIMING = LineTiming(speed_bd=115200, adapter_latency_ns=1_000_000, fifo_bytes=16, scheduling_ns=200_000)
BYTE_NS = TIMING.bytes_ns(1)
QEMU = boards.load("qemu-virt")

PATTERNS = [
    r"login: ",
    r"a+b",
    r"\d+",
    r"^ab",
    r"(?<!x)ab",
    r"ab$",
    r"\bab\b",
    r"a(?!b)",
    r"[$]b|a.*b",
    r"x(?=a)",
    r"(?:a|ab)c",
]


def finder(*patterns: str, timing: LineTiming = TIMING) -> MomentFinder:
    return MomentFinder([MomentPattern(name=pattern, pattern=pattern) for pattern in patterns], timing)


def positions(events: list[Event], *patterns: str) -> list[tuple[str, int]]:
    named = [MomentPattern(name=pattern, pattern=pattern) for pattern in patterns]
    return [(moment.name, moment.position) for moment in find_moments(events, named, TIMING)]


def by_definition(data: bytes, *patterns: str) -> list[tuple[str, int]]:
    """The smallest end of each pattern in each line: the sentence of the documentation, tried one by one."""
    found = []
    start = 0
    for line in data.split(b"\n"):
        ends = []
        for pattern in patterns:
            compiled = re.compile(pattern.encode())
            end = next((end for end in range(1, len(line) + 1) if compiled.search(line[:end])), None)
            if end is not None:
                ends.append((pattern, start + end))
        found += sorted(ends, key=lambda each: each[1])
        start += len(line) + 1
    return found


def cut(data: bytes, cuts: list[int]) -> list[Event]:
    """The bytes in reads that end at these places."""
    ends = sorted({0, len(data), *(each % (len(data) + 1) for each in cuts)})
    pairs = itertools.pairwise(ends)
    return [Chunk(10**12 + TIMING.bytes_ns(end), start, data[start:end]) for start, end in pairs]


text = st.lists(st.sampled_from(list(b"aabbcx$1 \n\r")), max_size=80).map(bytes)
cuts = st.lists(st.integers(0, 10**6), max_size=30)


@given(text, cuts)
@example(b"foo ab\nxab\nabc\n", [5, 6])
def test_where_moments_are_depends_on_the_bytes_and_not_on_the_reads(data: bytes, where: list[int]) -> None:
    assert positions(cut(data, where), *PATTERNS) == by_definition(data, *PATTERNS)


@given(cuts)
def test_a_boot_has_the_same_moments_in_any_reads(where: list[int]) -> None:
    moments = find_moments(cut(BOOT, where), QEMU.moments, TIMING)
    once = find_moments(cut(BOOT, []), QEMU.moments, TIMING)
    assert [(moment.name, moment.position, moment.text) for moment in moments] == [
        (moment.name, moment.position, moment.text) for moment in once
    ]
    assert [moment.name for moment in moments] == BOOT_MOMENTS


long_lines = st.lists(
    st.tuples(st.sampled_from([b"y", b"\x00", b"ab", b"login: ", b"\xff1", b"\n"]), st.integers(1, 3000)),
    min_size=1,
    max_size=12,
).map(lambda parts: b"".join(part * count if part != b"login: " else part for part, count in parts))


@given(long_lines, cuts)
@example(b"y" * (WINDOW_BYTES - 3) + b"login: ", [WINDOW_BYTES])
@example(b"y" * (WINDOW_BYTES - KEPT_BYTES) + b"yab" + b"z" * 2 * WINDOW_BYTES, [WINDOW_BYTES, WINDOW_BYTES + 1])
@example(b"y" * (WINDOW_BYTES - 7) + b"login: " + b"z", [WINDOW_BYTES - 1])
def test_lines_longer_than_the_window_match_the_same_in_any_reads(data: bytes, where: list[int]) -> None:
    patterns = ("login: ", r"(?<!y)ab", r"(?<!yy)ab", r"^ab", r"1$", r"ab.*1")
    assert positions(cut(data, where), *patterns) == positions(cut(data, []), *patterns)


@pytest.mark.parametrize("before", [0, 1, 1000, WINDOW_BYTES - 7, WINDOW_BYTES - 3, WINDOW_BYTES, 10 * WINDOW_BYTES])
def test_a_marker_behind_garbage_without_newline_is_found(before: int) -> None:
    data = b"\x00" * before + b"U-Boot 2023.01" + b"\x00" * WINDOW_BYTES
    assert positions(paced(data, TIMING), r"U-Boot \d+") == [(r"U-Boot \d+", before + 8)]


def test_a_long_line_does_not_begin_anew_where_its_window_does() -> None:
    assert positions(paced(b"b" * 3 * WINDOW_BYTES, TIMING), "^b{5}") == [("^b{5}", 5)]
    assert positions(paced(b"a" + b"b" * 3 * WINDOW_BYTES, TIMING), "^b") == []
    behind = 2 * WINDOW_BYTES + len("\nlogin")
    assert positions(paced(b"b" * 2 * WINDOW_BYTES + b"\nlogin: ", TIMING), "^login") == [("^login", behind)]
    assert KEPT_BYTES < WINDOW_BYTES


class CountingPattern:
    """A pattern that never matches and counts the bytes that it was made to look at."""

    def __init__(self, pattern: bytes) -> None:
        self.pattern = pattern
        self.looked_at = 0

    def search(self, line: bytes, start: int = 0, end: int | None = None) -> None:
        self.looked_at += (len(line) if end is None else end) - start


@pytest.mark.parametrize(("pattern", "per_byte"), [(b"login: ", WINDOW_BYTES / 16 + 1), (b"login: $", WINDOW_BYTES)])
def test_megabytes_without_a_newline_cost_work_in_proportion(pattern: bytes, per_byte: float) -> None:
    looked_at = []
    for reads in (2000, 8000):
        spy = CountingPattern(pattern)
        matcher = LineMatcher([spy])
        for _ in range(reads):
            assert list(matcher.feed(b"\x00\xffgarbage of 16"[:16])) == []
        looked_at.append(spy.looked_at / reads / 16)
    assert looked_at[1] == pytest.approx(looked_at[0], rel=0.1)
    assert looked_at[1] <= per_byte


def test_a_stamp_is_put_back_by_the_bytes_behind_the_marker() -> None:
    (moment,) = finder("login: ").feed(Chunk(10**9, 100, b"xx login: and more"))
    assert moment.t_ns == 10**9 - TIMING.bytes_ns(len(b"and more"))
    assert moment.position == 110
    assert moment.text == "xx login: "


def test_a_stamp_is_not_put_back_to_where_the_previous_read_would_have_had_it() -> None:
    found = finder("login: ")
    found.feed(Chunk(10**9, 0, b"a"))
    (moment,) = found.feed(Chunk(10**9 + 1000, 1, b"login: " + b"x" * 1000))
    assert moment.t_ns == 10**9 - TIMING.adapter_latency_ns - TIMING.bytes_ns(16)


class Heard:
    """A watch that writes down what it is fed, in its order."""

    def __init__(self) -> None:
        self.fed: list[str | int] = []

    def feed(self, data: bytes, t_ns: int) -> None:
        assert data
        assert t_ns == 10**9
        self.fed += data.decode()

    def moment(self, moment: Moment) -> None:
        self.fed.append(f"<{moment.name}>")

    def suspended(self, missing_ns: int) -> None:
        self.fed.append(missing_ns)


@given(st.lists(st.integers(0, 22)).map(sorted))
@example([])
def test_a_watch_gets_each_moment_just_behind_its_last_byte_however_the_bytes_were_read(cuts: list[int]) -> None:
    stream, watch = b"going 0\nback 0\nlogin: x", Heard()
    finders = [finder(r"back \d", "login: "), finder(r"^l", r"going \d")]
    for begin, end in itertools.pairwise([0, *cuts, len(stream)]):
        if end > begin:
            feed_watch(watch, Chunk(10**9, begin, stream[begin:end]), finders)
    feed_watch(watch, Suspended(10**9, len(stream), 7), finders)
    assert watch.fed[-1] == 7
    said = "".join(str(each) for each in watch.fed[:-1])
    assert said == r"going 0<going \d>" "\n" r"back 0<back \d>" "\nl<^l>ogin: <login: >x"


def test_moments_do_not_go_back_in_time() -> None:
    found = finder("login: ", "U-Boot")
    (first,) = found.feed(Chunk(10**9, 0, b"U-Boot"))
    (second,) = found.feed(Chunk(10**9 + 1_000_000, 6, b"login: " + b"x" * 16))
    assert second.t_ns == first.t_ns
    moved_ns = TIMING.bytes_ns(16) - 1_000_000
    assert second.uncertainty_ns == pytest.approx(first.uncertainty_ns + moved_ns, abs=4)


def uart(data: bytes, fifo_bytes: int) -> tuple[list[int], list[int]]:
    """For each byte, when it left the line and when the FIFO handed it over: full, or after four silent characters.

    The board sends bursts of 97 bytes with pauses of 30 ms.
    """
    left_ns: list[int] = []
    ready_ns: list[int] = []
    t_ns = 10**12
    for at in range(len(data)):
        t_ns += BYTE_NS + 1
        left_ns.append(t_ns)
        waiting = at + 1 - len(ready_ns)
        if waiting == fifo_bytes:
            ready_ns += [t_ns] * waiting
        elif (at + 1) % 97 == 0 or at + 1 == len(data):
            ready_ns += [t_ns + 4 * BYTE_NS] * waiting
        if (at + 1) % 97 == 0:
            t_ns += 30_000_000
    return left_ns, ready_ns


@given(st.lists(st.integers(0, 2 * 10**7), min_size=1, max_size=20), st.integers(1, 64))
def test_on_a_real_line_the_true_instant_lies_within_the_uncertainty(delays: list[int], fifo_bytes: int) -> None:
    """The reader wakes late, takes all that is there, and leaves evidence of its delay."""
    timing = evolve(TIMING, adapter_latency_ns=0, fifo_bytes=fifo_bytes)
    left_ns, ready_ns = uart(BOOT, fifo_bytes)
    events: list[Event] = []
    at = 0
    while at < len(BOOT):
        delay_ns = delays[len(events) % len(delays)]
        read_ns = ready_ns[at] + delay_ns
        end = bisect.bisect_right(ready_ns, read_ns)
        if delay_ns > timing.scheduling_ns:
            events.append(Lateness(read_ns, at, delay_ns))
        events.append(Chunk(read_ns, at, BOOT[at:end]))
        at = end
    moments = find_moments(events, QEMU.moments, timing)
    assert len(moments) == len(BOOT_MOMENTS)
    for moment in moments:
        assert 0 <= moment.t_ns - left_ns[moment.position - 1] <= moment.uncertainty_ns


def test_a_gap_cuts_the_line_and_what_is_known_of_the_read_before() -> None:
    events: list[Event] = [Chunk(1, 0, b"log"), Gap(2, 3, RecordKind.LOST, 5), Chunk(10**9, 3, b"in: ")]
    assert positions(events, "login: ") == []
    jump: list[Event] = [Chunk(1, 0, b"log"), Chunk(10**9, 100, b"in: ")]
    assert positions(jump, "login: ") == []


def test_a_recording_gives_the_same_moments_as_the_live_stream() -> None:
    events = [Lateness(10**12, 0, 900_000), *paced(BOOT, TIMING, (16, 3, 1, 40))]
    live = MomentFinder(QEMU.moments, TIMING)
    moments = [moment for event in events for moment in live.feed(event)]
    meta = RecordingMeta("uart0", "/dev/ttyUSB0", 115200, 1_000_000, 16, 200_000)
    recording = Recording.decode(*encode(meta, events))
    assert find_moments(recording.events(), QEMU.moments, recording.meta.timing) == moments
    assert len(moments) == len(BOOT_MOMENTS)


def test_a_board_type_with_two_banners_gets_both() -> None:
    am62 = boards.load("am62xx_sk")
    log = (
        b"\nU-Boot SPL 2021.01 (Feb 23)\nNOTICE:  BL31: v2.7\nU-Boot SPL 2021.01 (Feb 22)\n\nU-Boot 2021.01 (Feb 22)\n"
    )
    names = [moment.name for moment in find_moments(paced(log, TIMING), am62.moments, TIMING)]
    assert names == ["spl", "tfa", "spl", "uboot"]


def test_an_interval_is_as_unsure_as_its_worse_end() -> None:
    first = Moment("a", 1_000_000_000, 200_000, 0, "")
    last = Moment("b", 3_500_000_000, 900_000, 0, "")
    seconds, uncertainty_s = interval(first, last)
    assert (seconds, uncertainty_s) == (2.5, 0.0009)


def test_a_pattern_that_fits_no_bytes_is_refused_by_its_name() -> None:
    with pytest.raises(ConfigurationError, match=r"moment 'x'.*regular"):
        MomentFinder([MomentPattern(name="x", pattern=r"\u00e4")], TIMING)
