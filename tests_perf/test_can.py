"""DCAN Driver: CAN loopback, which the guides leave out."""

from __future__ import annotations

import pytest

from lab.benchmarks.section import Section
from lab.pytest_plugin.sections import SectionMeasurer


@pytest.mark.chapter(name="DCAN Driver")
def test_can(section_measurer: SectionMeasurer, section: Section) -> None:
    """The section's numbers are in the store, or its preflight says what is missing."""
    section_measurer.measure(section)
