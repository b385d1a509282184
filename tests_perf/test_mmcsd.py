"""SD card under Linux: read and write throughput of a file system, and the CPU load.

Programs: `fio` on ext4; the vendor's `filesystem_tests` with files of 100 MB on ext4, ext3, ext2 and vfat; `dd` for boards
without that program.
The lab brings: a partition of the card that may be formatted (`scratch: {sd: ...}`), and `--lab-destructive`. The number is
that of the card as much as that of the board: keep the card, or the flag `setup_changed` says that it is another one.
In the guide: "MMC EXT4 FIO 1G", "MMC EXT4", "MMC EXT3", "MMC EXT2". The numbers of `dd` are in no table.
"""

from __future__ import annotations

import pytest

from lab.benchmarks.section import Section
from lab.pytest_plugin.sections import SectionRunSession


@pytest.mark.chapter(name="MMCSD")
def test_mmcsd(section_measurer: SectionRunSession, section: Section) -> None:
    """The throughput of the section's program is in the store, with its CPU load where the program gives one."""
    section_measurer.measure(section)
    assert section_measurer.missing(section) == []
