"""Low power: how long the board takes to wake from each low-power mode, and what it draws while it sleeps, is
off, idles, or works.

Program: none. Linux suspends the board, the host wakes it; the kernel's log and the console's times give the latency. Full load
is stress-ng, else loops of the shell.
The lab brings: what wakes the board (a serial adapter, or a digital output for `gpio` and `can`); for power the sensors of
the rails.
In the guide: "Resume Latency Performance", "Power Performance" and "Partial I/O Data".
"""

from __future__ import annotations

import pytest

from lab.pytest_plugin.run_session import CycleRunSession


@pytest.mark.chapter(name="Low Power Performance")
def test_resume_latency(low_power_measurer: CycleRunSession, sleep_mode: str) -> None:
    """Every planned cycle has its resume latency in the store, or the power of its state; power and energy where they are measured."""
    low_power_measurer.measure(sleep_mode)
    assert low_power_measurer.pending(sleep_mode) == []
    missing = low_power_measurer.missing(sleep_mode)
    assert missing == [], "\n".join(missing)
