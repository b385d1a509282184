"""Real-time: how late the kernel wakes a thread of high priority, on each CPU.

Program: `cyclictest` (rt-tests) for a minute, with a thread on each CPU and a histogram.
The lab brings: nothing. Any kernel can be measured; the number matters for RT kernels.
In the guide: no table of the five guides that boardlab reads; the guides of RT kernels consist of such numbers.
"""

from __future__ import annotations

import pytest

from lab.benchmarks.section import Section
from lab.pytest_plugin.sections import SectionRunSession


@pytest.mark.chapter(name="Real-time")
def test_realtime(section_measurer: SectionRunSession, section: Section) -> None:
    """Minimum, mean, quantiles and maximum of the latency are in the store."""
    section_measurer.measure(section)
    assert section_measurer.missing(section) == []
