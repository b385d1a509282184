"""The line model over times that the test chooses; no real clock."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from lab.virtual.line import SLIP_BYTES, UartChannel

SPEED_BD = 10_000_000  # a byte takes exactly 1000 ns
BYTE_NS = 1000

pushes = st.lists(st.tuples(st.integers(0, 60_000), st.binary(min_size=1, max_size=40)), min_size=1, max_size=12)


def drive(line: UartChannel, pushes: list[tuple[int, bytes]]) -> list[tuple[int, int, bytes]]:
    """Push at the given distances and take exactly at each deadline: (taken at, end, data) of all that came out."""
    out: list[tuple[int, int, bytes]] = []
    now_ns = 0

    def deliver_until(end_ns: int | None) -> None:
        while (due_ns := line.deadline_ns()) is not None and (end_ns is None or due_ns <= end_ns):
            out.extend((due_ns, sent.end_ns, sent.data) for sent in line.take(due_ns))

    for distance_ns, data in pushes:
        now_ns += distance_ns
        deliver_until(now_ns)
        line.push(data, now_ns)
    deliver_until(None)
    return out


def expected_ends(pushes: list[tuple[int, bytes]]) -> list[int]:
    """When each byte leaves a transmitter that is never faster than its line."""
    ends: list[int] = []
    now_ns = end_ns = 0
    for distance_ns, data in pushes:
        now_ns += distance_ns
        for _ in data:
            end_ns = max(end_ns, now_ns) + BYTE_NS
            ends.append(end_ns)
    return ends


@given(pushes, st.integers(1, 64), st.sampled_from([0, 1_000, 16_000, 100_000]))
def test_every_byte_leaves_in_order_one_byte_time_after_the_one_before(
    pushes: list[tuple[int, bytes]], fifo_bytes: int, latency_ns: int
) -> None:
    out = drive(UartChannel(SPEED_BD, fifo_bytes, latency_ns), pushes)
    assert b"".join(data for _, _, data in out) == b"".join(data for _, data in pushes)
    ends = [end_ns - BYTE_NS * behind for _, end_ns, data in out for behind in reversed(range(len(data)))]
    assert ends == expected_ends(pushes)


@given(pushes, st.integers(1, 64), st.sampled_from([0, 1_000, 16_000, 100_000]))
@example([(1, b"x"), (0, b"x")], 2, 1_000)  # the second byte ends 1 ns after a tick
def test_the_adapter_never_holds_more_than_its_fifo_nor_longer_than_its_latency(
    pushes: list[tuple[int, bytes]], fifo_bytes: int, latency_ns: int
) -> None:
    together: dict[int, int] = {}
    for taken_ns, end_ns, data in drive(UartChannel(SPEED_BD, fifo_bytes, latency_ns), pushes):
        together[taken_ns] = together.get(taken_ns, 0) + len(data)
        assert end_ns <= taken_ns
        if latency_ns == 0:
            assert end_ns == taken_ns
        else:
            assert taken_ns - (end_ns - BYTE_NS * (len(data) - 1)) <= latency_ns
    assert max(together.values()) <= fifo_bytes


def test_without_a_latency_timer_a_short_burst_comes_when_the_transmitter_goes_idle() -> None:
    line = UartChannel(SPEED_BD, fifo_bytes=16)
    line.push(b"login: ", 500)
    assert line.deadline_ns() == 500 + 7 * BYTE_NS


def test_with_a_latency_timer_a_short_burst_waits_for_its_tick() -> None:
    line = UartChannel(SPEED_BD, fifo_bytes=16, latency_ns=50_000)
    line.push(b"login: ", 60_000)
    assert line.deadline_ns() == 100_000
    (sent,) = line.take(100_000)
    assert sent.end_ns == 60_000 + 7 * BYTE_NS


def test_nothing_is_handed_on_before_the_deadline() -> None:
    line = UartChannel(SPEED_BD)
    line.push(b"x", 0)
    assert line.take(BYTE_NS - 1) == []
    assert line.queued == 1


def test_a_slightly_late_hand_over_moves_only_what_it_hands_on() -> None:
    line = UartChannel(SPEED_BD, fifo_bytes=4)
    line.push(b"abcdefgh", 0)
    late_ns = SLIP_BYTES * BYTE_NS
    assert line.take(4 * BYTE_NS + late_ns)[0].end_ns == 4 * BYTE_NS + late_ns
    assert line.deadline_ns() == 8 * BYTE_NS


def test_after_a_stall_the_line_goes_on_at_its_own_speed_instead_of_catching_up() -> None:
    line = UartChannel(SPEED_BD, fifo_bytes=4)
    line.push(b"abcdefghijkl", 0)
    assert line.take(54 * BYTE_NS)[0].end_ns == 54 * BYTE_NS
    assert line.deadline_ns() == 58 * BYTE_NS
    line.push(b"m", 58 * BYTE_NS)
    line.take(58 * BYTE_NS)
    line.take(62 * BYTE_NS)
    assert line.deadline_ns() == 63 * BYTE_NS


def test_a_burst_behind_a_stalled_one_does_not_overtake_it() -> None:
    line = UartChannel(SPEED_BD, fifo_bytes=4)
    line.push(b"abc", 0)
    line.push(b"de", 10 * BYTE_NS)  # the line was idle; the hand-over of "abc" is overdue
    assert line.take(40 * BYTE_NS)[0].end_ns == 40 * BYTE_NS
    assert line.deadline_ns() == 42 * BYTE_NS


def test_power_off_keeps_only_what_had_left_the_uart() -> None:
    line = UartChannel(SPEED_BD, fifo_bytes=16)
    line.push(b"abcdefgh", 0)
    assert line.discard(3 * BYTE_NS) == 5
    assert [sent.data for sent in line.take(3 * BYTE_NS)] == [b"abc"]
    assert line.deadline_ns() is None
    line.push(b"new", 4 * BYTE_NS)
    assert line.deadline_ns() == 7 * BYTE_NS


def test_the_transmitter_is_empty_once_its_last_byte_has_left_whether_or_not_it_was_handed_on() -> None:
    line = UartChannel(SPEED_BD, fifo_bytes=16, latency_ns=50_000)
    line.push(b"abcdefgh", 1_000)
    assert [line.unsent(now_ns) for now_ns in (1_000, 1_001, 4_000, 8_999, 9_000, 20_000)] == [8, 8, 5, 1, 0, 0]
    assert line.queued == 8
