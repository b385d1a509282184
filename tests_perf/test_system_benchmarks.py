"""Processor and memory: the classic benchmarks, each one a section.

Programs: LMBench, Dhrystone, Whetstone, Linpack, NBench, STREAM, CoreMark-Pro, MultiBench; sysbench and stress-ng beside them.
The lab brings: for CoreMark-Pro and MultiBench the EEMBC folder, which may not be redistributed.
In the guide: one table for each program. The numbers of sysbench and stress-ng are in no table.
"""

from __future__ import annotations

import pytest

from lab.benchmarks.section import Section
from lab.pytest_plugin.sections import SectionRunSession


@pytest.mark.chapter(name="System Benchmarks")
def test_system_benchmarks(section_measurer: SectionRunSession, section: Section) -> None:
    """Every rate, bandwidth and latency that the program prints is in the store."""
    section_measurer.measure(section)
    assert section_measurer.missing(section) == []
