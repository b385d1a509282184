"""NAND flash under Linux: read and write throughput of files on UBIFS, and the CPU load.

Program: the vendor's `filesystem_tests` with files of 100 MB.
The lab brings: a board with NAND, an MTD partition of it that may be erased (`scratch: {nand: ...}`), and `--lab-destructive`.
In the guide: "NAND Driver" of the AM437x.
"""

from __future__ import annotations

import pytest

from lab.benchmarks.section import Section
from lab.pytest_plugin.sections import SectionRunSession


@pytest.mark.chapter(name="NAND Driver")
def test_nand(section_measurer: SectionRunSession, section: Section) -> None:
    """Throughput and CPU load are in the store."""
    section_measurer.measure(section)
    assert section_measurer.missing(section) == []
