"""Real-time: wake-up latency, as the guides of the RT kernels have it."""

from __future__ import annotations

import pytest

from lab.benchmarks.section import Section
from lab.pytest_plugin.sections import SectionMeasurer


@pytest.mark.chapter(name="Real-time")
def test_realtime(section_measurer: SectionMeasurer, section: Section) -> None:
    """The section's numbers are in the store, or its preflight says what is missing."""
    section_measurer.measure(section)
