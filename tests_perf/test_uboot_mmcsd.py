"""UBoot MMCSD: U-Boot's files on FAT."""

from __future__ import annotations

import pytest

from lab.benchmarks.section import Section
from lab.pytest_plugin.sections import SectionMeasurer


@pytest.mark.chapter(name="UBoot MMCSD")
def test_uboot_mmcsd(section_measurer: SectionMeasurer, section: Section) -> None:
    """The section's numbers are in the store, or its preflight says what is missing."""
    section_measurer.measure(section)
