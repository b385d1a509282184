"""USB: how fast a PC reads and writes the board as a USB disk. The disk is in the board's memory.

Program: `dd` on the tester.
The lab brings: a USB cable from the board's device port to the tester, on which `usb_disk` names the disk.
In the guide: "USBDEVICE HIGHSPEED SLAVE READ THROUGHPUT" and "... WRITE THROUGHPUT".
"""

from __future__ import annotations

import pytest

from lab.benchmarks.section import Section
from lab.pytest_plugin.sections import SectionRunSession


@pytest.mark.chapter(name="USB Driver")
def test_usb(section_measurer: SectionRunSession, section: Section) -> None:
    """The throughput is in the store."""
    section_measurer.measure(section)
    assert section_measurer.missing(section) == []
