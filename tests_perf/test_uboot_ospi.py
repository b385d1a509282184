"""UBoot QSPI/OSPI Driver: U-Boot's reads and writes of the flash."""

from __future__ import annotations

import pytest

from lab.benchmarks.section import Section
from lab.pytest_plugin.sections import SectionMeasurer


@pytest.mark.chapter(name="UBoot QSPI/OSPI Driver")
def test_uboot_ospi(section_measurer: SectionMeasurer, section: Section) -> None:
    """The section's numbers are in the store, or its preflight says what is missing."""
    section_measurer.measure(section)
