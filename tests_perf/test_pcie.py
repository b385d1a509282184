"""PCIe: TCP throughput in both directions through a PCIe network card, by the size of the TCP window.

Program: `iperf` (version 2) on the board and on the tester.
The lab brings: a network card in the board's PCIe slot (`enp1s0`), and a tester with iperf at the other end of its cable.
In the guide: "PCIe Ethernet performance" of the AM65x.
"""

from __future__ import annotations

import pytest

from lab.benchmarks.section import Section
from lab.pytest_plugin.sections import SectionRunSession


@pytest.mark.chapter(name="PCIe Driver")
def test_pcie(section_measurer: SectionRunSession, section: Section) -> None:
    """The throughput is in the store."""
    section_measurer.measure(section)
    assert section_measurer.missing(section) == []
