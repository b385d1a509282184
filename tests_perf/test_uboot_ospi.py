"""OSPI flash in U-Boot: throughput of reads and writes, from a sixteenth to a half of the flash.

Program: U-Boot's `sf read` and `sf write`, timed by its command `time`. What was there before is written back and compared.
The lab brings: a range of the flash that may be overwritten (`scratch: {ospi: ...}`), `--lab-destructive`, and a U-Boot with
`CONFIG_CMD_TIME=y`.
In the guide: "UBoot QSPI/OSPI Driver".
"""

from __future__ import annotations

import pytest

from lab.benchmarks.section import Section
from lab.pytest_plugin.sections import SectionRunSession


@pytest.mark.chapter(name="UBoot QSPI/OSPI Driver")
def test_uboot_ospi(section_measurer: SectionRunSession, section: Section) -> None:
    """The throughput is in the store."""
    section_measurer.measure(section)
    assert section_measurer.missing(section) == []
