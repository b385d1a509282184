"""U-Boot's reads: throughput of `mmc read` and `sf read` of 16 MiB from each medium, and of a file over TFTP.

Program: U-Boot as it is, timed by the console's stamps; it needs no command `time`, and nothing is written.
The lab brings: how U-Boot calls the media (`benchmarks: {uboot: {sd: mmc 0, ospi: sf}}`), and a TFTP server's file
(`benchmarks: {tftp: FILE}`).
In the guide: no table. They are beside the sections that U-Boot times itself.
"""

from __future__ import annotations

import pytest

from lab.benchmarks.section import Section
from lab.pytest_plugin.sections import SectionRunSession


@pytest.mark.chapter(name="UBoot Reads")
def test_uboot_reads(section_measurer: SectionRunSession, section: Section) -> None:
    """The rates are in the store."""
    section_measurer.measure(section)
    assert section_measurer.missing(section) == []
