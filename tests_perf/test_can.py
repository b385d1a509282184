"""CAN: frames of eight bytes a second through one controller, sent to itself at 1 Mbit/s.

Program: `cangen` (can-utils) sends 20,000 frames, timed by the program `time`.
The lab brings: a board with the CAN controller `can0`. No cable: the controller is in loopback.
In the guide: no table. The guides leave CAN out.
"""

from __future__ import annotations

import pytest

from lab.benchmarks.section import Section
from lab.pytest_plugin.sections import SectionRunSession


@pytest.mark.chapter(name="DCAN Driver")
def test_can(section_measurer: SectionRunSession, section: Section) -> None:
    """The frame rate is in the store."""
    section_measurer.measure(section)
    assert section_measurer.missing(section) == []
