"""SD card in U-Boot: throughput of files of 4, 8 and 16 MiB on FAT.

Program: U-Boot's `fatwrite` and `fatload`, timed by its command `time`. Each file is compared after it was read.
The lab brings: a FAT partition of the card on which the file `test` may be written (`scratch: {sd_fat: ...}`),
`--lab-destructive`, and a U-Boot with `CONFIG_CMD_TIME=y`.
In the guide: "UBOOT MMCSD FAT".
"""

from __future__ import annotations

import pytest

from lab.benchmarks.section import Section
from lab.pytest_plugin.sections import SectionRunSession


@pytest.mark.chapter(name="UBoot MMCSD")
def test_uboot_mmcsd(section_measurer: SectionRunSession, section: Section) -> None:
    """The throughput is in the store."""
    section_measurer.measure(section)
    assert section_measurer.missing(section) == []
