"""The evidence of late stamps."""

from __future__ import annotations

import select
import time
from pathlib import Path

import pytest

from lab.host.scheduling import Heartbeat, RunQueue, stood_still_ns

MS = 1_000_000


def test_the_heartbeat_rings_at_its_period_and_knows_how_late_it_was_heard() -> None:
    begin_ns = time.monotonic_ns()
    heartbeat = Heartbeat(period_ns=5 * MS)
    for _ in range(3):
        assert select.select([heartbeat.fd], [], [], 10)[0]
        assert heartbeat.beat() >= 0
    assert time.monotonic_ns() - begin_ns >= 3 * 5 * MS
    heartbeat.close()


def test_a_heartbeat_that_was_missed_counts_from_the_first_one() -> None:
    heartbeat = Heartbeat(period_ns=5 * MS)
    begun_ns = time.monotonic_ns()
    while time.monotonic_ns() - begun_ns < 23 * MS:  # busy, as a process is that does not look at its ports
        pass
    before_ns = time.monotonic_ns()
    assert heartbeat.beat() >= (23 - 5) * MS
    assert select.select([heartbeat.fd], [], [], 10)[0]
    assert heartbeat.beat() <= time.monotonic_ns() - before_ns  # the missed ones are not counted again
    with pytest.raises(BlockingIOError):
        heartbeat.beat()
    heartbeat.close()


def test_the_time_in_the_run_queue_is_counted_between_two_looks(tmp_path: Path) -> None:
    schedstat = tmp_path / "schedstat"
    schedstat.write_text("1000 500 7\n")
    queue = RunQueue(schedstat)
    schedstat.write_text("2000 800 9\n")
    assert queue.take_wait_ns() == 300
    assert queue.take_wait_ns() == 0


def test_a_kernel_without_the_statistics_gives_no_evidence(tmp_path: Path) -> None:
    assert RunQueue(tmp_path / "missing").take_wait_ns() == 0
    assert RunQueue().take_wait_ns() >= 0


@pytest.mark.parametrize(
    ("slept_ms", "patience_s", "beat_ms", "still_ms"),
    [
        (50, None, 0, 0),  # nothing came, and the heartbeat woke it in time
        (50, None, 3, 0),  # a busy host: the run queue tells how long it waited
        (340, None, 300, 340),  # stopped 0 to 40 ms after it had fallen asleep
        (310, 0.01, 260, 310),
        (38, 0.01, 0, 38),  # between two heartbeats
        (18, 0.01, 0, 14),  # it overslept by 7 ms, and may have been stopped as long before
        (2, 0, 40, 2),  # it was not asleep when it was stopped: the heartbeat itself says how late it was
    ],
)
def test_who_was_stopped_in_its_sleep_was_stopped_as_soon_as_it_slept(
    slept_ms: int, patience_s: float | None, beat_ms: int, still_ms: int
) -> None:
    assert stood_still_ns(slept_ms * MS, patience_s, beat_ms * MS) == still_ms * MS
