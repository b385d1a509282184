"""Boot-time Measurement: from "Starting kernel" to the Linux prompt, over power cycles from each medium."""

from __future__ import annotations

import pytest

from lab.pytest_plugin.cycles import CycleMeasurer


@pytest.mark.chapter(name="Boot-time Measurement")
def test_boot_time(boot_measurer: CycleMeasurer, boot_medium: str) -> None:
    """Every planned cycle has its sample."""
    boot_measurer.measure(boot_medium)
    assert boot_measurer.pending(boot_medium) == []
