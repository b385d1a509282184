"""Audio: how many bits a second ALSA moves, and the CPU load meanwhile, at each sampling rate from 8 to 96 kHz.

Program: the vendor's `run_alsa_perf.sh` (ltp-ddt), which captures and then plays.
The lab brings: a board with a sound card.
In the guide: "Audio Capture" and "Audio Playback".
"""

from __future__ import annotations

import pytest

from lab.benchmarks.section import Section
from lab.pytest_plugin.sections import SectionRunSession


@pytest.mark.chapter(name="ALSA SoC Audio Driver")
def test_alsa(section_measurer: SectionRunSession, section: Section) -> None:
    """Bit rate and CPU load of capture and playback are in the store."""
    section_measurer.measure(section)
    assert section_measurer.missing(section) == []
