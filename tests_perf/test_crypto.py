"""Encryption: how fast the board encrypts and hashes, and how fast an encrypted link is.

Programs: `openssl speed` for each algorithm and block size, with the CPU load; `iperf` through an IPSec tunnel, encrypted
once by the CPU and once by the crypto accelerator.
The lab brings: for IPSec a tester on the board's private Ethernet link, with iperf.
In the guide: the tables of OpenSSL and of IPSec in software and in hardware.
"""

from __future__ import annotations

import pytest

from lab.benchmarks.section import Section
from lab.pytest_plugin.sections import SectionRunSession


@pytest.mark.chapter(name="CRYPTO Driver")
def test_crypto(section_measurer: SectionRunSession, section: Section) -> None:
    """Throughput and CPU load are in the store; of IPSec the packet rate, too."""
    section_measurer.measure(section)
    assert section_measurer.missing(section) == []
