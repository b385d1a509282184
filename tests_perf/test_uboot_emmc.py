"""eMMC in U-Boot: throughput of raw reads and writes of 32 and 64 MiB.

Program: U-Boot's `mmc read` and `mmc write`, timed by its command `time`. What is written is what was read there before.
The lab brings: 64 MiB of the eMMC that may be overwritten (`scratch: {emmc_blocks: ...}`), `--lab-destructive`, and a U-Boot
with `CONFIG_CMD_TIME=y`.
In the guide: "UBOOT EMMC RAW".
"""

from __future__ import annotations

import pytest

from lab.benchmarks.section import Section
from lab.pytest_plugin.sections import SectionRunSession


@pytest.mark.chapter(name="UBoot EMMC Driver")
def test_uboot_emmc(section_measurer: SectionRunSession, section: Section) -> None:
    """The throughput is in the store."""
    section_measurer.measure(section)
    assert section_measurer.missing(section) == []
