"""How sure a moment is: the parts of its ±."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.boards import MomentPattern
from lab.console import Chunk, Event, Lateness, LineTiming, find_moments

TIMING = LineTiming(speed_bd=115200, adapter_latency_ns=1_000_000, fifo_bytes=16, scheduling_ns=200_000)


def uncertainty_ns(*events: Event, timing: LineTiming = TIMING, stage: str = "Boot") -> int:
    (moment,) = find_moments(events, [MomentPattern(name="x", pattern="login: ", stage=stage)], timing)
    return moment.uncertainty_ns


LOGIN = Chunk(10**12, 0, b"login: ")
USUAL_NS = TIMING.adapter_latency_ns + 4 * 86_805 + 86_805 + TIMING.scheduling_ns


def test_the_uncertainty_is_the_sum_of_its_parts() -> None:
    assert uncertainty_ns(LOGIN) == pytest.approx(USUAL_NS, abs=4)
    assert uncertainty_ns(LOGIN, timing=LineTiming(115200, 0, 1, 1_000_000)) == 1_086_805


@pytest.mark.parametrize(("before_ns", "counts"), [(0, True), (990_000_000, True), (1_010_000_000, False), (-1, True)])
def test_evidence_of_lateness_counts_for_a_second(before_ns: int, counts: bool) -> None:
    late = Lateness(LOGIN.t_ns - before_ns, 0, 7_000_000)
    expected = USUAL_NS + (7_000_000 if counts else 0)
    assert uncertainty_ns(late, LOGIN) == pytest.approx(expected, abs=4)


def test_evidence_of_lateness_is_bounded_by_the_previous_read() -> None:
    late = Lateness(LOGIN.t_ns, 0, 7_000_000)
    previous = Chunk(LOGIN.t_ns - 3_000_000, -1, b"x")
    assert uncertainty_ns(previous, late, LOGIN) == pytest.approx(USUAL_NS + 3_000_000, abs=4)


def test_a_read_that_brings_more_than_the_line_could_is_less_sure() -> None:
    previous = Chunk(LOGIN.t_ns - 1_000_000, -1, b"\n")
    much = Chunk(LOGIN.t_ns, 0, b"x" * 993 + b"login: ")
    surplus_ns = TIMING.bytes_ns(1000) - 1_000_000 - TIMING.adapter_latency_ns - TIMING.bytes_ns(16)
    assert uncertainty_ns(previous, much) == pytest.approx(USUAL_NS + surplus_ns, abs=4)


def test_a_read_of_more_than_an_adapter_hands_on_at_once_was_held_up_and_may_have_waited_since_the_one_before() -> (
    None
):
    for count, held in ((76, True), (75, False)):  # a USB packet, and what comes in the latency of a millisecond
        previous = Chunk(LOGIN.t_ns - 20_000_000, -1, b"\n")
        much = Chunk(LOGIN.t_ns, 0, b"x" * (count - 7) + b"login: ")
        waited_ns = 20_000_000 + TIMING.hold_ns - TIMING.bytes_ns(count)
        assert uncertainty_ns(previous, much) == pytest.approx(USUAL_NS + (waited_ns if held else 0), abs=4)


def test_evidence_of_lateness_counts_no_further_than_the_line_was_busy_with_these_bytes() -> None:
    late = Lateness(LOGIN.t_ns, 0, 7_000_000)
    previous = Chunk(LOGIN.t_ns - 3_000_000, -1, b"x")
    much = Chunk(LOGIN.t_ns, 0, b"x" * 33 + b"login: ")
    waited_ns = 3_000_000 + TIMING.hold_ns - TIMING.bytes_ns(40)
    assert uncertainty_ns(previous, late, much) == pytest.approx(USUAL_NS + waited_ns, abs=4)


@given(st.integers(2, 22), st.integers(5_000_000, 3 * 10**9))
def test_a_marker_that_later_bytes_complete_is_as_unsure_as_the_pause_is_long(torn: int, pause_ns: int) -> None:
    line = b"switch to partitions #0, OK\r\n"
    begun = Chunk(10**9, 0, line[:torn])
    later = Chunk(begun.t_ns + pause_ns, torn, line[torn:23])
    pattern = MomentPattern(name="x", pattern=r"switch to partitions #\d", stage="Boot")
    (moment,) = find_moments([begun, later], [pattern], TIMING)
    due_ns = begun.t_ns + TIMING.bytes_ns(23 - torn)
    assert moment.t_ns - moment.uncertainty_ns <= due_ns <= later.t_ns == moment.t_ns
    assert moment.uncertainty_ns <= pause_ns + USUAL_NS


@pytest.mark.parametrize("pause_ns", [5_000_000, 10**9])
def test_a_pause_before_or_behind_a_marker_says_nothing_of_it(pause_ns: int) -> None:
    before = Chunk(LOGIN.t_ns - pause_ns, -9, b"am62xx-evm ")
    assert uncertainty_ns(before, Chunk(LOGIN.t_ns, 2, b"login: ")) == pytest.approx(USUAL_NS, abs=4)
    assert uncertainty_ns(LOGIN, Chunk(LOGIN.t_ns + pause_ns, 7, b"root")) == pytest.approx(USUAL_NS, abs=4)


@pytest.mark.parametrize("before", [b"\r", b"\x1b[2J\x1b[H", b"\x1b[0m\r\r"])
def test_a_pause_behind_what_a_lines_start_may_have_tears_no_marker(before: bytes) -> None:
    """A board that ends its lines with \\n\\r prints the \\r with the line before."""
    pattern = MomentPattern(name="login", pattern="login: ", stage="Boot", line_start=True)
    begun = Chunk(10**9, 0, b"\n" + before)
    later = Chunk(2 * 10**9, 1 + len(before), b"login: ")
    (moment,) = find_moments([begun, later], [pattern], TIMING)
    assert moment.uncertainty_ns == pytest.approx(USUAL_NS, abs=4)


def test_a_text_that_ends_no_stage_may_have_a_pause_of_its_own() -> None:
    later = Chunk(LOGIN.t_ns + 10**9, 3, LOGIN.data[3:])
    assert uncertainty_ns(Chunk(LOGIN.t_ns, 0, LOGIN.data[:3]), later, stage="") == pytest.approx(USUAL_NS, abs=4)
    assert uncertainty_ns(Chunk(LOGIN.t_ns, 0, LOGIN.data[:3]), later) > 990_000_000


def test_a_marker_that_comes_in_pieces_at_the_lines_pace_is_as_sure_as_any() -> None:
    pieces = [Chunk(LOGIN.t_ns + at * TIMING.bytes_ns(1), at, LOGIN.data[at : at + 1]) for at in range(7)]
    assert uncertainty_ns(*pieces) == pytest.approx(USUAL_NS, abs=4)
