"""The evidence of late stamps."""

from __future__ import annotations

import select
import time
from pathlib import Path

import pytest

from lab.console.scheduling import Heartbeat, RunQueue

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
    assert queue.waited_ns() == 300
    assert queue.waited_ns() == 0


def test_a_kernel_without_the_statistics_gives_no_evidence(tmp_path: Path) -> None:
    assert RunQueue(tmp_path / "missing").waited_ns() == 0
    assert RunQueue().waited_ns() >= 0
