"""Ethernet: TCP in both directions, UDP without loss and with possible loss."""

from __future__ import annotations

import pytest

from lab.benchmarks.section import Section
from lab.pytest_plugin.sections import SectionMeasurer


@pytest.mark.chapter(name="Ethernet")
def test_ethernet(section_measurer: SectionMeasurer, section: Section) -> None:
    """The section's numbers are in the store, or its preflight says what is missing."""
    section_measurer.measure(section)
