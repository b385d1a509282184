"""PCIe Driver: Ethernet over a PCIe network card."""

from __future__ import annotations

import pytest

from lab.benchmarks.section import Section
from lab.pytest_plugin.sections import SectionMeasurer


@pytest.mark.chapter(name="PCIe Driver")
def test_pcie(section_measurer: SectionMeasurer, section: Section) -> None:
    """The section's numbers are in the store, or its preflight says what is missing."""
    section_measurer.measure(section)
