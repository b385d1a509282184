"""How busy the host's processors are."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.host.process import CpuTimes, cpu_times


def test_busy_is_what_was_neither_idle_nor_waiting_for_a_disk(tmp_path: Path) -> None:
    stat = tmp_path / "stat"
    stat.write_text("cpu  100 0 50 800 40 5 5 0 70 0\ncpu0 1 2 3 4 5 6 7 8 9 10\n")
    before = cpu_times(stat)
    assert before == CpuTimes(total=1000, idle=840)
    stat.write_text("cpu  130 0 70 820 60 5 15 0 90 0\n")
    after = cpu_times(stat)
    assert after is not None
    assert after.busy_since(before) == pytest.approx(0.6)
    assert before.busy_since(before) is None


def test_idle_time_that_runs_backwards_gives_no_nonsense() -> None:
    """As iowait may: proc_stat(5)."""
    assert CpuTimes(1010, 830).busy_since(CpuTimes(1000, 840)) == 1.0
    assert CpuTimes(1010, 900).busy_since(CpuTimes(1000, 840)) == 0.0


@pytest.mark.parametrize("text", ["", "cpu 1 2\n", "cpu a b c d e f g h\n"])
def test_a_kernel_that_says_nothing_is_no_error(tmp_path: Path, text: str) -> None:
    stat = tmp_path / "stat"
    assert cpu_times(stat) is None
    stat.write_text(text)
    assert cpu_times(stat) is None
