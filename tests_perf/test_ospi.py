"""OSPI flash under Linux: throughput of one raw read of 50 MiB from the largest partition.

Program: `dd`, timed by `time -p`. Its clock has steps of 10 ms, so only few values are possible, and the ± says so.
The lab brings: nothing. The flash is only read.
In the guide: "OSPI Raw Flash Driver".
"""

from __future__ import annotations

import pytest

from lab.benchmarks.section import Section
from lab.pytest_plugin.sections import SectionRunSession


@pytest.mark.chapter(name="Linux OSPI Flash Driver")
def test_ospi(section_measurer: SectionRunSession, section: Section) -> None:
    """The read throughput is in the store."""
    section_measurer.measure(section)
    assert section_measurer.missing(section) == []
