"""Low Power Performance: resume latency by both definitions, over cycles of sleep in each mode."""

from __future__ import annotations

import pytest

from lab.pytest_plugin.cycles import CycleMeasurer


@pytest.mark.chapter(name="Low Power Performance")
def test_resume_latency(low_power_measurer: CycleMeasurer, sleep_mode: str) -> None:
    """Every planned cycle has its sample."""
    low_power_measurer.measure(sleep_mode)
    assert low_power_measurer.pending(sleep_mode) == []
