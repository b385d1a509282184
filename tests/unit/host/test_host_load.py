"""How busy the host's processors are."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from lab.host.process import CpuTimes, cpu_times


def test_busy_is_what_was_neither_idle_nor_waiting_for_a_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "PROCFS_PATH", str(tmp_path))
    stat = tmp_path / "stat"
    stat.write_text("cpu  10000 0 5000 80000 4000 500 500 0 7000 0\ncpu0 1 2 3 4 5 6 7 8 9 10\n")
    before = cpu_times()
    assert before == CpuTimes(total_s=1000, idle_s=840)
    stat.write_text("cpu  13000 0 7000 82000 6000 500 1500 0 9000 0\n")
    assert cpu_times().busy_since(before) == pytest.approx(0.6)
    assert before.busy_since(before) is None


def test_idle_time_that_runs_backwards_gives_no_nonsense() -> None:
    """As iowait may: proc_stat(5)."""
    assert CpuTimes(1010, 830).busy_since(CpuTimes(1000, 840)) == 1.0
    assert CpuTimes(1010, 900).busy_since(CpuTimes(1000, 840)) == 0.0
