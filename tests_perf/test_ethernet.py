"""Ethernet: TCP in both directions at once, UDP without loss, and UDP with possible loss, with the CPU load.

Programs: `netperf`, with a search after RFC 2544 for the fastest UDP rate that loses nothing; `iperf3` beside it.
The lab brings: a tester on the board's private link, with netperf and iperf3, as fast as the board's port.
In the guide: the tables of throughput of CPSW and ICSSG. The numbers of `iperf3` are in no table.
"""

from __future__ import annotations

import pytest

from lab.benchmarks.section import Section
from lab.pytest_plugin.sections import SectionRunSession


@pytest.mark.chapter(name="Ethernet")
def test_ethernet(section_measurer: SectionRunSession, section: Section) -> None:
    """Throughput is in the store; of UDP also packets and, where it is allowed, the loss."""
    section_measurer.measure(section)
    assert section_measurer.missing(section) == []
