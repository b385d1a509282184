"""Lines with the time of their first byte."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from support.console_bench import paced

from lab.console import Chunk, Gap, LineTiming, RecordKind
from lab.console.moments import LIMIT_BYTES, StampedLine, stamp_lines

TIMING = LineTiming(speed_bd=115200)
LINES = st.lists(st.sampled_from(b"ab\n"), max_size=300).map(bytes)


@given(st.binary(max_size=300) | LINES, st.lists(st.integers(1, 50), min_size=1, max_size=5))
def test_lines_are_the_bytes_again_each_stamped_at_its_first_one(data: bytes, sizes: list[int]) -> None:
    lines = [line for line in stamp_lines(paced(data, TIMING, sizes), TIMING) if isinstance(line, StampedLine)]
    assert b"".join(line.data for line in lines) == data
    assert all(line.data.find(b"\n") in {-1, len(line.data) - 1} for line in lines)
    assert len(lines) == data.count(b"\n") + (not data.endswith(b"\n") and data != b"")
    for line in lines:
        truth_ns = 10**12 + TIMING.bytes_ns(line.position + 1)
        assert abs(line.t_ns - truth_ns) <= 2


def test_a_console_without_newlines_is_cut_into_lines() -> None:
    lines = list(stamp_lines([Chunk(1, 0, b"x" * (2 * LIMIT_BYTES + 10))], TIMING))
    assert [len(line.data) for line in lines if isinstance(line, StampedLine)] == [LIMIT_BYTES, LIMIT_BYTES, 10]


def test_a_gap_stands_between_the_lines_that_it_cut() -> None:
    gap = Gap(2, 3, RecordKind.LOST, 5)
    lines = list(stamp_lines([Chunk(1, 0, b"log"), gap, Chunk(3, 3, b"in\n")], TIMING))
    assert lines == [StampedLine(lines[0].t_ns, 0, b"log"), gap, StampedLine(lines[2].t_ns, 3, b"in\n")]
